"""DECIMAL in 64 bits, in 128 bits, and as text."""

from __future__ import annotations

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


def decimal(precision: int, scale: int) -> TableMapColumn:
    return wire.column(ColumnType.NEWDECIMAL, bytes([precision, scale]))


def test_the_example_of_the_source() -> None:
    # strings/decimal.cc, decimal2bin: 1234567890.1234 as DECIMAL(14,4).
    plus, minus = bytes.fromhex("810dfb38d204d2"), bytes.fromhex("7ef204c72dfb2d")

    expected = [Decimal("1234567890.1234"), Decimal("-1234567890.1234"), None]
    assert read(decimal(14, 4), plus, minus, None) == expected


@pytest.mark.parametrize(
    ("precision", "scale"),
    [(1, 0), (1, 1), (9, 9), (10, 2), (18, 0), (19, 0), (30, 30), (38, 0), (38, 9), (38, 30)],
)
def test_edges(precision: int, scale: int) -> None:
    column = decimal(precision, scale)
    values = [Decimal(number).scaleb(-scale) for number in (0, 1, -1)]
    values += [Decimal((sign, (9,) * precision, -scale)) for sign in (0, 1)]

    assert read(column, *(wire.encode(column, value) for value in values)) == values


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (0, "0"),
        (0, "-7"),
        (0, "9" * 65),
        (30, "0." + "0" * 30),
        (30, "-0." + "0" * 29 + "1"),
        (30, "-" + "9" * 35 + "." + "9" * 30),
        (9, "1000000000." + "0" * 8 + "1"),
    ],
)
def test_above_38_digits_it_is_what_select_prints(scale: int, text: str) -> None:
    column = decimal(65, scale)

    assert read(column, wire.encode(column, Decimal(text)), None) == [text, None]


def test_39_digits_are_the_first_as_text() -> None:
    layout = compile_layout(wire.table(decimal(38, 2), decimal(39, 2)))

    assert layout.schema.types == [pa.decimal128(38, 2), pa.string()]


@pytest.mark.parametrize("precision", [18, 38, 65])
def test_a_group_above_its_digits_is_refused(precision: int) -> None:
    column = decimal(precision, 0)
    data = bytearray(wire.encode(column, Decimal(0)))
    data[-4:] = b"\xff\xff\xff\xff"

    with pytest.raises(FormatError, match=r"not a DECIMAL.*column=@2"):
        read(column, bytes(data))


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (66, 0), (65, 31), (3, 4)])
def test_no_such_type(precision: int, scale: int) -> None:
    with pytest.raises(FormatError, match=r"not a DECIMAL.*table=shop.orders"):
        compile_layout(wire.table(decimal(precision, scale)))
