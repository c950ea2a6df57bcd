"""DATE, DATETIME, TIMESTAMP, TIME and YEAR: as Arrow has them, or as the text that SELECT prints.

    0000-00-00    2026-02-31    2026-11-21 05:06:47.120000

What no lake type holds (zero dates, the 31st of February) is NULL in an array, and printed as it
is. A TIMESTAMP is in UTC, its zero date too. `fsp` is the number of digits of a second, 0 to 6.

Source: mysql-server mysys/my_time.cc, my_datetime_packed_from_binary, my_time_packed_from_binary,
my_timestamp_from_binary, my_date_to_str and my_datetime_to_str; sql/field.cc, Field_newdate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.numbers import read_unsigned
from airflow_provider_binlog.rows.values import Array, Bytes, Int64Array, Plan, Values, array_of

FSP_MAX = 6
YEAR_MAX = 9999

DATETIME = pa.timestamp("us")
TIMESTAMP = pa.timestamp("us", tz="UTC")

_MICROSECONDS = 1_000_000
_DAY_SECONDS = 86_400
# A month has 28 to 31 days.
_DAYS_BITS = 5
_DAYS_MASK = (1 << _DAYS_BITS) - 1
Numbers: TypeAlias = "tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]"
"""Days or microseconds since 1970, and which of them are valid."""

_DATE_PATTERN = "####-##-##"
_DATETIME_PATTERN = "####-##-## ##:##:##"


class Moments(NamedTuple):
    """Dates with a time of day, in parts; zero and invalid dates too.

    Attributes:
        month: int64; `year * months + month`, one entry per value.
        day, hour, minute, second: int64; of dates without a time of day the last three are 0.
        micros: int64, or 0 where no value has any.
        months: How many months a year has here: 0 is one, and there may be invalid ones.
    """

    month: Int64Array
    day: Int64Array
    hour: Int64Array | int
    minute: Int64Array | int
    second: Int64Array | int
    micros: Int64Array | int
    months: int = 13

    def days(self) -> Numbers:
        """Return days since 1970, and which of them are dates at all."""
        months = _calendar(self.months).take(self.month, mode="clip")
        before = self.day - 1  # of day 0 the largest unsigned number
        valid = before.view(np.uint64) < (months & _DAYS_MASK).view(np.uint64)
        months >>= _DAYS_BITS
        months += before
        return months, valid

    def microseconds(self) -> Numbers:
        """Return microseconds since 1970, and which of them are dates at all."""
        total, valid = self.days()
        valid &= (self.hour < 24) & (self.minute < 60) & (self.second < 60)
        total *= _DAY_SECONDS
        total += (self.hour * 60 + self.minute) * 60 + self.second
        total *= _MICROSECONDS
        if not isinstance(self.micros, int):
            valid &= self.micros < _MICROSECONDS
            total += self.micros
        return total, valid

    def text(self, values: Values, fsp: int) -> Array:
        """Return the text of dates with a time of day."""
        year, month = np.divmod(self.month, self.months)
        two_digits = (month, self.day, self.hour, self.minute, self.second)
        numbers = [(year, 4), *((number, 2) for number in two_digits)]
        if not fsp:
            return _print(_DATETIME_PATTERN, numbers, values)
        numbers.append((self.micros // 10 ** (6 - fsp), fsp))
        return _print(f"{_DATETIME_PATTERN}.{'#' * fsp}", numbers, values)


class Instants(NamedTuple):
    """Points in time; both 0 for the zero date.

    Attributes:
        seconds: int64, since 1970 in UTC, one entry per value.
        micros: int64, or 0 where no value has any.
    """

    seconds: Int64Array
    micros: Int64Array | int

    def microseconds(self) -> Numbers:
        """Return microseconds since 1970, and which of them are no zero date."""
        total = self.seconds * _MICROSECONDS
        total += self.micros
        # 0 is '0000-00-00 00:00:00': the first second of 1970 is not in the type's range.
        return total, (total > 0) & (self.micros < _MICROSECONDS)

    def text(self, values: Values, fsp: int) -> Array:
        """Return the text of the points in time, in UTC."""
        days, second = np.divmod(self.seconds, _DAY_SECONDS)
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        year, month = np.divmod(months.astype(np.int64), 12)
        day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
        some = (self.seconds != 0) | (self.micros != 0)
        clock = second // 3600, second // 60 % 60, second % 60
        month = ((year + 1970) * 13 + month + 1) * some
        return Moments(month, day * some, *clock, self.micros).text(values, fsp)


def date_plan(read: Callable[[Values], Moments], size: int, *, as_text: bool) -> Plan:
    """Return how to read DATE in `size` bytes: date32, or the text of SELECT."""

    def texts(values: Values) -> Array:
        parts = read(values)
        year, month = np.divmod(parts.month, parts.months)
        return _print(_DATE_PATTERN, [(year, 4), (month, 2), (parts.day, 2)], values)

    def dates(values: Values) -> Array:
        days, valid = read(values).days()
        return _array(pa.date32(), days.astype(np.int32), valid, values)

    return Plan(pa.string(), texts, size) if as_text else Plan(pa.date32(), dates, size)


class MomentFormat(NamedTuple):
    """A format of DATETIME or TIMESTAMP.

    Attributes:
        data_type: `DATETIME` or `TIMESTAMP`.
        sizes: Bytes of a value, by the digits of a second; 0 where they vary.
        read: Reads values with so many digits of a second.
    """

    data_type: pa.DataType
    sizes: tuple[int, ...]
    read: Callable[[Values, int], Moments | Instants]

    def plan(self, fsp: int, *, as_text: bool) -> Plan:
        """Return how to read values with `fsp` digits of a second, or the text of SELECT."""
        kind, sizes, read = self
        size = sizes[_checked(fsp)]
        if as_text:
            return Plan(pa.string(), lambda values: read(values, fsp).text(values, fsp), size)
        return Plan(
            kind, lambda values: _array(kind, *read(values, fsp).microseconds(), values), size
        )


def _array(
    data_type: pa.DataType,
    numbers: npt.NDArray[np.signedinteger],
    valid: npt.NDArray[np.bool_],
    values: Values,
) -> Array:
    if np.count_nonzero(valid) == len(valid):
        return array_of(data_type, numbers, values.null)
    null = ~valid if values.null is None else values.null | ~valid
    return array_of(data_type, numbers, null)


@cache
def _calendar(months: int) -> Int64Array:
    """Return of each month its first day, since 1970, and in the lowest bits how many it has.

    Indexed by `year * months + month`. Months outside of the years 1 to 9999 have no days, and the
    last entry stands for all later ones: the length of year 0 differs between calendars.
    """
    calendar = np.zeros((YEAR_MAX + 1, months), dtype=np.int64)
    starts = np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]")
    numbers = starts.astype(np.int64)
    calendar[1:, 1:13] = (numbers[:-1] << _DAYS_BITS | np.diff(numbers)).reshape(YEAR_MAX, 12)
    return np.append(calendar, np.int64(0))


def _print(pattern: str, numbers: Iterable[tuple[Int64Array | int, int]], values: Values) -> Array:
    """Return the pattern with its `#`s replaced by the digits of each value's numbers, in order.

    Raises:
        FormatError: A number has more digits than the pattern has room for.
    """
    count = len(values)
    row = np.frombuffer(pattern.encode(), dtype=np.uint8)
    text: npt.NDArray[np.uint8] = np.tile(row, (count, 1))
    indexes = np.flatnonzero(row == ord("#"))
    for number, digits in numbers:
        own, indexes = indexes[:digits], indexes[digits:]
        rest = np.broadcast_to(number, count)
        rest = rest if values.null is None else np.where(values.null, 0, rest)
        if count and int(rest.max()) >= 10**digits:
            what = "a year of five digits" if digits == 4 else "a part with too many digits"
            raise FormatError(f"not a date: {what}", max=YEAR_MAX if digits == 4 else 10**digits)
        for index in own[::-1].tolist():
            rest, digit = np.divmod(rest, 10)
            text[:, index] = digit + ord("0")
    return Bytes.of_rows(text).array(pa.string(), values.null)


_FRACTION_UNIT = (0, 10_000, 100, 1)
_DATE_MONTHS = 16


_DATETIME_BYTES = (5, 6, 6, 7, 7, 8, 8)
_TIMESTAMP_BYTES = (4, 5, 5, 6, 6, 7, 7)
_TIME_BYTES = (3, 4, 4, 5, 5, 6, 6)
"""By the digits of a second."""


def time_plan(fsp: int) -> Plan:
    """Return how to read TIME(`fsp`): signed microseconds, int64."""
    size = _TIME_BYTES[_checked(fsp)]
    return Plan(pa.int64(), partial(_time, size=size), size=size)


def read_dates(values: Values) -> Moments:
    """Read `year 15 | month 4 | day 5 bits`, little-endian."""
    stored = values.read("<u4").astype(np.int64) & 0xFFFFFF
    return Moments(stored >> 5, stored & 31, 0, 0, 0, 0, months=_DATE_MONTHS)


def _fraction(words: npt.NDArray[np.uint64], first: int, stop: int) -> Int64Array | int:
    """Return microseconds from bytes `first` to `stop` of each big-endian word."""
    size = stop - first
    if not size:
        return 0
    shifted = words >> np.uint64(8 * (8 - stop))
    shifted &= np.uint64((1 << 8 * size) - 1)
    micros = shifted.view(np.int64)
    micros *= _FRACTION_UNIT[size]
    return micros


def _read_moments(values: Values, fsp: int) -> Moments:
    """Read `1 | year * 13 + month 17 | day 5 | hour 5 | minute 6 | second 6 bits`, big-endian.

    The fraction of a second follows in up to 3 bytes, in units of 1/100, 1/10,000 or 1/1,000,000.
    """
    words = values.read(">u8")
    # Without its top bit the number is positive; a value that lacks the bit is after year 9999.
    packed = (words >> np.uint64(24)).view(np.int64)
    packed ^= 1 << 39
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    micros = _fraction(words, 5, _DATETIME_BYTES[fsp])
    return Moments(packed >> 22, packed >> 17 & 31, hour, minute, second, micros)


def _read_instants(values: Values, fsp: int) -> Instants:
    words, size = values.read(">u8"), _TIMESTAMP_BYTES[fsp]
    return Instants((words >> np.uint64(32)).view(np.int64), _fraction(words, 4, size))


def _time(values: Values, *, size: int) -> Array:
    """Read `2 | hour 10 | minute 6 | second 6 bits` and the fraction, plus half of the range."""
    words = values.read(">u8") >> np.uint64(8 * (8 - size))
    stored = words.view(np.int64) - (1 << (8 * size - 1))
    magnitude = np.abs(stored)
    fraction = size - 3
    clock = magnitude >> 8 * fraction
    seconds = ((clock >> 12 & 0x3FF) * 60 + (clock >> 6 & 63)) * 60 + (clock & 63)
    micros = (magnitude & ((1 << 8 * fraction) - 1)) * _FRACTION_UNIT[fraction]
    total = seconds * _MICROSECONDS + micros
    return array_of(pa.int64(), np.where(stored < 0, -total, total), values.null)


# The formats from before MySQL 5.6, and MariaDB's under mysql56_temporal_format=OFF. Without digits
# of a second: little-endian numbers hhmmss, YYYYMMDDhhmmss, and seconds since 1970. With digits,
# which MariaDB alone has: big-endian, in units of the last digit; a DATETIME is year, month of 13,
# day of 32, hour, minute, second and fraction as one number; a TIMESTAMP 4 bytes of seconds and the
# fraction. Source: MySQL 5.5 sql/field.cc, Field_time, Field_datetime, Field_timestamp; mariadb
# sql/field.cc, Field_time_hires, Field_datetime_hires, Field_timestamp_hires; sql/compat56.cc.
_OLD_TIME_BYTES = (3, 4, 4, 5, 5, 5, 6)
_OLD_DATETIME_BYTES = (8, 6, 6, 7, 7, 7, 8)

TIME_ZERO_SECONDS = 3_020_400
"""The 839 hours that a TIME with digits of a second counts from."""

_DATETIME_END = 10**14


def old_time_plan(fsp: int) -> Plan:
    """Return how to read TIME(`fsp`): signed microseconds, int64."""
    size = _OLD_TIME_BYTES[_checked(fsp)]
    return Plan(pa.int64(), partial(_old_time, fsp=fsp), size=size)


def _checked(fsp: int) -> int:
    if not 0 <= fsp <= FSP_MAX:
        raise FormatError("not a number of digits of a second", fsp=fsp)
    return fsp


def _big_endian(values: Values, size: int) -> Int64Array:
    stored = values.read(">u8") >> np.uint64(8 * (8 - size))
    return stored.view(np.int64)


def _old_time(values: Values, *, fsp: int) -> Array:
    if fsp:
        stored = _big_endian(values, _OLD_TIME_BYTES[fsp])
        micros = (stored - TIME_ZERO_SECONDS * 10**fsp) * 10 ** (6 - fsp)
        return array_of(pa.int64(), micros, values.null)
    number = (values.read("<u4") << np.uint32(8)).view(np.int32) >> 8
    clock = np.abs(number.astype(np.int64))
    seconds = (clock // 10_000 * 60 + clock // 100 % 100) * 60 + clock % 100
    total = np.where(number < 0, -seconds, seconds) * _MICROSECONDS
    return array_of(pa.int64(), total, values.null)


def _read_old_moments(values: Values, fsp: int) -> Moments:
    if not fsp:
        stored = read_unsigned(values, _OLD_DATETIME_BYTES[0])
        # What no year of four digits has is a year of five: no date, under any policy.
        number = np.minimum(stored, np.uint64(_DATETIME_END)).view(np.int64)
        return _moments(number, (100, 100, 100, 100), 0, months=100)
    # As unsigned: with six digits all 64 bits count.
    packed = _big_endian(values, _OLD_DATETIME_BYTES[fsp]).view(np.uint64)
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


def _read_old_instants(values: Values, fsp: int) -> Instants:
    if not fsp:
        return Instants(values.read("<u4").astype(np.int64), 0)
    size = _TIMESTAMP_BYTES[fsp]
    stored = _big_endian(values, size)
    bits = 8 * (size - 4)
    return Instants(stored >> bits, (stored & ((1 << bits) - 1)) * 10 ** (6 - fsp))


# Result sets, little-endian, a TIMESTAMP in UTC; what is left out at the end is 0:
#     DATE, DATETIME, TIMESTAMP   2 year | month | day | hour | minute | second | 4 microseconds
#     TIME                        negative | 4 days | hour | minute | second | 4 microseconds
# Source: sql/protocol_classic.cc, Protocol_binary::store_datetime, store_date, store_time.
_MONTHS = 13
_DATE_BYTES, _CLOCK_BYTES, _MOMENT_BYTES = 4, 7, 11
_SENT_TIME_BYTES, _SENT_TIME_BYTES_MAX = 8, 12


def read_sent_moments(values: Values, _fsp: int = 0) -> Moments:
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


_KEPT = np.array([(1 << 8 * size) - 1 for size in range(_SENT_TIME_BYTES + 1)], dtype=np.uint64)


def _read_sent_instants(values: Values, _fsp: int) -> Instants:
    """Read points in time, in UTC."""
    parts = read_sent_moments(values)
    days, valid = parts.days()
    seconds = ((days.astype(np.int64) * 24 + parts.hour) * 60 + parts.minute) * 60 + parts.second
    return Instants(seconds * valid, parts.micros * valid)


def sent_times(values: Values) -> Array:
    """Read TIMEs: signed microseconds, int64."""
    _check_lengths(values, (0, _SENT_TIME_BYTES, _SENT_TIME_BYTES_MAX))
    words = values.memory.u8[values.offset]
    if int(values.lengths.min(initial=_SENT_TIME_BYTES)) < _SENT_TIME_BYTES:
        words &= _KEPT.take(np.minimum(values.lengths, _SENT_TIME_BYTES))
    parts = (words & np.uint64((1 << 63) - 1)).view(np.int64)
    hours = (parts >> 8 & 0xFFFFFFFF) * 24 + (parts >> 40 & 0xFF)
    minute, second = parts >> 48 & 0xFF, parts >> 56 & 0xFF
    total = ((hours * 60 + minute) * 60 + second) * _MICROSECONDS + _micros(
        values, _SENT_TIME_BYTES
    )
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


_ANY_BYTES = (0,) * (FSP_MAX + 1)

DATETIME2 = MomentFormat(DATETIME, _DATETIME_BYTES, _read_moments)
TIMESTAMP2 = MomentFormat(TIMESTAMP, _TIMESTAMP_BYTES, _read_instants)
OLD_DATETIME = MomentFormat(DATETIME, _OLD_DATETIME_BYTES, _read_old_moments)
OLD_TIMESTAMP = MomentFormat(TIMESTAMP, _TIMESTAMP_BYTES, _read_old_instants)
SENT_DATETIME = MomentFormat(DATETIME, _ANY_BYTES, read_sent_moments)
SENT_TIMESTAMP = MomentFormat(TIMESTAMP, _ANY_BYTES, _read_sent_instants)
