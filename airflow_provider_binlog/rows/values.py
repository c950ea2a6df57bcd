"""The values of one column, located but not yet read, and how a column's bytes become Arrow.

A `Memory` can be read at any offset as an integer of any width, many offsets at once: item `i` of a
view is the integer that starts at byte `i`. Index views with `view[offsets]`; `take` would copy the
whole view first.

Source: numpy, ndarray(strides=(1,)); Arrow columnar format, variable-size binary layout, validity
bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.blocks.arrays import of_numbers, unaligned_view

OVERREAD_BYTES = 48
"""Bytes after a memory's end that may be read, without meaning: the widest value of fixed size, a
DECIMAL of 30 bytes, and one word more."""

WORD_MASK = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
"""`WORD_MASK[k]` keeps the first `k` bytes of a little-endian 64-bit word."""

Int64Array = npt.NDArray[np.int64]

Rows: TypeAlias = "Int64Array | slice"
"""Indexes of images or values, rising."""


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


Array: TypeAlias = "pa.Array[Any]"

OFFSET_MAX = 2**31 - 1
"""Arrow's binary and string arrays hold at most this many bytes."""


@dataclass(frozen=True)
class Values:
    """Locations of the values of one column, one entry per row.

    Attributes:
        memory: The bytes they are in.
        offset: Where each value begins, after its length prefix; two rows may share a value. That
            of a NULL may be read, without meaning.
        length: Bytes of each value, 0 for NULL; None where all have one fixed width.
        null: True for NULL; None where there is none.
        apart: Bytes from each value to the next one; 0 where that is not known.
    """

    memory: Memory
    offset: Int64Array
    length: Int64Array | None
    null: npt.NDArray[np.bool_] | None
    apart: int = 0

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.offset)

    @property
    def lengths(self) -> Int64Array:
        """The `length` of values of variable width."""
        if self.length is None:
            raise TypeError("values of fixed width have no lengths")
        return self.length

    def choose(self, rows: Int64Array | slice) -> Values:
        """Return the values of these rows, in their order; of a slice as views."""
        return Values(
            self.memory,
            self.offset[rows],
            None if self.length is None else self.length[rows],
            None if self.null is None else self.null[rows],
            self.apart if isinstance(rows, slice) else 0,
        )

    def read(self, kind: str, after: int = 0) -> npt.NDArray[Any]:
        """Return the numbers of a type that begin `after` bytes into each value: see `Memory.read`.

        A copy. They may reach beyond the values, and then say nothing there.
        """
        if self.apart and len(self):
            # In an eighth of the time; as many bytes may be read after the end.
            first, buffer = int(self.offset[0]) + after, self.memory.u1.data
            stored = np.ndarray((len(self),), kind, buffer, first, (self.apart,))
            return stored.astype(f"<{kind[1:]}")
        return self.memory.read(kind, self.offset + after if after else self.offset)


Convert: TypeAlias = "Callable[[Values], Array]"
"""Reads located values into an Arrow array, one entry per row. A value that no lake type holds
becomes NULL, so the array has as many more NULLs than there were in the log."""


Repair: TypeAlias = "Callable[[Values], tuple[Array, int]]"
"""Reads values of which `Convert` refuses some, and counts those that lost bytes by it."""


Gather: TypeAlias = "Callable[[Values], Bytes]"
"""Returns the bytes of values of variable width, end to end."""


@dataclass(frozen=True)
class Plan:
    """Plan to locate and read the values of one column.

    Attributes:
        arrow_type: What `convert` returns.
        convert: Reads them.
        size: Bytes of a value of fixed width.
        prefix: Bytes of the length before a value of variable width; 0: the width is fixed.
        repair: Reads values that `convert` refuses with a FormatError; None: the error stays.
        growth: How many times as many bytes values may take when read, where that is many.
    """

    arrow_type: pa.DataType
    convert: Convert
    size: int = 0
    prefix: int = 0
    repair: Repair | None = None
    growth: int = 1


def array_of(
    data_type: pa.DataType, numbers: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None
) -> Array:
    """Return an Arrow array over the memory of fixed-width values, 16 bytes per decimal."""
    count = numbers.nbytes // (data_type.bit_width // 8)
    return pa.Array.from_buffers(data_type, count, [validity(null), buffer_of(numbers)])


def buffer_of(numbers: npt.NDArray[Any]) -> pa.Buffer:
    """Return the memory of `numbers` as Arrow has it, copied only where it lies scattered."""
    return pa.py_buffer(np.ascontiguousarray(numbers).data)


def validity(null: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Return Arrow's validity bitmap, or None where nothing is NULL."""
    if null is None:
        return None
    return buffer_of(np.packbits(~null, bitorder="little"))


def with_nulls(array: Array, null: npt.NDArray[np.bool_] | None) -> Array:
    """Return an array of text or bytes that has no NULLs of its own with these."""
    if null is None:
        return array
    _, offsets, data = array.buffers()
    return pa.Array.from_buffers(array.type, len(array), [validity(null), offsets, data])


@dataclass(frozen=True)
class Bytes:
    """Values of variable width laid end to end, as Arrow has them.

    Attributes:
        offsets: int32, one more than values; value `i` is `data[offsets[i]:offsets[i + 1]]`.
        data: uint8.
    """

    offsets: npt.NDArray[np.int32]
    data: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, array: Array) -> Bytes:
        """Return the values of a binary or string array, views of its memory."""
        if not len(array):
            return cls(np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8))
        _, offsets, data = array.buffers()
        if offsets is None:
            raise TypeError("not an array of bytes")
        bounds = np.frombuffer(memoryview(offsets), dtype=np.int32)
        bounds = bounds[array.offset : array.offset + len(array) + 1]
        if data is None or not bounds[-1]:
            return cls(bounds, np.zeros(0, dtype=np.uint8))
        return cls(bounds, np.frombuffer(memoryview(data), dtype=np.uint8, count=int(bounds[-1])))

    @classmethod
    def of_rows(cls, data: npt.NDArray[np.uint8]) -> Bytes:
        """Return the rows of uint8[values, width]."""
        offsets = np.arange(len(data) + 1, dtype=np.int64) * data.shape[1]
        return cls(offsets.astype(np.int32), data.reshape(-1))

    @classmethod
    def of_values(cls, values: Sequence[bytes]) -> Bytes:
        """Return values that Python has, copied.

        Raises:
            ArrowCapacityError: The values take more than Arrow's offsets can say.
        """
        data = np.frombuffer(b"".join(values), dtype=np.uint8)
        return cls(to_offsets([0, *map(len, values)]), data)

    @classmethod
    def join(cls, pieces: Sequence[Bytes]) -> Bytes:
        """Return the values of all pieces, in their order, copied.

        Raises:
            ArrowCapacityError: The values take more than Arrow's offsets can say.
        """
        lengths = [np.diff(piece.offsets) for piece in pieces]
        used = [piece.data[piece.offsets[0] : piece.offsets[-1]] for piece in pieces]
        nothing = np.zeros(1, dtype=np.int64)
        data = np.concatenate([np.zeros(0, dtype=np.uint8), *used])
        return cls(to_offsets(np.concatenate([nothing, *lengths])), data)

    def slice(self, first: int, last: int) -> Bytes:
        """Return the values `first` to `last`, views."""
        bounds = self.offsets[first : last + 1]
        return Bytes(bounds - bounds[0], self.data[bounds[0] : bounds[-1]])

    def array(self, data_type: pa.DataType, null: npt.NDArray[np.bool_] | None) -> Array:
        """Return them as an Arrow array of `data_type`, no copies."""
        buffers = [validity(null), buffer_of(self.offsets), buffer_of(self.data)]
        return pa.Array.from_buffers(data_type, len(self.offsets) - 1, buffers)

    @property
    def is_ascii(self) -> bool:
        """Whether no byte has its top bit set."""
        return not len(self.data) or int(self.data.max()) < 0x80


def to_offsets(sizes: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return Arrow's offsets of values of these sizes, a 0 before them.

    Raises:
        ArrowCapacityError: The values take more than Arrow's offsets can say.
    """
    bounds = np.cumsum(sizes, dtype=np.int64)
    if bounds[-1] > OFFSET_MAX:
        raise pa.ArrowCapacityError("values are too large for one array")
    return bounds.astype(np.int32)


def gather_bytes(values: Values) -> Bytes:
    """Return the values' bytes end to end: copied, but for a single value.

    The memory reads as an Arrow array of value, gap, value, gap ..., of which Arrow takes every
    other entry. Values that are not in order make gaps of negative size, which are not read.
    """
    count = len(values)
    if not count:
        return Bytes(np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8))
    if count == 1:
        begin, size = int(values.offset[0]), int(values.lengths[0])
        return Bytes(to_offsets([0, size]), values.memory.u1[begin : begin + size])
    bounds = np.empty(2 * count + 1, dtype=np.int32)
    bounds[0:-1:2] = values.offset
    bounds[1::2] = values.offset + values.lengths
    return take_spans(bounds, values.memory.u1)


def take_spans(bounds: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> Bytes:
    """Copy spans of bytes end to end: `bounds` has begin and end of each, then one entry more."""
    count = len(bounds) // 2
    # Of all gaps Arrow looks at one: the last must not end before the first value begins.
    bounds[-1] = max(bounds[-2], bounds[0])
    buffers = [None, buffer_of(bounds), buffer_of(data)]
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    return Bytes.of(with_gaps.take(of_numbers(np.arange(0, 2 * count, 2, dtype=np.int32))))
