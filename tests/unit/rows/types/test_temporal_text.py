"""DATE, DATETIME and TIMESTAMP as text."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import decode_column

AS_TEXT = Policies(zero_dates=ZeroDates.TEXT)
MICROS = 987_654


def read(kind: ColumnType, metadata: bytes, *values: Any) -> list[Any]:
    column = wire.column(kind, metadata)
    stored = (None if value is None else wire.encode(column, value) for value in values)
    decoded = decode_column(column, *stored, policies=AS_TEXT)
    assert decoded.unrepresentable == {}
    texts: list[Any] = decoded.columns[1].to_pylist()
    return texts


def test_date() -> None:
    parts = [(0, 0, 0), (2024, 0, 0), (2023, 2, 31), (9999, 12, 31), (1, 1, 1), (2026, 15, 31)]

    assert read(ColumnType.DATE, b"", *parts, None) == [
        "0000-00-00",
        "2024-00-00",
        "2023-02-31",
        "9999-12-31",
        "0001-01-01",
        "2026-15-31",
        None,
    ]


@pytest.mark.parametrize("fsp", range(7))
def test_digits_of_a_second(fsp: int) -> None:
    micros = MICROS // 10 ** (6 - fsp) * 10 ** (6 - fsp)
    fraction = "." + str(MICROS)[:fsp] if fsp else ""
    zeros = "." + "0" * fsp if fsp else ""

    assert read(
        ColumnType.DATETIME2, bytes([fsp]), (2026, 2, 30, 1, 2, 3, micros), (0, 0, 0), None
    ) == [f"2026-02-30 01:02:03{fraction}", f"0000-00-00 00:00:00{zeros}", None]
    assert read(
        ColumnType.TIMESTAMP2, bytes([fsp]), 1_709_210_096 * 1_000_000 + micros, 0, None, 1_000_000
    ) == [
        f"2024-02-29 12:34:56{fraction}",
        f"0000-00-00 00:00:00{zeros}",
        None,
        f"1970-01-01 00:00:01{zeros}",
    ]


def test_the_last_timestamp() -> None:
    assert read(ColumnType.TIMESTAMP2, b"\x06", (2**32 - 1) * 1_000_000 + 999_999) == [
        "2106-02-07 06:28:15.999999"
    ]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (ColumnType.DATE, "ffffff"),
        (ColumnType.DATETIME2, "0000000000"),
        (ColumnType.DATETIME2, "ffffffffff"),
    ],
)
def test_a_year_of_five_digits(kind: ColumnType, data: str) -> None:
    column = wire.column(kind, b"" if kind == ColumnType.DATE else b"\x00")

    with pytest.raises(FormatError, match=r"year of five digits.*column=@2"):
        decode_column(column, bytes.fromhex(data), policies=AS_TEXT)


def test_a_fraction_of_more_than_a_second() -> None:
    column = wire.column(ColumnType.TIMESTAMP2, b"\x02")

    with pytest.raises(FormatError, match="too many digits"):
        decode_column(column, bytes.fromhex("0000000164"), policies=AS_TEXT)


def test_the_type_does_not_depend_on_the_values() -> None:
    table_map = wire.table(
        wire.column(ColumnType.DATE),
        wire.column(ColumnType.DATETIME2, b"\x03"),
        wire.column(ColumnType.TIMESTAMP2, b"\x03"),
        wire.column(ColumnType.TIME2, b"\x03"),
        wire.column(ColumnType.YEAR),
    )
    layout = compile_layout(table_map, policies=AS_TEXT)

    assert list(map(str, layout.schema.types)) == ["string", "string", "string", "int64", "int32"]
    assert [column.mysql_type for column in layout.columns][1] == "datetime(3)"
