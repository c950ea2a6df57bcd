"""JSON of MySQL: binary documents, read as the text that SELECT prints.

The documents of a column are decoded together, a megabyte of them at a time: see `walk` and
`text`. A document of too many values for that is decoded by itself, value by value.

Source: mysql-server sql/field.cc, Field_json::pack (a BLOB with 4 bytes of length);
sql-common/json_binary.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.json.document import to_text
from airflow_provider_binlog.blocks.arrays import of_numbers
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.memory import OVERREAD_BYTES, Memory, batches
from airflow_provider_binlog.rows.types.json.cells import render_alike
from airflow_provider_binlog.rows.types.json.keys import Keys
from airflow_provider_binlog.rows.types.json.structures import Structure
from airflow_provider_binlog.rows.types.json.text import render
from airflow_provider_binlog.rows.types.json.walk import walk
from airflow_provider_binlog.rows.types.text import checked_utf8
from airflow_provider_binlog.rows.values import Array, Bytes, Plan, Values, gather_bytes

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array

BATCH_BYTES = 1_000_000
"""As many bytes of documents are decoded at a time, or one document."""
LARGE_BYTES = 64_000_000
"""A larger document is decoded value by value."""
FEW_DOCUMENTS = 16
"""So few documents are not looked at for one structure."""
_ROUND_SHARE = 4
"""Documents of one structure are looked for as long as one in so many has that of the first."""
_SPARSE = 2
"""Documents among so many times their own bytes are copied first: each byte is read repeatedly."""
FEW_BYTES = 4_000
"""So few bytes of documents are decoded value by value, which takes less than a batch's vectors."""


def plan(prefix: int) -> Plan:
    """Return how to read JSON with lengths of `prefix` bytes: text."""
    return Plan(pa.string(), _json, prefix=prefix)


def _json(values: Values) -> Array:
    ranges = batches(values.lengths, BATCH_BYTES)
    pieces = [_convert(values.choose(slice(first, last))) for first, last in ranges]
    return Bytes.join(pieces).array(pa.string(), values.null)


def _convert(values: Values) -> Bytes:
    """Return the text of some documents, nothing for NULL."""
    if not FEW_BYTES < int(values.lengths.sum()) <= LARGE_BYTES:
        return _plainly(values)
    try:
        return _together(values)
    except FormatError:
        # The plain decoder says what is wrong with which document, if anything is.
        return _plainly(values)


def _plainly(values: Values) -> Bytes:
    null = np.zeros(len(values), dtype=np.bool_) if values.null is None else values.null
    data, begin, length = values.memory.u1.data, values.offset.tolist(), values.lengths.tolist()
    return Bytes.of_values(
        [
            b"" if is_null else to_text(data[at : at + size])
            for at, size, is_null in zip(begin, length, null.tolist(), strict=True)
        ]
    )


def _together(values: Values) -> Bytes:
    present = np.flatnonzero(values.lengths)
    if len(present) < len(values) - (0 if values.null is None else np.count_nonzero(values.null)):
        raise FormatError("a document of no bytes")
    if not len(present):
        return Bytes(np.zeros(len(values) + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8))
    documents = values if len(present) == len(values) else values.choose(present)
    span = int(documents.offset[-1] - documents.offset[0])
    if span > _SPARSE * int(documents.lengths.sum()):
        documents = _end_to_end(documents)
    text = checked_utf8(_render(documents))
    if len(present) == len(values):
        return text
    sizes = np.zeros(len(values) + 1, dtype=np.int32)
    sizes[present + 1] = np.diff(text.offsets)
    return Bytes(np.cumsum(sizes, dtype=np.int32), text.data)


def _end_to_end(documents: Values) -> Values:
    """Return a copy of the documents in a memory of their own."""
    # And of some bytes after them, which a memory needs.
    offset, length = np.append(documents.offset, 0), np.append(documents.lengths, OVERREAD_BYTES)
    copied = gather_bytes(Values(documents.memory, offset, length, None))
    bounds = copied.offsets.astype(np.int64)
    memory = Memory(copied.data, int(bounds[-2]))
    return Values(memory, bounds[:-2], documents.lengths, None)


def _render(documents: Values) -> Bytes:
    """Return the text of documents: of those of one structure together, then of what is left."""
    memory, begin, end = documents.memory, documents.offset, documents.offset + documents.lengths
    left = np.arange(len(begin))
    pieces: list[Bytes] = []
    order: list[Int64Array] = []
    while len(left) >= FEW_DOCUMENTS:
        try:
            structure = Structure(memory, int(begin[left[0]]), int(end[left[0]]))
        except FormatError:
            break  # Of no structure that is followed, if it is a document.
        alike = structure.find_alike(begin[left], end[left])
        if np.count_nonzero(alike) * _ROUND_SHARE < len(left):
            break
        own = left[alike]
        pieces.append(render_alike(memory, structure, begin[own]))
        order.append(own)
        left = left[~alike]
    if len(left):
        pieces.append(_render_level_by_level(gather_bytes(documents.choose(left))))
        order.append(left)
    if len(pieces) == 1:
        return pieces[0]
    at = np.empty(len(begin), dtype=np.int64)
    at[np.concatenate(order)] = np.arange(len(begin))
    return Bytes.of(Bytes.join(pieces).array(pa.binary(), None).take(of_numbers(at)))


def _render_level_by_level(documents: Bytes) -> Bytes:
    memory, keys = Memory(documents.data, len(documents.data)), Keys()
    bounds = documents.offsets.astype(np.int64)
    return render(memory, walk(memory, bounds[:-1], bounds[1:], keys), keys)
