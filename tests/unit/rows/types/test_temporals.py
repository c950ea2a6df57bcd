"""Dates and times, those in the formats from before MySQL 5.6 too."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import decode_column, read

SECOND = 1_000_000


def test_date() -> None:
    column = wire.column(ColumnType.DATE)
    dates = [date(1, 1, 1), date(1000, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date.max]

    assert read(column, *(wire.encode(column, value) for value in dates), None) == [*dates, None]


@pytest.mark.parametrize(
    "parts",
    [
        *[(0, 0, 0), (2024, 0, 0), (2024, 1, 0), (2024, 2, 31), (2023, 2, 29), (1900, 2, 29)],
        *[(2024, 13, 1), (2024, 15, 31), (0, 1, 1), (10_000, 1, 1), (32_767, 15, 31)],
    ],
)
def test_zero_and_invalid_dates_are_null_and_counted(parts: tuple[int, ...]) -> None:
    for kind, metadata in ((ColumnType.DATE, b""), (ColumnType.DATETIME2, b"\x00")):
        column = wire.column(kind, metadata)
        if kind == ColumnType.DATETIME2 and parts[0] > 10_000:
            continue
        decoded = decode_column(column, wire.encode(column, parts), None)

        assert decoded.columns[1].to_pylist() == [None, None]
        assert decoded.unrepresentable == {"@2": 1}


@pytest.mark.parametrize(
    ("fsp", "data", "expected"),
    [
        (0, "fef3ff7efb", datetime(9999, 12, 31, 23, 59, 59)),
        (6, "fef3ff7efb0f423f", datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    ],
)
def test_datetime(fsp: int, data: str, expected: datetime) -> None:
    column = wire.column(ColumnType.DATETIME2, bytes([fsp]))
    values = read(column, bytes.fromhex(data), None)

    assert values == [expected, None]


@pytest.mark.parametrize("fsp", range(7))
def test_digits_of_a_second(fsp: int) -> None:
    micros = 987_654 // 10 ** (6 - fsp) * 10 ** (6 - fsp)
    moment = datetime(2024, 2, 29, 23, 59, 58, micros)
    since = int(moment.replace(tzinfo=UTC).timestamp()) * SECOND + micros
    meta = bytes([fsp])
    datetimes, timestamps, times = (
        wire.column(kind, meta)
        for kind in (ColumnType.DATETIME2, ColumnType.TIMESTAMP2, ColumnType.TIME2)
    )

    assert read(datetimes, wire.encode(datetimes, moment)) == [moment]
    assert read(timestamps, wire.encode(timestamps, since)) == [moment.replace(tzinfo=UTC)]
    assert read(times, wire.encode(times, micros), wire.encode(times, -micros)) == [micros, -micros]


def test_a_timestamp_is_unsigned() -> None:
    # MariaDB 11.8: row_end of a live row of a system-versioned table.
    column = wire.column(ColumnType.TIMESTAMP2, b"\x06")

    expected = datetime(2106, 2, 7, 6, 28, 15, 999_999, tzinfo=UTC)
    assert read(column, bytes.fromhex("ffffffff0f423f")) == [expected]


def test_timestamp_zero_is_no_moment() -> None:
    column = wire.column(ColumnType.TIMESTAMP2, b"\x02")
    decoded = decode_column(column, bytes(5), bytes.fromhex("0000000001"))

    assert decoded.columns[1].to_pylist() == [None, datetime(1970, 1, 1, 0, 0, 0, 10_000, UTC)]
    assert decoded.unrepresentable == {"@2": 1}


@pytest.mark.parametrize(
    ("data", "micros"),
    [
        # mysys/my_time.cc, my_time_packed_from_binary: the table in the comment.
        ("80000000", 0),
        ("7fffffff", -10_000),
        ("7fffff9d", -990_000),
        ("7fffff00", -SECOND),
        ("7ffffeff", -1_010_000),
        ("7ffffef6", -1_100_000),
    ],
)
def test_time_below_zero_borrows_from_its_fraction(data: str, micros: int) -> None:
    assert read(wire.column(ColumnType.TIME2, b"\x02"), bytes.fromhex(data)) == [micros]


@pytest.mark.parametrize("fsp", range(7))
def test_time_limits(fsp: int) -> None:
    column = wire.column(ColumnType.TIME2, bytes([fsp]))
    limit = (838 * 3600 + 59 * 60 + 59) * SECOND

    values = (wire.encode(column, limit), wire.encode(column, -limit), wire.encode(column, 0))
    assert read(column, *values) == [limit, -limit, 0]


@pytest.mark.parametrize("kind", [ColumnType.DATETIME2, ColumnType.TIME2, ColumnType.TIMESTAMP2])
def test_seven_digits_are_refused(kind: ColumnType) -> None:
    with pytest.raises(FormatError, match="fsp=7"):
        compile_layout(wire.table(wire.column(kind, b"\x07")))


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
def test_zero_and_invalid_old_dates_are_null_and_counted(stored: int) -> None:
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
