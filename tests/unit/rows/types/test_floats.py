"""FLOAT and DOUBLE."""

from __future__ import annotations

import math
import struct

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from tests.unit.rows import wire
from tests.unit.rows.columns import read

EDGES = [0.0, 1.5, -1.5, 2.0**-126, 2.0**-149, -(2.0**127)]


def test_float() -> None:
    values = [struct.pack("<f", value) for value in EDGES]

    assert read(wire.column(ColumnType.FLOAT, b"\x04"), *values, None) == [*EDGES, None]


def test_double() -> None:
    edges = [*EDGES, 5e-324, 1.7976931348623157e308, 0.1]
    values = [struct.pack("<d", value) for value in edges]

    assert read(wire.column(ColumnType.DOUBLE, b"\x08"), *values, None) == [*edges, None]


@pytest.mark.parametrize(("kind", "form"), [(ColumnType.FLOAT, "<f"), (ColumnType.DOUBLE, "<d")])
def test_the_sign_of_zero_is_kept(kind: ColumnType, form: str) -> None:
    (zero,) = read(wire.column(kind, b"\x04"), struct.pack(form, -0.0))

    assert math.copysign(1, zero) == -1
