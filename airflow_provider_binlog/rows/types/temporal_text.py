"""DATE, DATETIME and TIMESTAMP as the text that SELECT prints, of zero dates too.

    0000-00-00    2026-02-31    2026-11-21 05:06:47.120000

A TIMESTAMP is printed in UTC, and its zero date as one.

Source: mysql-server mysys/my_time.cc, my_date_to_str and my_datetime_to_str.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.temporals import (
    YEAR_MAX,
    Instants,
    Moments,
    fraction_bytes,
    read_dates,
    read_instants,
    read_moments,
)
from airflow_provider_binlog.rows.values import Array, Bytes, Plan, Values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_binlog.rows.memory import Int64Array

_DATE = "####-##-##"
_DATETIME = "####-##-## ##:##:##"
_DAY_SECONDS = 86_400


def date_plan() -> Plan:
    """Return how to read DATE: `2026-11-21`."""
    return Plan(pa.string(), _date, size=3)


def datetime_plan(fsp: int) -> Plan:
    """Return how to read DATETIME(`fsp`): `2026-11-21 05:06:47`, and `fsp` digits of a second."""
    return Plan(pa.string(), partial(_datetime, fsp=fsp), size=5 + fraction_bytes(fsp))


def timestamp_plan(fsp: int) -> Plan:
    """Return how to read TIMESTAMP(`fsp`), in UTC: as a DATETIME."""
    return Plan(pa.string(), partial(_timestamp, fsp=fsp), size=4 + fraction_bytes(fsp))


def _date(values: Values) -> Array:
    year, month, day = read_dates(values)
    return _print(_DATE, [(year, 4), (month, 2), (day, 2)], values)


def _datetime(values: Values, *, fsp: int) -> Array:
    return print_moments(read_moments(values, fraction_bytes(fsp)), fsp, values)


def _timestamp(values: Values, *, fsp: int) -> Array:
    return print_instants(read_instants(values, fraction_bytes(fsp)), fsp, values)


def print_moments(parts: Moments, fsp: int, values: Values) -> Array:
    """Return the text of each.

    Raises:
        FormatError: A year has five digits, or there are more microseconds than in a second.
    """
    numbers = [
        (parts.year, 4),
        *((each, 2) for each in (parts.month, parts.day, parts.hour, parts.minute, parts.second)),
    ]
    if not fsp:
        return _print(_DATETIME, numbers, values)
    micros = np.broadcast_to(parts.micros, len(values))
    numbers.append((micros // 10 ** (6 - fsp), fsp))
    return _print(f"{_DATETIME}.{'#' * fsp}", numbers, values)


def print_instants(parts: Instants, fsp: int, values: Values) -> Array:
    """Return the text of each in UTC.

    Raises:
        FormatError: There are more microseconds than in a second.
    """
    days, second = np.divmod(parts.seconds, _DAY_SECONDS)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    year, month = np.divmod(months.astype(np.int64), 12)
    # The first second of 1970 is not in the type's range: it is the zero date.
    some = (parts.seconds != 0) | (parts.micros != 0)
    moments = Moments(
        (year + 1970) * some,
        (month + 1) * some,
        ((dates - months.astype("datetime64[D]")).astype(np.int64) + 1) * some,
        second // 3600,
        second // 60 % 60,
        second % 60,
        parts.micros,
    )
    return print_moments(moments, fsp, values)


def _print(pattern: str, numbers: Iterable[tuple[Int64Array, int]], values: Values) -> Array:
    """Return the pattern with its `#`s replaced by the digits of each value's numbers, in order."""
    count = len(values)
    row = np.frombuffer(pattern.encode(), dtype=np.uint8)
    text: npt.NDArray[np.uint8] = np.tile(row, (count, 1))
    indexes = np.flatnonzero(row == ord("#"))
    for number, digits in numbers:
        own, indexes = indexes[:digits], indexes[digits:]
        rest = number if values.null is None else np.where(values.null, 0, number)
        if count and int(rest.max()) >= 10**digits:
            what = "a year of five digits" if digits == 4 else "a part with too many digits"
            raise FormatError(f"not a date: {what}", max=YEAR_MAX if digits == 4 else 10**digits)
        for index in own[::-1].tolist():
            rest, digit = np.divmod(rest, 10)
            text[:, index] = digit + ord("0")
    offsets = np.arange(count + 1, dtype=np.int64) * len(row)
    return Bytes(offsets.astype(np.int32), text.reshape(-1)).array(pa.string(), values.null)
