"""Text assembled from fragments: spans of bytes of several arrays.

Source: numpy, assignment to an indexed view of overlapping items happens in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.blocks.unaligned import unaligned_view
from airflow_provider_binlog.rows.values import OFFSET_MAX, Bytes

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array

_CELL = 32
"""Bytes that are copied at a time, which takes as long as 8 do."""
_CHUNK = 8192
"""Fragments that are copied at a time: their cells stay in the processor's cache."""
_LENGTH = 0xFFFFFFFF
_LONG = 16 * _CELL
"""Fragments of more bytes are copied one by one."""


def spans(begin: Int64Array, length: Int64Array) -> Int64Array:
    """Return spans of bytes as one number each: | 32 begin | 32 bits length |."""
    return (begin << 32) + length


LATER = (1 << 32) - 1
"""Added to a span: it begins a byte later and ends where it did."""


class Fragments:
    """Fragments by number, and the bytes they are made of."""

    def __init__(self, count: int, data: npt.NDArray[np.uint8]) -> None:
        """Begin with `data` to take fragments from, of less than 2 GiB like all that is added."""
        self._pieces = [data]
        self._size = len(data)
        self._spans = np.zeros(count, dtype=np.int64)

    def add_bytes(self, data: bytes | npt.NDArray[np.uint8]) -> int:
        """Add bytes to take fragments from; return where they begin."""
        at = self._size
        piece = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        self._pieces.append(piece)
        self._size += len(piece)
        return at

    def add_values(self, values: Bytes) -> Int64Array:
        """Return the spans of these values, copied."""
        bounds = values.offsets.astype(np.int64)
        return spans(bounds[:-1] + self.add_bytes(values.data), bounds[1:] - bounds[:-1])

    def put(self, number: Int64Array, of: Int64Array) -> None:
        """Set the spans of some fragments."""
        self._spans[number] = of

    def join(self) -> tuple[npt.NDArray[np.uint8], Int64Array]:
        """Return all fragments end to end, and where each one ends.

        They are copied in cells. What a cell copies too much is overwritten by the fragments after
        it: so the first cell of each one is copied last, and in order.

        Raises:
            ArrowCapacityError: They take more than Arrow's offsets can say.
        """
        ends = np.cumsum(self._spans & _LENGTH)
        size = int(ends[-1]) if len(ends) else 0
        if size > OFFSET_MAX:
            raise pa.ArrowCapacityError("documents are too large as text")
        source = np.concatenate([*self._pieces, np.zeros(_CELL, dtype=np.uint8)])
        text = np.empty(size + _CELL, dtype=np.uint8)
        for first in range(0, len(ends), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            length = self._spans[chunk] & _LENGTH
            _copy(source, self._spans[chunk] >> 32, length, text, ends[chunk] - length)
        return text[:size], ends


def _copy(
    source: npt.NDArray[np.uint8],
    begin: Int64Array,
    length: Int64Array,
    text: npt.NDArray[np.uint8],
    offset: Int64Array,
) -> None:
    """Copy some fragments."""
    from_cells, to_cells = unaligned_view(source, f"V{_CELL}"), unaligned_view(text, f"V{_CELL}")
    longer = np.flatnonzero(length > _CELL)
    if len(longer):
        is_long = length.take(longer) > _LONG
        for number in longer[is_long].tolist():
            at, to, count = int(begin[number]), int(offset[number]), int(length[number])
            text[to : to + count] = source[at : at + count]
        longer = longer[~is_long]
    done = _CELL
    while len(longer):
        to_cells[offset.take(longer) + done] = from_cells[begin.take(longer) + done]
        done += _CELL
        longer = longer[length.take(longer) > done]
    to_cells[offset] = from_cells[begin]
