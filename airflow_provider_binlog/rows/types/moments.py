"""Dates and times in parts: as Arrow has them, or as the text that SELECT prints.

    0000-00-00    2026-02-31    2026-11-21 05:06:47.120000

What no lake type holds (zero dates, the 31st of February) is NULL in an array, and printed as it
is. A TIMESTAMP is in UTC, its zero date too.

Source: mysql-server mysys/my_time.cc, my_date_to_str and my_datetime_to_str.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Plan,
    Values,
    array_of,
    cached_slices,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_binlog.rows.values import Int64Array

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

    def days(self) -> tuple[Int64Array, npt.NDArray[np.bool_]]:
        """Return days since 1970, and which of them are dates at all."""
        months = _calendar(self.months).take(self.month, mode="clip")
        before = self.day - 1  # of day 0 the largest unsigned number
        valid = before.view(np.uint64) < (months & _DAYS_MASK).view(np.uint64)
        months >>= _DAYS_BITS
        months += before
        return months, valid


class Instants(NamedTuple):
    """Points in time; both 0 for the zero date.

    Attributes:
        seconds: int64, since 1970 in UTC, one entry per value.
        micros: int64, or 0 where no value has any.
    """

    seconds: Int64Array
    micros: Int64Array | int


def date_plan(read: Callable[[Values], Moments], size: int, *, as_text: bool) -> Plan:
    """Return how to read DATE: date32, or the text of SELECT.

    Args:
        read: Returns the parts of some values.
        size: Bytes of a value.
        as_text: Which of the two it is.
    """
    if as_text:
        return Plan(pa.string(), partial(_text, read=read, show=_print_dates), size=size)
    return Plan(pa.date32(), partial(_array, read=read, show=_dates, to=pa.date32()), size=size)


def datetime_plan(read: Callable[[Values], Moments], size: int, fsp: int, *, as_text: bool) -> Plan:
    """Return how to read DATETIME(`fsp`): a timestamp without a zone, or the text of SELECT."""
    if as_text:
        show = partial(_print_moments, fsp=fsp)
        return Plan(pa.string(), partial(_text, read=read, show=show), size=size)
    return Plan(DATETIME, partial(_array, read=read, show=datetimes, to=DATETIME), size=size)


def timestamp_plan(
    read: Callable[[Values], Instants], size: int, fsp: int, *, as_text: bool
) -> Plan:
    """Return how to read TIMESTAMP(`fsp`): a timestamp in UTC, or the text of SELECT."""
    if as_text:
        show = partial(_print_instants, fsp=fsp)
        return Plan(pa.string(), partial(_text, read=read, show=show), size=size)
    return Plan(TIMESTAMP, partial(_array, read=read, show=_timestamps, to=TIMESTAMP), size=size)


def _text(
    values: Values, *, read: Callable[[Values], Any], show: Callable[[Any, Values], Array]
) -> Array:
    return show(read(values), values)


def _array(
    values: Values,
    *,
    read: Callable[[Values], Any],
    show: Callable[[Any], Numbers],
    to: pa.DataType,
) -> Array:
    return array_in_slices(lambda some: show(read(some)), values, to)


def array_in_slices(
    convert: Callable[[Values], Numbers], values: Values, data_type: pa.DataType
) -> Array:
    """Return numbers as an array of a type, NULL where there is no valid value.

    They are converted as many at a time as stay in the processor's cache.
    """
    numbers = np.empty(len(values), dtype=f"<i{data_type.bit_width // 8}")
    valid = np.empty(len(values), dtype=np.bool_)
    for some in cached_slices(len(values)):
        numbers[some], valid[some] = convert(values.choose(some))
    if np.count_nonzero(valid) == len(valid):
        return array_of(data_type, numbers, values.null)
    null = ~valid if values.null is None else values.null | ~valid
    return array_of(data_type, numbers, null)


@cache
def _calendar(months: int) -> Int64Array:
    """Return of each month its first day, since 1970, and in the lowest bits how many it has.

    It is indexed by `year * months + month`. What is no month of the years 1 to 9999 has no
    days; the last entry stands for everything after it. Year 0 is left out: its length differs
    between calendars, and readers of dates begin at year 1.
    """
    calendar = np.zeros((YEAR_MAX + 1, months), dtype=np.int64)
    starts = np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]")
    numbers = starts.astype(np.int64)
    calendar[1:, 1:13] = (numbers[:-1] << _DAYS_BITS | np.diff(numbers)).reshape(YEAR_MAX, 12)
    return np.append(calendar, np.int64(0))


def _dates(parts: Moments) -> Numbers:
    return parts.days()


def datetimes(parts: Moments) -> Numbers:
    """Return microseconds since 1970."""
    total, valid = parts.days()
    valid &= (parts.hour < 24) & (parts.minute < 60) & (parts.second < 60)
    total *= _DAY_SECONDS
    total += (parts.hour * 60 + parts.minute) * 60 + parts.second
    total *= _MICROSECONDS
    if not isinstance(parts.micros, int):
        valid &= parts.micros < _MICROSECONDS
        total += parts.micros
    return total, valid


def _timestamps(parts: Instants) -> Numbers:
    total = parts.seconds * _MICROSECONDS
    total += parts.micros
    # 0 is '0000-00-00 00:00:00': the first second of 1970 is not in the type's range.
    return total, (total > 0) & (parts.micros < _MICROSECONDS)


def _print_dates(parts: Moments, values: Values) -> Array:
    year, month = np.divmod(parts.month, parts.months)
    return _print(_DATE_PATTERN, [(year, 4), (month, 2), (parts.day, 2)], values)


def _print_moments(parts: Moments, values: Values, *, fsp: int) -> Array:
    year, month = np.divmod(parts.month, parts.months)
    two_digits = (month, parts.day, parts.hour, parts.minute, parts.second)
    numbers = [(year, 4), *((number, 2) for number in two_digits)]
    if not fsp:
        return _print(_DATETIME_PATTERN, numbers, values)
    numbers.append((parts.micros // 10 ** (6 - fsp), fsp))
    return _print(f"{_DATETIME_PATTERN}.{'#' * fsp}", numbers, values)


def _print_instants(parts: Instants, values: Values, *, fsp: int) -> Array:
    days, second = np.divmod(parts.seconds, _DAY_SECONDS)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    year, month = np.divmod(months.astype(np.int64), 12)
    day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    # The first second of 1970 is not in the type's range: it is the zero date.
    some = (parts.seconds != 0) | (parts.micros != 0)
    moments = Moments(
        ((year + 1970) * 13 + month + 1) * some,
        day * some,
        second // 3600,
        second // 60 % 60,
        second % 60,
        parts.micros,
    )
    return _print_moments(moments, values, fsp=fsp)


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
