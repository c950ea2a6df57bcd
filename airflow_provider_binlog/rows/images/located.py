"""Row images whose parts were located, and where the values of each column are.

    segment: | columns of fixed width ... | one column with a length prefix |

A `Route` says how the images of a table are walked, segment by segment. Columns of fixed width have
no offsets of their own: they are counted back from where their run stops.

Source: mysql-server sql/rpl_record.cc, unpack_row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.rows.images.headers import WORD_BITS
from airflow_provider_binlog.rows.values import Int64Array, Memory, Plan, Rows, Values

_SEGMENT_COLUMNS = 8


@dataclass(frozen=True)
class Segment:
    """At most 8 columns: some of fixed width, the last one perhaps with a length prefix.

    Attributes:
        run: Indexes of the columns of fixed width.
        variable: Index of the column with a length prefix, if there is one.
        prefix: Bytes of its length.
        columns: All these columns as bits.
        first, mask: Index of the first column, and a bit for each.
        sizes: By the NULL bits of the columns, the bytes of the run.
        present: By the same bits, whether there is a value with a length prefix: 1 or 0.
    """

    run: tuple[int, ...]
    variable: int | None
    prefix: int
    columns: int
    first: int
    mask: int
    sizes: npt.NDArray[np.int64]
    present: npt.NDArray[np.int64]

    @cached_property
    def size(self) -> int:
        """Bytes of the run without a NULL."""
        return int(self.sizes[0])


@dataclass(frozen=True)
class Route:
    """The steps in which the images of one table are walked.

    Attributes:
        plans: One per column.
        segments: In the order of the columns.
        null_bytes: Bytes of NULL bits before each image's values.
        null_masks: For each 64 of those bits, the ones that stand for a column.
    """

    plans: tuple[Plan, ...]
    segments: tuple[Segment, ...]
    null_bytes: int
    null_masks: tuple[np.int64, ...]

    @cached_property
    def segment_of(self) -> dict[int, int]:
        """By column: the number of its segment."""
        return {
            column: number
            for number, segment in enumerate(self.segments)
            for column in (*segment.run, segment.variable)
            if column is not None
        }


def compile_route(plans: Sequence[Plan]) -> Route:
    """Return how to walk images with these columns, all of them present."""
    segments: list[Segment] = []
    first = 0
    for column, plan in enumerate(plans):
        stop = column + 1
        if plan.prefix or stop in {first + _SEGMENT_COLUMNS, len(plans)} or not stop % WORD_BITS:
            segments.append(_segment(first, plans[first:stop]))
            first = stop
    width = len(plans)
    masks = [
        np.uint64((1 << min(WORD_BITS, width - first)) - 1).view(np.int64)
        for first in range(0, width, WORD_BITS)
    ]
    return Route(tuple(plans), tuple(segments), (width + 7) // 8, tuple(masks))


def _segment(first: int, plans: Sequence[Plan]) -> Segment:
    count, prefix = len(plans), plans[-1].prefix
    stop = first + count
    sizes, present = _tables(tuple(plan.size for plan in plans))
    mask = (1 << count) - 1
    return Segment(
        run=tuple(range(first, stop - bool(prefix))),
        variable=stop - 1 if prefix else None,
        prefix=prefix,
        columns=mask << first,
        first=first,
        mask=mask,
        sizes=sizes,
        present=present,
    )


@lru_cache(maxsize=256)
def _tables(sizes: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return by NULL bits the bytes that are left of these sizes, and whether the last one is."""
    bits = np.arange(len(sizes))
    present = 1 - (np.arange(1 << len(sizes))[:, None] >> bits & 1)
    return present @ np.array(sizes, dtype=np.int64), np.ascontiguousarray(present[:, -1])


_BITS = (np.uint64(1) << np.arange(WORD_BITS, dtype=np.uint64)).view(np.int64)

FEW_IMAGES = 256
"""Of so few images, the values are read where they are."""

WORD_BYTES = 8
"""So many bytes of a row are read as fast as they are copied."""


@dataclass(frozen=True)
class Images:
    """Offsets of the parts of some row images, one entry per image, in log order.

    Attributes:
        route: How they were walked.
        memory: The bytes they are in.
        event: Index of each image's event.
        number: Which image of its event it is, from 0.
        begin: Where each image begins.
        stops: For each segment, where its run of fixed columns stops.
        nulls: For each 64 columns, bits of those that are NULL or absent.
        nullish: Bit c is set if column c is NULL or absent in some image.
        options: Where the bits stand that an image's options have, 0 where it has none; None where
            no image has any.
    """

    route: Route
    memory: Memory
    event: Int64Array
    number: Int64Array
    begin: Int64Array
    stops: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    nullish: int
    options: Int64Array | None = None

    def __len__(self) -> int:
        """Number of images."""
        return len(self.begin)

    def select(self, chosen: Rows) -> Images:
        """Return some of the images, in their order."""
        return Images(
            self.route,
            self.memory,
            self.event[chosen],
            self.number[chosen],
            self.begin[chosen],
            self.stops[:, chosen],
            self.nulls[:, chosen],
            self.nullish,
            None if self.options is None else self.options[chosen],
        )

    def null(self, column: int) -> npt.NDArray[np.bool_] | None:
        """Return in which images the column is NULL or absent; None if in none."""
        if not self.nullish >> column & 1:
            return None
        null: npt.NDArray[np.bool_] = (
            self.nulls[column // WORD_BITS] & _BITS[column % WORD_BITS] != 0
        )
        return null

    def values(self, column: int) -> Values:
        """Return where the values of one column are."""
        number = self.route.segment_of[column]
        segment = self.route.segments[number]
        if column == segment.variable:
            return self._variable(number, column)
        offset = self.stops[number]
        for neighbour in reversed(segment.run[segment.run.index(column) :]):
            fixed = self._fixed(neighbour, offset)
            offset = fixed.offset
        return fixed

    def each_column(self) -> Iterator[tuple[int, Values]]:
        """Yield each column and where its values are, from the last column to the first.

        Neighbours of fixed width of which none is NULL anywhere are copied together, a row of them
        at a time: so their bytes are looked for once, not once per column.
        """
        for number in reversed(range(len(self.route.segments))):
            segment, stop = self.route.segments[number], self.stops[number]
            if segment.variable is not None:
                yield segment.variable, self._variable(number, segment.variable)
            run = segment.run
            while run:
                count = self._packed(run)
                if count:
                    stop, columns = self._pack(run[-count:], stop)
                    yield from columns
                    run = run[:-count]
                else:
                    fixed = self._fixed(run[-1], stop)
                    stop = fixed.offset
                    yield run[-1], fixed
                    run = run[:-1]

    def _packed(self, run: tuple[int, ...]) -> int:
        """Return how many of the last columns of a run are to be copied together."""
        if len(self) < FEW_IMAGES:
            return 0
        count = size = 0
        for column in reversed(run):
            if self.nullish >> column & 1:
                break
            count += 1
            size += self.route.plans[column].size
        return count if size > WORD_BYTES or (size == WORD_BYTES and count > 1) else 0

    def _pack(
        self, run: tuple[int, ...], stop: Int64Array
    ) -> tuple[Int64Array, list[tuple[int, Values]]]:
        """Return where a run without NULLs begins, and its columns, copied, from the last one."""
        sizes = [self.route.plans[column].size for column in run]
        size = sum(sizes)
        begin = stop - size
        packed = self.memory.pack(begin, size)
        columns, at = [], size
        for column, own in zip(reversed(run), reversed(sizes), strict=True):
            at -= own
            offset = np.arange(at, at + size * len(self), size)
            columns.append((column, Values(packed, offset, None, None, apart=size)))
        return begin, columns

    def _fixed(self, column: int, stop: Int64Array) -> Values:
        """Return where the values are that end where the next column's begin."""
        null, size = self.null(column), self.route.plans[column].size
        offset = stop - (size if null is None else size * ~null)
        return Values(self.memory, offset, None, null)

    def _variable(self, number: int, column: int) -> Values:
        """Return where the values of the column with lengths are that ends a segment."""
        at, null, prefix = self.stops[number], self.null(column), self.route.plans[column].prefix
        offset = at + prefix
        following = self.route.segments[number + 1 : number + 2]
        if following and not self.nullish >> column + 1 & (1 << len(following[0].run)) - 1:
            # It ends where the next run begins, which is faster than to read its length again.
            length = self.stops[number + 1] - offset
            length -= following[0].size
        else:
            length = read_lengths(self.memory, at, prefix).astype(np.int64)
        if null is None:
            return Values(self.memory, offset, length, None)
        length[null] = 0
        return Values(self.memory, np.where(null, at, offset), length, null)


def read_lengths(memory: Memory, at: Int64Array, prefix: int) -> npt.NDArray[np.unsignedinteger]:
    """Return the length prefixes at these offsets, `prefix` bytes each."""
    if prefix == 1:
        return memory.u1.take(at)
    if prefix == 2:
        return memory.u2[at]
    if prefix == 3:
        return memory.u4[at] & np.uint32(0xFFFFFF)
    return memory.u4[at]
