"""DATE, DATETIME, TIMESTAMP, TIME and YEAR as the log and result sets store them.

Row images, in the formats of `fsp` 0 to 6 digits of a second:

    DATE        3 bytes, little-endian  year 15 | month 4 | day 5 bits
    DATETIME    5 bytes, big-endian     1 | year * 13 + month 17 | day 5 | hour 5 | min 6 | sec 6
    TIMESTAMP   4 bytes, big-endian     seconds since 1970 in UTC, unsigned
    TIME        3 bytes, big-endian     2 | hour 10 | min 6 | sec 6, plus half the range
    then the fraction of a second in 0 to 3 bytes: in units of 1/100, 1/10,000, 1/1,000,000

Row images, in the formats from before MySQL 5.6: tables that were never rebuilt since, and
MariaDB's under `mysql56_temporal_format=OFF`. The log does not contain the number of fractional
digits, and so of bytes: only information_schema does.

    digits of a second       0   1   2   3   4   5   6
    bytes of a TIME          3   4   4   5   5   5   6
    bytes of a DATETIME      8   6   6   7   7   7   8
    bytes of a TIMESTAMP     4   5   5   6   6   7   7

With no digits they are little-endian: a TIME is the signed number hhmmss, a DATETIME the
number YYYYMMDDhhmmss, a TIMESTAMP seconds since 1970 in UTC. With digits, which MariaDB alone
knows, they are big-endian, in units of the last digit: a TIME counts from 839 hours below zero; a
DATETIME is year, month of 13, day of 32, hour, minute, second and fraction as one number; a
TIMESTAMP is four bytes of seconds and then the fraction.

Result sets, little-endian, a TIMESTAMP in the session's time zone, which is UTC:

    DATE, DATETIME, TIMESTAMP   0, 4, 7 or 11 bytes: 2 year | month | day | hour | minute | second
                                | 4 microseconds; what is left out is 0
    TIME                        0, 8 or 12 bytes: negative | 4 days | hour | minute | second
                                | 4 microseconds
    YEAR                        2 bytes

Source: mysql-server mysys/my_time.cc, my_datetime_packed_from_binary, my_time_packed_from_binary,
my_timestamp_from_binary; sql/field.cc, Field_newdate, and of 5.5 Field_time, Field_datetime,
Field_timestamp; sql/protocol_classic.cc, Protocol_binary::store_datetime, store_date, store_time;
mariadb sql/field.cc, Field_time_hires, Field_datetime_hires, Field_timestamp_hires;
sql/compat56.cc; sql/protocol.cc; MySQL Internals, "Binary Protocol Value".
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
from airflow_provider_binlog.rows.types.numbers import read_unsigned
from airflow_provider_binlog.rows.values import Array, Plan, Values, array_of, cached_slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.rows.values import Int64Array

_MICROSECONDS = 1_000_000
_FRACTION_UNIT = (0, 10_000, 100, 1)
_DATE_MONTHS = 16
_DATETIME_MONTHS = 13
_CLOCK_BITS, _DAY_BITS = 17, 5
_CLOCK_MASK = (1 << _CLOCK_BITS) - 1
_DAY_MICROSECONDS = 86_400 * _MICROSECONDS

# Dates of these years are looked up whole; the last year is exclusive.
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


OLD_TIME_BYTES = (3, 4, 4, 5, 5, 5, 6)
OLD_DATETIME_BYTES = (8, 6, 6, 7, 7, 7, 8)
OLD_TIMESTAMP_BYTES = (4, 5, 5, 6, 6, 7, 7)

TIME_ZERO_SECONDS = 3_020_400
"""The 839 hours that a TIME with digits of a second counts from."""

_DATETIME_END = 10**14


def old_time_plan(fsp: int) -> Plan:
    """Return how to read TIME(`fsp`): signed microseconds, int64."""
    size = OLD_TIME_BYTES[_checked(fsp)]
    return Plan(pa.int64(), partial(_old_time, fsp=fsp), size=size)


def old_datetime_plan(fsp: int, *, as_text: bool) -> Plan:
    """Return how to read DATETIME(`fsp`): see `moments.datetime_plan`."""
    size = OLD_DATETIME_BYTES[_checked(fsp)]
    return moments.datetime_plan(partial(_read_old_moments, fsp=fsp), size, fsp, as_text=as_text)


def old_timestamp_plan(fsp: int, *, as_text: bool) -> Plan:
    """Return how to read TIMESTAMP(`fsp`): see `moments.timestamp_plan`."""
    size = OLD_TIMESTAMP_BYTES[_checked(fsp)]
    return moments.timestamp_plan(partial(_read_old_instants, fsp=fsp), size, fsp, as_text=as_text)


def _checked(fsp: int) -> int:
    if not 0 <= fsp <= FSP_MAX:
        raise FormatError("not a number of digits of a second", fsp=fsp)
    return fsp


def _big_endian(values: Values, size: int) -> Int64Array:
    stored = values.read(">u8") >> np.uint64(8 * (8 - size))
    return stored.view(np.int64)


def _old_time(values: Values, *, fsp: int) -> Array:
    if fsp:
        stored = _big_endian(values, OLD_TIME_BYTES[fsp])
        micros = (stored - TIME_ZERO_SECONDS * 10**fsp) * 10 ** (6 - fsp)
        return array_of(pa.int64(), micros, values.null)
    number = (values.read("<u4") << np.uint32(8)).view(np.int32) >> 8
    clock = np.abs(number.astype(np.int64))
    seconds = (clock // 10_000 * 60 + clock // 100 % 100) * 60 + clock % 100
    total = np.where(number < 0, -seconds, seconds) * _MICROSECONDS
    return array_of(pa.int64(), total, values.null)


def _read_old_moments(values: Values, *, fsp: int) -> Moments:
    if not fsp:
        stored = read_unsigned(values, OLD_DATETIME_BYTES[0])
        # What no year of four digits has is a year of five: no date, under any policy.
        number = np.minimum(stored, np.uint64(_DATETIME_END)).view(np.int64)
        return _moments(number, (100, 100, 100, 100), 0, months=100)
    # As unsigned: with six digits all 64 bits count.
    packed = _big_endian(values, OLD_DATETIME_BYTES[fsp]).view(np.uint64)
    whole, fraction = np.divmod(packed, np.uint64(10**fsp))
    micros = fraction.view(np.int64) * 10 ** (6 - fsp)
    return _moments(whole.view(np.int64), (32, 24, 60, 60), micros, months=13)


def _moments(
    number: Int64Array, bases: Sequence[int], micros: Int64Array | int, *, months: int
) -> Moments:
    """Return what numbers in a mixed base say, the year as large as it may be."""
    parts = []
    for base in reversed(bases):
        number, digit = np.divmod(number, base)
        parts.append(digit)
    second, minute, hour, day = parts
    return Moments(number, day, hour, minute, second, micros, months)


def _read_old_instants(values: Values, *, fsp: int) -> Instants:
    if not fsp:
        return Instants(values.read("<u4").astype(np.int64), 0)
    size = OLD_TIMESTAMP_BYTES[fsp]
    stored = _big_endian(values, size)
    bits = 8 * (size - 4)
    return Instants(stored >> bits, (stored & ((1 << bits) - 1)) * 10 ** (6 - fsp))


_MONTHS = 13
_DATE_BYTES, _CLOCK_BYTES, _MOMENT_BYTES = 4, 7, 11
_TIME_BYTES, _TIME_BYTES_MAX = 8, 12


def read_sent_moments(values: Values) -> Moments:
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


def read_sent_instants(values: Values) -> Instants:
    """Read points in time, in UTC."""
    parts = read_sent_moments(values)
    days, valid = parts.days()
    seconds = ((days.astype(np.int64) * 24 + parts.hour) * 60 + parts.minute) * 60 + parts.second
    return Instants(seconds * valid, parts.micros * valid)


def sent_times(values: Values) -> Array:
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


def sent_years(values: Values) -> Array:
    """Read YEARs: int32."""
    return array_of(pa.int32(), values.memory.u2[values.offset].astype(np.int32), values.null)


def _micros(values: Values, before: int) -> Int64Array | int:
    """Return the microseconds, which are after so many bytes in the longest values."""
    some = values.lengths > before
    if not some.any():
        return 0
    return values.memory.u4[values.offset + before].astype(np.int64) * some


def _check_lengths(values: Values, allowed: tuple[int, ...]) -> None:
    if not np.isin(values.lengths, allowed).all():
        raise FormatError("not the length of a date or time in a result set")
