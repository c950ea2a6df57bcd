"""Bytes that can be read at any offset as an integer of any width, many offsets at once.

    u4[offsets]    the little-endian uint32 that starts at each offset

Overlapping views cost nothing: item `i` is the integer that starts at byte `i`, whatever its
alignment. Index them with `view[offsets]`; `take` would copy the whole view first.

Source: numpy, ndarray(strides=(1,)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.blocks.arrays import unaligned_view

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERREAD_BYTES = 48
"""Bytes after a memory's end that may be read, without meaning: the widest value of fixed size, a
DECIMAL of 30 bytes, and one word more."""

WORD_MASK = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
"""`WORD_MASK[k]` keeps the first `k` bytes of a little-endian 64-bit word."""

Int64Array = npt.NDArray[np.int64]


def batches(sizes: Int64Array, size_max: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of entries of these sizes, each of up to `size_max` in all, or of one entry."""
    upto = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        done = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(upto, done + size_max, side="right")))
        yield first, last
        first = last


class Memory:
    """Some bytes, and `OVERREAD_BYTES` spare ones after them.

    Attributes:
        size: Bytes without the spare ones; past the end of all values, where cursors are held
            that ran past it.
        u1: uint8, the bytes.
        u2, u4, u8, i8: overlapping little-endian views.
    """

    __slots__ = ("_views", "i8", "size", "u1", "u2", "u4", "u8")

    def __init__(self, data: npt.NDArray[np.uint8], size: int) -> None:
        if len(data) < size + OVERREAD_BYTES:
            spacious = np.zeros(size + OVERREAD_BYTES, dtype=np.uint8)
            spacious[: len(data)] = data
            data = spacious
        self.size = size
        self.u1 = np.ascontiguousarray(data)
        self.u2: npt.NDArray[np.uint16] = unaligned_view(self.u1, "<u2")
        self.u4: npt.NDArray[np.uint32] = unaligned_view(self.u1, "<u4")
        self.u8: npt.NDArray[np.uint64] = unaligned_view(self.u1, "<u8")
        self.i8: npt.NDArray[np.int64] = unaligned_view(self.u1, "<i8")
        self._views: dict[int, npt.NDArray[Any]] = {2: self.u2, 4: self.u4, 8: self.u8}

    def read(self, kind: str, offsets: Int64Array) -> npt.NDArray[Any]:
        """Return the numbers of a type, such as `<i4` or `>u8`, that begin at these offsets."""
        size = int(kind[-1])
        if size == 1:
            return self.u1.take(offsets).view(kind)
        words = self._views[size][offsets]
        if kind.startswith(">"):
            words.byteswap(inplace=True)
        return words.view(f"<{kind[1:]}")

    def read_apart(self, kind: str, first: int, apart: int, count: int) -> npt.NDArray[Any]:
        """Return so many numbers of a type, the first at an offset, each so many bytes after it.

        That takes an eighth of the time of `read`, and may read as many bytes after the end.
        """
        there = np.ndarray((count,), kind, self.u1.data, first, (apart,))
        return there.astype(f"<{kind[1:]}")

    def pack(self, begin: Int64Array, size: int) -> Memory:
        """Return a copy of `size` bytes from each of these offsets, end to end."""
        rows = np.zeros(len(begin) + -(-OVERREAD_BYTES // size), dtype=np.int64)
        rows[: len(begin)] = begin
        copied = unaligned_view(self.u1, f"V{size}")[rows]
        return Memory(copied.view(np.uint8), size * len(begin))

    def word(self, offsets: Int64Array, lengths: Int64Array, number: int) -> npt.NDArray[np.uint64]:
        """Return word `number` of each value: 8 of its bytes, zero after its end.

        `lengths` are the values' sizes in bytes; every value lies inside this memory.
        """
        at = np.minimum(offsets + 8 * number, self.size)
        return self.u8[at] & WORD_MASK[np.clip(lengths - 8 * number, 0, 8)]
