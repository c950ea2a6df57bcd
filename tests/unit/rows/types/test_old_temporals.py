"""TIME, DATETIME and TIMESTAMP from before MySQL 5.6."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import decode_column, read

SECOND = 1_000_000
AS_TEXT = Policies(zero_dates=ZeroDates.TEXT)


def hexes(*values: str) -> list[bytes]:
    return [bytes.fromhex(value) for value in values]


def test_without_digits() -> None:
    time = wire.column(ColumnType.TIME, datetime_precision=0)
    moment = wire.column(ColumnType.DATETIME, datetime_precision=0)
    instant = wire.column(ColumnType.TIMESTAMP, datetime_precision=0)

    # 123456, -8385959 and -1 as three bytes; 20240229123456 as eight; 1 and 2**32 - 1 as four.
    assert read(time, *hexes("40e201", "590a80", "ffffff"), None) == [
        45_296 * SECOND,
        -3_020_399 * SECOND,
        -SECOND,
        None,
    ]
    stored = (20_240_229_123_456).to_bytes(8, "little")
    assert read(moment, stored, None) == [datetime(2024, 2, 29, 12, 34, 56), None]
    assert read(instant, *hexes("01000000", "ffffffff")) == [
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    "stored",
    [0, 20_240_231_000_000, 20_241_301_000_000, 20_240_101_240_000, 10**14, 2**64 - 1],
)
def test_zero_and_invalid_dates_are_null_and_counted(stored: int) -> None:
    column = wire.column(ColumnType.DATETIME, datetime_precision=0)
    decoded = decode_column(column, stored.to_bytes(8, "little"), None)

    assert decoded.columns[1].to_pylist() == [None, None]
    assert decoded.unrepresentable == {"@2": 1}


def test_as_text() -> None:
    moment = wire.column(ColumnType.DATETIME, datetime_precision=0)
    instant = wire.column(ColumnType.TIMESTAMP, datetime_precision=2)
    stored = [number.to_bytes(8, "little") for number in (0, 20_240_231_235_959)]

    assert read(moment, *stored, None, policies=AS_TEXT) == [
        "0000-00-00 00:00:00",
        "2024-02-31 23:59:59",
        None,
    ]
    seconds = (1_709_210_096).to_bytes(4, "big")
    assert read(instant, bytes(5), seconds + b"\x62", policies=AS_TEXT) == [
        "0000-00-00 00:00:00.00",
        "2024-02-29 12:34:56.98",
    ]
    with pytest.raises(FormatError, match="not a date"):
        read(moment, (10**14).to_bytes(8, "little"), policies=AS_TEXT)


@pytest.mark.parametrize("kind", [ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP])
def test_without_information_schema_the_error_says_what_to_change(kind: ColumnType) -> None:
    with pytest.raises(UnsupportedError, match=r"FORCE.*mysql56_temporal_format=ON"):
        compile_layout(wire.table(wire.column(kind)), allow_missing_metadata=True)


@pytest.mark.parametrize("digits", [-1, 7])
def test_no_such_precision(digits: int) -> None:
    with pytest.raises(FormatError, match="digits of a second"):
        compile_layout(wire.table(wire.column(ColumnType.TIME, datetime_precision=digits)))
