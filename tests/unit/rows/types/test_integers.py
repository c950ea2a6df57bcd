"""TINYINT to BIGINT and YEAR."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import read

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
