"""TINYINT to BIGINT and YEAR: little-endian, two's complement where signed.

Source: mysql-server sql/field.cc, Field_tiny::pack ... Field_longlong::pack; Field_year.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.rows.values import Array, Plan, Values, array_of

YEAR_BASE = 1900
"""A stored year counts from here; 0 stands for the year 0000."""

UINT64 = pa.decimal128(20, 0)
"""BIGINT UNSIGNED: no lake type has unsigned 64-bit integers."""


def plan(size: int, *, unsigned: bool) -> Plan:
    """Return how to read integers of `size` bytes: int32 or the next that holds them."""
    if size < 4 or (size == 4 and not unsigned):
        return Plan(pa.int32(), partial(_small, size=size, unsigned=unsigned), size=size)
    if size == 4:
        return Plan(pa.int64(), _uint32, size=size)
    if unsigned:
        return Plan(UINT64, _uint64, size=size)
    return Plan(pa.int64(), _int64, size=size)


def year_plan() -> Plan:
    """Return how to read YEAR: int32, the year 0000 as 0."""
    return Plan(pa.int32(), _year, size=1)


def read_unsigned(values: Values, size: int) -> npt.NDArray[np.uint64]:
    """Return little-endian numbers of `size` bytes, 1 to 8, as uint64."""
    if size == 1:
        return values.memory.u1.take(values.offset).astype(np.uint64)
    words = values.memory.u8[values.offset]
    if size < 8:
        words &= np.uint64((1 << 8 * size) - 1)
    return words


def _small(values: Values, *, size: int, unsigned: bool) -> Array:
    memory, offset = values.memory, values.offset
    if size == 1:
        narrow = memory.u1.take(offset)
        numbers = (narrow if unsigned else narrow.view(np.int8)).astype(np.int32)
    elif size == 2:
        pair = memory.u2[offset]
        numbers = (pair if unsigned else pair.view(np.int16)).astype(np.int32)
    elif size == 3:
        # Shift the value's top byte to the word's top, and back, signed or unsigned.
        shifted = memory.u4[offset] << np.uint32(8)
        numbers = (shifted >> 8).view(np.int32) if unsigned else shifted.view(np.int32) >> 8
    else:
        numbers = memory.u4[offset].view(np.int32)
    return array_of(pa.int32(), numbers, values.null)


def _uint32(values: Values) -> Array:
    return array_of(pa.int64(), values.memory.u4[values.offset].astype(np.int64), values.null)


def _int64(values: Values) -> Array:
    return array_of(pa.int64(), values.memory.i8[values.offset], values.null)


def _uint64(values: Values) -> Array:
    halves = np.zeros((len(values), 2), dtype=np.uint64)
    halves[:, 0] = values.memory.u8[values.offset]
    return array_of(UINT64, halves, values.null)


def _year(values: Values) -> Array:
    stored = values.memory.u1.take(values.offset).astype(np.int32)
    return array_of(pa.int32(), stored + YEAR_BASE * (stored != 0).astype(np.int32), values.null)
