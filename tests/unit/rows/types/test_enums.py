"""ENUM and SET."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import read

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


def test_enum() -> None:
    column = wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"new", b"gr\xc3\xbcn"))

    assert read(column, b"\x00", b"\x01", b"\x02", None) == ["", "new", "grün", None]


def test_enum_of_more_than_255_values_takes_two_bytes() -> None:
    values = tuple(b"%d" % number for number in range(1, 301))
    column = wire.column(ColumnType.ENUM, b"\x02", enum_values=values)

    assert read(column, b"\x01\x00", b"\x2c\x01") == ["1", "300"]


def test_values_are_in_the_columns_character_set() -> None:
    # MySQL 9.7: latin1 'ü' is logged as fc.
    column = wire.column(
        ColumnType.SET, b"\x01", set_members=(b"\xfc", b"b", b"\xe9"), collation=wire.LATIN1
    )

    assert read(column, b"\x00", b"\x01", b"\x05", b"\x07", None) == ["", "ü", "ü,é", "ü,b,é", None]


def test_values_of_a_binary_column_are_bytes() -> None:
    column = wire.column(
        ColumnType.ENUM, b"\x01", enum_values=(b"\xff", b"b"), collation=wire.BINARY
    )

    assert read(column, b"\x00", b"\x01", None) == [b"", b"\xff", None]


def test_set_of_64_members() -> None:
    values = tuple(b"%d" % number for number in range(64))
    column = wire.column(ColumnType.SET, b"\x08", set_members=values)

    assert read(column, b"\xff" * 8, bytes(7) + b"\x80") == [
        ",".join(map(str, range(64))),
        "63",
    ]


@pytest.mark.parametrize(
    ("column", "data"),
    [
        (wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"a",)), b"\x02"),
        (wire.column(ColumnType.SET, b"\x01", set_members=(b"a",)), b"\x02"),
    ],
)
def test_no_such_value(column: TableMapColumn, data: bytes) -> None:
    with pytest.raises(FormatError, match="no such"):
        read(column, data)


@pytest.mark.parametrize("kind", [ColumnType.ENUM, ColumnType.SET])
@pytest.mark.parametrize("size", [0, 9])
def test_no_such_size(kind: ColumnType, size: int) -> None:
    column = wire.column(kind, bytes([size]), enum_values=(b"a",), set_members=(b"a",))

    with pytest.raises(FormatError, match="not the size"):
        compile_layout(wire.table(column))


@pytest.mark.parametrize("kind", [ColumnType.ENUM, ColumnType.SET])
def test_without_values_the_error_says_what_to_set(kind: ColumnType) -> None:
    table_map = wire.table(wire.column(kind, b"\x01", name="state"))

    with pytest.raises(UnsupportedError, match=r"binlog_row_metadata=FULL.*column=state"):
        compile_layout(table_map)
