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
from airflow_provider_binlog.rows.values import Array, Bytes, Gather, Plan, Values, gather_bytes


def plan(prefix: int, gather: Gather = gather_bytes, growth: int = 1) -> Plan:
    """Return how to read VARBINARY, BLOB or GEOMETRY with lengths of `prefix` bytes."""
    return Plan(pa.binary(), partial(_exact, gather=gather), prefix=prefix, growth=growth)


def padded_plan(prefix: int, width: int) -> Plan:
    """Return how to read BINARY(`width`)."""
    return Plan(pa.binary(), partial(_padded, width=width), prefix=prefix)


def _exact(values: Values, *, gather: Gather) -> Array:
    return gather(values).array(pa.binary(), values.null)


def _padded(values: Values, *, width: int) -> Array:
    return Bytes.of_rows(padded(values, width)).array(pa.binary(), values.null)


def padded(values: Values, width: int) -> npt.NDArray[np.uint8]:
    """Return values of at most `width` bytes, zeros after them: uint8[values, width].

    Raises:
        FormatError: A value is longer.
    """
    longest = int(values.lengths.max(initial=0))
    if longest > width:
        raise FormatError("a value is longer than its column", bytes=longest, column_bytes=width)
    word_count = (width + 7) // 8
    words = np.empty((len(values), word_count), dtype=np.uint64)
    for number in range(word_count):
        words[:, number] = values.memory.word(values.offset, values.lengths, number)
    return words.view(np.uint8).reshape(len(values), 8 * word_count)[:, :width]
