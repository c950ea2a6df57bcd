"""BINARY, VARBINARY, BLOB and GEOMETRY; text that is wanted as bytes.

BINARY(n) loses its trailing zero bytes in the log and gets them back here; the others are exact. A
GEOMETRY is four bytes of SRID, little-endian, and WKB: so it is stored, and so SELECT returns it.

Source: mysql-server sql/field.cc, Field_string::pack, Field_varstring::pack, Field_blob::pack.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import Array, Bytes, Plan, Values, gather_bytes


def plan(prefix: int) -> Plan:
    """Return how to read VARBINARY, BLOB or GEOMETRY with lengths of `prefix` bytes."""
    return Plan(pa.binary(), _exact, prefix=prefix)


def padded_plan(prefix: int, width: int) -> Plan:
    """Return how to read BINARY(`width`)."""
    return Plan(pa.binary(), partial(_padded, width=width), prefix=prefix)


def _exact(values: Values) -> Array:
    return gather_bytes(values).array(pa.binary(), values.null)


def _padded(values: Values, *, width: int) -> Array:
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    data = padded(values, width).reshape(-1)
    return Bytes(offsets.astype(np.int32), data).array(pa.binary(), values.null)


def padded(values: Values, width: int) -> npt.NDArray[np.uint8]:
    """Return values of at most `width` bytes, zeros after them: uint8[values, width].

    Raises:
        FormatError: A value is longer.
    """
    if values.length is None:
        raise TypeError("values of fixed width have no lengths")
    longest = int(values.length.max(initial=0))
    if longest > width:
        raise FormatError("a value is longer than its column", bytes=longest, column_bytes=width)
    word_count = (width + 7) // 8
    words = np.empty((len(values), word_count), dtype=np.uint64)
    for number in range(word_count):
        words[:, number] = values.memory.word(values.offset, values.length, number)
    return words.view(np.uint8).reshape(len(values), 8 * word_count)[:, :width]
