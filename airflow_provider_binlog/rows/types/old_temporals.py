"""TIME, DATETIME and TIMESTAMP in the formats from before MySQL 5.6.

Tables that were never rebuilt since, and MariaDB's under `mysql56_temporal_format=OFF`. The log
does not contain the number of fractional digits, and so of bytes: only information_schema does.

    digits of a second       0   1   2   3   4   5   6
    bytes of a TIME          3   4   4   5   5   5   6
    bytes of a DATETIME      8   6   6   7   7   7   8
    bytes of a TIMESTAMP     4   5   5   6   6   7   7

With no digits they are little-endian: a TIME is the signed number hhmmss, a DATETIME the
number YYYYMMDDhhmmss, a TIMESTAMP seconds since 1970 in UTC. With digits, which MariaDB alone
knows, they are big-endian, in units of the last digit: a TIME counts from 839 hours below zero; a
DATETIME is year, month of 13, day of 32, hour, minute, second and fraction as one number; a
TIMESTAMP is four bytes of seconds and then the fraction.

Source: mysql-server sql/field.cc of 5.5, Field_time, Field_datetime, Field_timestamp; mariadb
sql/field.cc, Field_time_hires, Field_datetime_hires, Field_timestamp_hires, and sql/compat56.cc.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types import moments
from airflow_provider_binlog.rows.types.integers import read_unsigned
from airflow_provider_binlog.rows.types.moments import FSP_MAX, Instants, Moments
from airflow_provider_binlog.rows.values import Array, Plan, Values, array_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.rows.memory import Int64Array

TIME_BYTES = (3, 4, 4, 5, 5, 5, 6)
DATETIME_BYTES = (8, 6, 6, 7, 7, 7, 8)
TIMESTAMP_BYTES = (4, 5, 5, 6, 6, 7, 7)

TIME_ZERO_SECONDS = 3_020_400
"""The 839 hours that a TIME with digits of a second counts from."""

_MICROSECONDS = 1_000_000
_DATETIME_END = 10**14


def time_plan(fsp: int) -> Plan:
    """Return how to read TIME(`fsp`): signed microseconds, int64."""
    size = TIME_BYTES[_checked(fsp)]
    return Plan(pa.int64(), partial(_time, fsp=fsp), size=size)


def datetime_plan(fsp: int, *, as_text: bool) -> Plan:
    """Return how to read DATETIME(`fsp`): see `moments.datetime_plan`."""
    size = DATETIME_BYTES[_checked(fsp)]
    return moments.datetime_plan(partial(_read_moments, fsp=fsp), size, fsp, as_text=as_text)


def timestamp_plan(fsp: int, *, as_text: bool) -> Plan:
    """Return how to read TIMESTAMP(`fsp`): see `moments.timestamp_plan`."""
    size = TIMESTAMP_BYTES[_checked(fsp)]
    return moments.timestamp_plan(partial(_read_instants, fsp=fsp), size, fsp, as_text=as_text)


def _checked(fsp: int) -> int:
    if not 0 <= fsp <= FSP_MAX:
        raise FormatError("not a number of digits of a second", fsp=fsp)
    return fsp


def _big_endian(values: Values, size: int) -> Int64Array:
    stored = values.read(">u8") >> np.uint64(8 * (8 - size))
    return stored.view(np.int64)


def _time(values: Values, *, fsp: int) -> Array:
    if fsp:
        stored = _big_endian(values, TIME_BYTES[fsp])
        micros = (stored - TIME_ZERO_SECONDS * 10**fsp) * 10 ** (6 - fsp)
        return array_of(pa.int64(), micros, values.null)
    number = (values.read("<u4") << np.uint32(8)).view(np.int32) >> 8
    clock = np.abs(number.astype(np.int64))
    seconds = (clock // 10_000 * 60 + clock // 100 % 100) * 60 + clock % 100
    total = np.where(number < 0, -seconds, seconds) * _MICROSECONDS
    return array_of(pa.int64(), total, values.null)


def _read_moments(values: Values, *, fsp: int) -> Moments:
    if not fsp:
        stored = read_unsigned(values, DATETIME_BYTES[0])
        # What no year of four digits has is a year of five: no date, under any policy.
        number = np.minimum(stored, np.uint64(_DATETIME_END)).view(np.int64)
        return _moments(number, (100, 100, 100, 100), 0, months=100)
    # As unsigned: with six digits all 64 bits count.
    packed = _big_endian(values, DATETIME_BYTES[fsp]).view(np.uint64)
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


def _read_instants(values: Values, *, fsp: int) -> Instants:
    if not fsp:
        return Instants(values.read("<u4").astype(np.int64), 0)
    size = TIMESTAMP_BYTES[fsp]
    stored = _big_endian(values, size)
    bits = 8 * (size - 4)
    return Instants(stored >> bits, (stored & ((1 << bits) - 1)) * 10 ** (6 - fsp))
