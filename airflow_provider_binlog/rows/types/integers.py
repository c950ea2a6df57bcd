"""TINYINT to BIGINT and YEAR: little-endian, two's complement where signed.

Source: mysql-server sql/field.cc, Field_tiny::pack ... Field_longlong::pack; Field_year.
"""

from __future__ import annotations

from functools import partial
from typing import Any

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
    if size == 8 and unsigned:
        return Plan(UINT64, _uint64, size=size)
    data_type = pa.int64() if size == 8 or (size == 4 and unsigned) else pa.int32()
    convert = partial(_integers, size=size, unsigned=unsigned, data_type=data_type)
    return Plan(data_type, convert, size=size)


def year_plan() -> Plan:
    """Return how to read YEAR: int32, the year 0000 as 0."""
    return Plan(pa.int32(), _year, size=1)


def read_unsigned(values: Values, size: int) -> npt.NDArray[np.uint64]:
    """Return little-endian numbers of `size` bytes, 1 to 8, as uint64."""
    if size == 1:
        return values.read("<u1").astype(np.uint64)
    words: npt.NDArray[np.uint64] = values.read("<u8")
    if size < 8:
        words &= np.uint64((1 << 8 * size) - 1)
    return words


def _integers(values: Values, *, size: int, unsigned: bool, data_type: pa.DataType) -> Array:
    kind = "u" if unsigned else "i"
    numbers: npt.NDArray[np.integer[Any]]
    if size == 3:
        # Shift the value's top byte to the word's top, and back, signed or unsigned.
        numbers = values.read(f"<{kind}4")
        numbers <<= 8
        numbers >>= 8
    else:
        numbers = values.read(f"<{kind}{size}")
    if numbers.itemsize < data_type.bit_width // 8:
        numbers = numbers.astype(np.int64 if data_type.bit_width == 64 else np.int32)
    return array_of(data_type, numbers, values.null)


def _uint64(values: Values) -> Array:
    halves = np.zeros((len(values), 2), dtype=np.uint64)
    halves[:, 0] = values.read("<u8")
    return array_of(UINT64, halves, values.null)


def _year(values: Values) -> Array:
    stored = values.read("<u1").astype(np.int32)
    return array_of(pa.int32(), stored + YEAR_BASE * (stored != 0).astype(np.int32), values.null)
