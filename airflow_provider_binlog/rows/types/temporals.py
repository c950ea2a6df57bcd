"""DATE, DATETIME, TIMESTAMP and TIME with 0 to 6 digits of a second.

    DATE        3 bytes, little-endian  year 15 | month 4 | day 5 bits
    DATETIME    5 bytes, big-endian     1 | year * 13 + month 17 | day 5 | hour 5 | min 6 | sec 6
    TIMESTAMP   4 bytes, big-endian     seconds since 1970 in UTC, unsigned
    TIME        3 bytes, big-endian     2 | hour 10 | min 6 | sec 6, plus half the range
    then the fraction of a second in 0 to 3 bytes: in units of 1/100, 1/10,000, 1/1,000,000

Source: mysql-server mysys/my_time.cc, my_datetime_packed_from_binary, my_time_packed_from_binary,
my_timestamp_from_binary; sql/field.cc, Field_newdate.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types import moments
from airflow_provider_binlog.rows.types.moments import FSP_MAX, Instants, Moments
from airflow_provider_binlog.rows.values import Array, Plan, Values, array_of, cached_slices

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array

_MICROSECONDS = 1_000_000
_FRACTION_UNIT = (0, 10_000, 100, 1)
_DATE_MONTHS = 16
_DATETIME_MONTHS = 13
_CLOCK_BITS, _DAY_BITS = 17, 5
_CLOCK_MASK = (1 << _CLOCK_BITS) - 1
_DAY_MICROSECONDS = 86_400 * _MICROSECONDS

# Dates of these years are looked up whole; the last one is not of them.
_COMMON_YEARS = (1900, 2156)

# A date or a time of day that there is not; the sum of either with another part, or of both, is
# less than any moment.
_NO_PART = -(1 << 62)
_NO_MOMENT = -(1 << 61)


def date_plan(*, as_text: bool) -> Plan:
    """Return how to read DATE: see `moments.date_plan`."""
    return moments.date_plan(_read_dates, 3, as_text=as_text)


def datetime_plan(fsp: int, *, as_text: bool) -> Plan:
    """Return how to read DATETIME(`fsp`): see `moments.datetime_plan`."""
    fraction = _fraction_bytes(fsp)
    if not as_text:
        return Plan(moments.DATETIME, partial(_datetimes, fraction=fraction), size=5 + fraction)
    read = partial(_read_moments, fraction=fraction)
    return moments.datetime_plan(read, 5 + fraction, fsp, as_text=True)


def timestamp_plan(fsp: int, *, as_text: bool) -> Plan:
    """Return how to read TIMESTAMP(`fsp`): see `moments.timestamp_plan`."""
    fraction = _fraction_bytes(fsp)
    read = partial(_read_instants, fraction=fraction)
    return moments.timestamp_plan(read, 4 + fraction, fsp, as_text=as_text)


def time_plan(fsp: int) -> Plan:
    """Return how to read TIME(`fsp`): signed microseconds, int64."""
    fraction = _fraction_bytes(fsp)
    return Plan(pa.int64(), partial(_time, fraction=fraction), size=3 + fraction)


def _fraction_bytes(fsp: int) -> int:
    """Return how many bytes `fsp` digits of a second take.

    Raises:
        FormatError: There are more digits than MySQL knows.
    """
    if fsp > FSP_MAX:
        raise FormatError("more than 6 digits of a second", fsp=fsp)
    return (fsp + 1) // 2


def _read_dates(values: Values) -> Moments:
    stored = values.read("<u4").astype(np.int64) & 0xFFFFFF
    return Moments(stored >> 5, stored & 31, 0, 0, 0, 0, months=_DATE_MONTHS)


def _fraction(words: npt.NDArray[np.uint64], last: int, size: int) -> Int64Array | int:
    """Return microseconds from the `size` bytes that end at byte `last` of each word."""
    if not size:
        return 0
    shifted = words >> np.uint64(8 * (8 - last))
    shifted &= np.uint64((1 << 8 * size) - 1)
    micros = shifted.view(np.int64)
    micros *= _FRACTION_UNIT[size]
    return micros


def _read_packed(values: Values, *, fraction: int) -> tuple[Int64Array, Int64Array | int]:
    """Return each DATETIME's bits without its top one, and its microseconds."""
    words = values.read(">u8")
    # Without its top bit the number is positive; a value that lacks the bit is after year 9999.
    packed = (words >> np.uint64(24)).view(np.int64)
    packed ^= 1 << 39
    return packed, _fraction(words, 5 + fraction, fraction)


def _read_moments(values: Values, *, fraction: int) -> Moments:
    packed, micros = _read_packed(values, fraction=fraction)
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    return Moments(packed >> 22, packed >> 17 & 31, hour, minute, second, micros)


def _datetimes(values: Values, *, fraction: int) -> Array:
    convert = partial(_microseconds, fraction=fraction)
    return moments.array_in_slices(convert, values, moments.DATETIME)


def _microseconds(values: Values, *, fraction: int) -> moments.Numbers:
    """Return microseconds since 1970: of common years from tables, if all are."""
    packed, micros = _read_packed(values, fraction=fraction)
    date = packed >> _CLOCK_BITS
    date -= _COMMON_YEARS[0] * _DATETIME_MONTHS << _DAY_BITS
    dates = _common_dates()
    if len(date) and int(np.maximum.reduce(date.view(np.uint64))) >= len(dates):
        read = _read_moments(values, fraction=fraction)
        return moments.datetimes(read)
    total = dates.take(date)
    packed &= _CLOCK_MASK
    total += _clock().take(packed)
    valid = total > _NO_MOMENT
    if not isinstance(micros, int):
        valid &= micros < _MICROSECONDS
        total += micros
    return total, valid


@cache
def _common_dates() -> Int64Array:
    """Return the microseconds since 1970 by date, from the first of the common years on."""
    first, last = _COMMON_YEARS
    months = np.arange(first * _DATETIME_MONTHS, last * _DATETIME_MONTHS)
    days = np.arange(1 << _DAY_BITS)
    month, day = np.repeat(months, len(days)), np.tile(days, len(months))
    since, valid = Moments(month, day, 0, 0, 0, 0).days()
    return np.where(valid, since * _DAY_MICROSECONDS, _NO_PART)


@cache
def _clock() -> Int64Array:
    """Return the microseconds since midnight by hour, minute and second."""
    clock = np.arange(_CLOCK_MASK + 1)
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    valid = (hour < 24) & (minute < 60) & (second < 60)
    return np.where(valid, ((hour * 60 + minute) * 60 + second) * _MICROSECONDS, _NO_PART)


def _read_instants(values: Values, *, fraction: int) -> Instants:
    words = values.read(">u8")
    seconds = (words >> np.uint64(32)).view(np.int64)
    return Instants(seconds, _fraction(words, 4 + fraction, fraction))


def _time(values: Values, *, fraction: int) -> Array:
    total = np.empty(len(values), dtype=np.int64)
    for some in cached_slices(len(values)):
        total[some] = _read_times(values.choose(some), fraction=fraction)
    return array_of(pa.int64(), total, values.null)


def _read_times(values: Values, *, fraction: int) -> Int64Array:
    """Return signed microseconds."""
    size = 3 + fraction
    words = values.read(">u8") >> np.uint64(8 * (8 - size))
    stored = words.view(np.int64) - (1 << (8 * size - 1))
    magnitude = np.abs(stored)
    clock = magnitude >> 8 * fraction
    seconds = ((clock >> 12 & 0x3FF) * 60 + (clock >> 6 & 63)) * 60 + (clock & 63)
    micros = (magnitude & ((1 << 8 * fraction) - 1)) * _FRACTION_UNIT[fraction]
    total = seconds * _MICROSECONDS + micros
    signed: Int64Array = np.where(stored < 0, -total, total)
    return signed
