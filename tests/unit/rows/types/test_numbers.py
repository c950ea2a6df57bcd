"""Integers, YEAR, FLOAT, DOUBLE and BIT."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import read

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

# type, bytes, signed value, unsigned value
VECTORS = [
    (ColumnType.TINY, "7f", 127, 127),
    (ColumnType.TINY, "80", -128, 128),
    (ColumnType.TINY, "ff", -1, 255),
    (ColumnType.SHORT, "0080", -32768, 32768),
    (ColumnType.SHORT, "ffff", -1, 65535),
    (ColumnType.INT24, "ffff7f", 8388607, 8388607),
    (ColumnType.INT24, "000080", -8388608, 8388608),
    (ColumnType.INT24, "ffffff", -1, 16777215),
    (ColumnType.LONG, "00000080", -2147483648, 2147483648),
    (ColumnType.LONG, "ffffffff", -1, 4294967295),
    (ColumnType.LONGLONG, "0000000000000080", -(2**63), Decimal(2**63)),
    (ColumnType.LONGLONG, "ffffffffffffffff", -1, Decimal(2**64 - 1)),
]


@pytest.mark.parametrize(("kind", "data", "signed", "unsigned"), VECTORS)
def test_integer(kind: ColumnType, data: str, signed: int, unsigned: int | Decimal) -> None:
    value = bytes.fromhex(data)

    assert read(wire.column(kind, unsigned=False), value, None) == [signed, None]
    assert read(wire.column(kind, unsigned=True), None, value) == [None, unsigned]


def test_year_zero_is_0000_and_one_is_1901() -> None:
    assert read(wire.column(ColumnType.YEAR), b"\x00", b"\x01", b"\xff") == [0, 1901, 2155]


@pytest.mark.parametrize(
    ("kind", "unsigned", "expected"),
    [
        (ColumnType.TINY, True, pa.int32()),
        (ColumnType.INT24, True, pa.int32()),
        (ColumnType.LONG, False, pa.int32()),
        (ColumnType.LONG, True, pa.int64()),
        (ColumnType.LONGLONG, False, pa.int64()),
        (ColumnType.LONGLONG, True, pa.decimal128(20, 0)),
    ],
)
def test_type(kind: ColumnType, unsigned: bool, expected: pa.DataType) -> None:
    layout = compile_layout(wire.table(wire.column(kind, unsigned=unsigned)))

    assert layout.schema.types == [expected]


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


def bit(width: int) -> TableMapColumn:
    return wire.column(ColumnType.BIT, bytes([width % 8, width // 8]))


def test_one_bit_is_a_boolean() -> None:
    assert read(bit(1), b"\x00", b"\x01", None) == [False, True, None]


@pytest.mark.parametrize(
    ("width", "value"), [(2, "03"), (8, "ff"), (9, "01ff"), (10, "0200"), (64, "8000000000000001")]
)
def test_more_bits_are_bytes_with_the_highest_first(width: int, value: str) -> None:
    data = bytes.fromhex(value)

    assert read(bit(width), data, None, data) == [data, None, data]


@pytest.mark.parametrize("metadata", [b"\x00\x00", b"\x01\x08", b"\xff\xff"])
def test_no_such_type(metadata: bytes) -> None:
    with pytest.raises(FormatError, match="not a BIT"):
        compile_layout(wire.table(wire.column(ColumnType.BIT, metadata)))
