"""BIT(n): big-endian, in as many whole bytes as it needs.

Source: mysql-server sql/field.cc, Field_bit_as_char; the flag BIT_LEN_EXACT of TABLE_MAP.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.rows.values import Array, Bytes, Plan, Values, buffer_of, validity


def plan(width: int) -> Plan:
    """Return how to read BIT(`width`): a boolean for one bit, else the bytes SELECT returns."""
    size = (width + 7) // 8
    if width == 1:
        return Plan(pa.bool_(), _boolean, size=1)
    return Plan(pa.binary(), partial(_bytes, size=size), size=size)


def _boolean(values: Values) -> Array:
    bits = np.packbits(values.read("<u1") & 1, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity(values.null), buffer_of(bits)])


def _bytes(values: Values, *, size: int) -> Array:
    words = values.read("<u8")
    data = words.view(np.uint8).reshape(-1, 8)[:, :size]
    return Bytes.of_rows(data).array(pa.binary(), values.null)
