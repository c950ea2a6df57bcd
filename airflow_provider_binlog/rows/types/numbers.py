"""Integers, YEAR, BIT, FLOAT and DOUBLE: numbers of fixed width.

Integers are little-endian, two's complement where signed; BIT(n) is big-endian, in as many whole
bytes as it needs; FLOAT and DOUBLE are IEEE 754, little-endian.

Source: mysql-server sql/field.cc, Field_tiny::pack ... Field_longlong::pack, Field_year,
Field_bit_as_char, Field_float::pack, Field_double::pack; the flag BIT_LEN_EXACT of TABLE_MAP.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Plan,
    Values,
    array_of,
    buffer_of,
    validity,
)

YEAR_BASE = 1900
"""A stored year counts from here; 0 stands for the year 0000."""

UINT64 = pa.decimal128(20, 0)
"""BIGINT UNSIGNED: no lake type has unsigned 64-bit integers."""


def integer_plan(size: int, *, unsigned: bool) -> Plan:
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


def float_plan() -> Plan:
    """Return how to read FLOAT: float32."""
    return Plan(pa.float32(), _float, size=4)


def double_plan() -> Plan:
    """Return how to read DOUBLE: float64."""
    return Plan(pa.float64(), _double, size=8)


def _float(values: Values) -> Array:
    return array_of(pa.float32(), values.read("<u4"), values.null)


def _double(values: Values) -> Array:
    return array_of(pa.float64(), values.read("<u8"), values.null)


def bit_plan(width: int) -> Plan:
    """Return how to read BIT(`width`): a boolean for one bit, else the bytes SELECT returns."""
    size = (width + 7) // 8
    if width == 1:
        return Plan(pa.bool_(), _boolean, size=1)
    return Plan(pa.binary(), partial(_bits, size=size), size=size)


def _boolean(values: Values) -> Array:
    octets = np.packbits(values.read("<u1") & 1, bitorder="little")
    return pa.Array.from_buffers(
        pa.bool_(), len(values), [validity(values.null), buffer_of(octets)]
    )


def _bits(values: Values, *, size: int) -> Array:
    words = values.read("<u8")
    data = words.view(np.uint8).reshape(-1, 8)[:, :size]
    return Bytes.of_rows(data).array(pa.binary(), values.null)
