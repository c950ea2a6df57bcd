"""DATE, DATETIME, TIMESTAMP, TIME and YEAR as a result set has them.

    DATE, DATETIME, TIMESTAMP   0, 4, 7 or 11 bytes: 2 year | month | day | hour | minute | second
                                | 4 microseconds; what is left out is 0
    TIME                        0, 8 or 12 bytes: negative | 4 days | hour | minute | second
                                | 4 microseconds
    YEAR                        2 bytes

All are little-endian. A TIMESTAMP is in the session's time zone, which is UTC.

Source: MySQL Internals, "Binary Protocol Value"; mysql-server, sql/protocol_classic.cc,
Protocol_binary::store_datetime, store_date and store_time; mariadb, sql/protocol.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.moments import Instants, Moments
from airflow_provider_binlog.rows.values import Array, Values, array_of

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array

_MICROSECONDS = 1_000_000
_MONTHS = 13
_DATE_BYTES, _CLOCK_BYTES, _MOMENT_BYTES = 4, 7, 11
_TIME_BYTES, _TIME_BYTES_MAX = 8, 12


def read_moments(values: Values) -> Moments:
    """Read dates, with a time of day or without."""
    _check_lengths(values, (0, _DATE_BYTES, _CLOCK_BYTES, _MOMENT_BYTES))
    words = values.memory.u8[values.offset]
    if int(values.lengths.min(initial=_CLOCK_BYTES)) < _CLOCK_BYTES:
        # Bytes that a value does not have are those of the next one.
        words &= _KEPT.take(np.minimum(values.lengths, _CLOCK_BYTES))
    parts = words.view(np.int64)
    return Moments(
        month=(parts & 0xFFFF) * _MONTHS + (parts >> 16 & 0xFF),
        day=parts >> 24 & 0xFF,
        hour=parts >> 32 & 0xFF,
        minute=parts >> 40 & 0xFF,
        second=parts >> 48 & 0xFF,
        micros=_micros(values, _CLOCK_BYTES),
        months=_MONTHS,
    )


_KEPT = np.array([(1 << 8 * size) - 1 for size in range(_TIME_BYTES + 1)], dtype=np.uint64)


def read_instants(values: Values) -> Instants:
    """Read points in time, in UTC."""
    parts = read_moments(values)
    days, valid = parts.days()
    seconds = ((days.astype(np.int64) * 24 + parts.hour) * 60 + parts.minute) * 60 + parts.second
    return Instants(seconds * valid, parts.micros * valid)


def times(values: Values) -> Array:
    """Read TIMEs: signed microseconds, int64."""
    _check_lengths(values, (0, _TIME_BYTES, _TIME_BYTES_MAX))
    words = values.memory.u8[values.offset]
    if int(values.lengths.min(initial=_TIME_BYTES)) < _TIME_BYTES:
        words &= _KEPT.take(np.minimum(values.lengths, _TIME_BYTES))
    parts = (words & np.uint64((1 << 63) - 1)).view(np.int64)
    hours = (parts >> 8 & 0xFFFFFFFF) * 24 + (parts >> 40 & 0xFF)
    minute, second = parts >> 48 & 0xFF, parts >> 56 & 0xFF
    total = ((hours * 60 + minute) * 60 + second) * _MICROSECONDS + _micros(values, _TIME_BYTES)
    return array_of(pa.int64(), np.where(parts & 1, -total, total), values.null)


def years(values: Values) -> Array:
    """Read YEARs: int32."""
    return array_of(pa.int32(), values.memory.u2[values.offset].astype(np.int32), values.null)


def _micros(values: Values, before: int) -> Int64Array | int:
    """Return the microseconds, which are after so many bytes in the longest values."""
    some = values.lengths > before
    if not some.any():
        return 0
    return values.memory.u4[values.offset + before].astype(np.int64) * some


def _check_lengths(values: Values, known: tuple[int, ...]) -> None:
    if not np.isin(values.lengths, known).all():
        raise FormatError("not the length of a date or time in a result set")
