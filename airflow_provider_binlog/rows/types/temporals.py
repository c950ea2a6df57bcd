"""DATE, DATETIME, TIMESTAMP and TIME with 0 to 6 digits of a second.

    DATE        3 bytes, little-endian  year 15 | month 4 | day 5 bits
    DATETIME    5 bytes, big-endian     1 | year * 13 + month 17 | day 5 | hour 5 | min 6 | sec 6
    TIMESTAMP   4 bytes, big-endian     seconds since 1970 in UTC, unsigned
    TIME        3 bytes, big-endian     2 | hour 10 | min 6 | sec 6, plus half the range
    then the fraction of a second in 0 to 3 bytes: in units of 1/100, 1/10,000, 1/1,000,000

What no lake type holds (zero dates, the 31st of February) becomes NULL; `temporal_text` prints it.

Source: mysql-server mysys/my_time.cc, my_datetime_packed_from_binary, my_time_packed_from_binary,
my_timestamp_from_binary; sql/field.cc, Field_newdate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import Array, Plan, Values, array_of

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array

FSP_MAX = 6
YEAR_MAX = 9999

_MICROSECONDS = 1_000_000
_FRACTION_UNIT = (0, 10_000, 100, 1)
_DATE_MONTHS = 16
_DATETIME_MONTHS = 13

DATETIME = pa.timestamp("us")
TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Moments:
    """Dates with a time of day, in parts; zero and invalid dates too.

    Attributes:
        year, month, day, hour, minute, second: int64, one entry per value.
        micros: int64, or 0 where no value has any.
    """

    year: Int64Array
    month: Int64Array
    day: Int64Array
    hour: Int64Array
    minute: Int64Array
    second: Int64Array
    micros: Int64Array | int


@dataclass(frozen=True)
class Instants:
    """Points in time; both 0 for the zero date.

    Attributes:
        seconds: int64, since 1970 in UTC, one entry per value.
        micros: int64, or 0 where no value has any.
    """

    seconds: Int64Array
    micros: Int64Array | int


def date_plan() -> Plan:
    """Return how to read DATE: date32."""
    return Plan(pa.date32(), _date, size=3)


def datetime_plan(fsp: int) -> Plan:
    """Return how to read DATETIME(`fsp`): a timestamp in microseconds without a zone."""
    fraction = fraction_bytes(fsp)
    return Plan(DATETIME, partial(_datetime, fraction=fraction), size=5 + fraction)


def timestamp_plan(fsp: int) -> Plan:
    """Return how to read TIMESTAMP(`fsp`): a timestamp in microseconds, in UTC."""
    fraction = fraction_bytes(fsp)
    return Plan(TIMESTAMP, partial(_timestamp, fraction=fraction), size=4 + fraction)


def time_plan(fsp: int) -> Plan:
    """Return how to read TIME(`fsp`): signed microseconds, int64."""
    fraction = fraction_bytes(fsp)
    return Plan(pa.int64(), partial(_time, fraction=fraction), size=3 + fraction)


def fraction_bytes(fsp: int) -> int:
    """Return how many bytes `fsp` digits of a second take.

    Raises:
        FormatError: There are more digits than MySQL knows.
    """
    if fsp > FSP_MAX:
        raise FormatError("more than 6 digits of a second", fsp=fsp)
    return (fsp + 1) // 2


@cache
def _calendar(months: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the first day, since 1970, and the number of days of each month.

    Both are indexed by `year * months + month`. What is no month of the years 1 to 9999 has no
    days; the last entry stands for everything after it. Year 0 is left out: its length differs
    between calendars, and readers of dates begin at year 1.
    """
    first = np.zeros((YEAR_MAX + 1, months), dtype=np.int32)
    days = np.zeros((YEAR_MAX + 1, months), dtype=np.uint8)
    starts = np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]")
    numbers = starts.astype(np.int64)
    first[1:, 1:13] = numbers[:-1].reshape(YEAR_MAX, 12)
    days[1:, 1:13] = np.diff(numbers).reshape(YEAR_MAX, 12)
    return np.append(first, np.int32(0)), np.append(days, np.uint8(0))


def _days(
    index: Int64Array, day: Int64Array, months: int
) -> tuple[Int64Array, npt.NDArray[np.bool_]]:
    """Return days since 1970, and which of them are dates at all."""
    first, days = _calendar(months)
    at = np.minimum(index, len(first) - 1)
    return first.take(at) + day - 1, (day > 0) & (day <= days.take(at))


def _finish(
    data_type: pa.DataType,
    numbers: npt.NDArray[np.signedinteger[npt.NBitBase]],
    valid: npt.NDArray[np.bool_],
    values: Values,
) -> Array:
    """Return the array with NULL where there is no valid value."""
    if valid.all():
        return array_of(data_type, numbers, values.null)
    null = ~valid if values.null is None else values.null | ~valid
    return array_of(data_type, numbers, null)


def read_dates(values: Values) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return year, month and day of DATEs."""
    stored = values.memory.u4[values.offset].astype(np.int64) & 0xFFFFFF
    return stored >> 9, stored >> 5 & 15, stored & 31


def _date(values: Values) -> Array:
    stored = values.memory.u4[values.offset].astype(np.int64) & 0xFFFFFF
    # year << 4 | month: the table's own index, with room for 16 months in a year.
    days, valid = _days(stored >> 5, stored & 31, _DATE_MONTHS)
    return _finish(pa.date32(), days.astype(np.int32), valid, values)


def _fraction(words: npt.NDArray[np.uint64], last: int, size: int) -> Int64Array | int:
    """Return microseconds from the `size` bytes that end at byte `last` of each word."""
    if not size:
        return 0
    shifted = words >> np.uint64(8 * (8 - last)) & np.uint64((1 << 8 * size) - 1)
    return shifted.view(np.int64) * _FRACTION_UNIT[size]


def read_moments(values: Values, fraction: int) -> Moments:
    """Return the parts of DATETIMEs with so many bytes of a fraction."""
    words = values.memory.big_endian(values.offset)
    # A value that lacks its top bit is after year 9999.
    packed = (words >> np.uint64(24)).view(np.int64) ^ (1 << 39)
    year, month = np.divmod(packed >> 22, _DATETIME_MONTHS)
    day, hour, minute = packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63
    return Moments(
        year, month, day, hour, minute, packed & 63, _fraction(words, 5 + fraction, fraction)
    )


def _datetime(values: Values, *, fraction: int) -> Array:
    words = values.memory.big_endian(values.offset)
    # Without its top bit the number is positive; a value that lacks the bit is after year 9999.
    packed = (words >> np.uint64(24)).view(np.int64) ^ (1 << 39)
    days, valid = _days(packed >> 22, packed >> 17 & 31, _DATETIME_MONTHS)
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    micros = _fraction(words, 5 + fraction, fraction)
    valid &= (hour < 24) & (minute < 60) & (second < 60) & (micros < _MICROSECONDS)
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return _finish(DATETIME, seconds * _MICROSECONDS + micros, valid, values)


def moments_array(parts: Moments, values: Values) -> Array:
    """Return the moments as timestamps without a zone, NULL for what is none."""
    # An invalid month is looked up after the last year.
    index = np.where(parts.month < _DATETIME_MONTHS, parts.year * _DATETIME_MONTHS, 1 << 40)
    days, valid = _days(index + parts.month, parts.day, _DATETIME_MONTHS)
    valid &= (parts.hour < 24) & (parts.minute < 60) & (parts.second < 60)
    valid &= parts.micros < _MICROSECONDS
    seconds = ((days * 24 + parts.hour) * 60 + parts.minute) * 60 + parts.second
    return _finish(DATETIME, seconds * _MICROSECONDS + parts.micros, valid, values)


def read_instants(values: Values, fraction: int) -> Instants:
    """Return the parts of TIMESTAMPs with so many bytes of a fraction."""
    words = values.memory.big_endian(values.offset)
    return Instants(
        (words >> np.uint64(32)).view(np.int64), _fraction(words, 4 + fraction, fraction)
    )


def _timestamp(values: Values, *, fraction: int) -> Array:
    return instants_array(read_instants(values, fraction), values)


def instants_array(parts: Instants, values: Values) -> Array:
    """Return the instants as timestamps in UTC, NULL for the zero date."""
    total = parts.seconds * _MICROSECONDS + parts.micros
    # 0 is '0000-00-00 00:00:00': the first second of 1970 is not in the type's range.
    return _finish(TIMESTAMP, total, (total > 0) & (parts.micros < _MICROSECONDS), values)


def _time(values: Values, *, fraction: int) -> Array:
    size = 3 + fraction
    words = values.memory.big_endian(values.offset) >> np.uint64(8 * (8 - size))
    stored = words.view(np.int64) - (1 << (8 * size - 1))
    magnitude = np.abs(stored)
    clock = magnitude >> 8 * fraction
    seconds = ((clock >> 12 & 0x3FF) * 60 + (clock >> 6 & 63)) * 60 + (clock & 63)
    micros = (magnitude & ((1 << 8 * fraction) - 1)) * _FRACTION_UNIT[fraction]
    total = seconds * _MICROSECONDS + micros
    return array_of(pa.int64(), np.where(stored < 0, -total, total), values.null)
