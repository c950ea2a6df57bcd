"""How the images of a table are walked: runs of columns of fixed width, and columns with lengths.

    segment: | columns of fixed width ... | one column with a length prefix |

Source: mysql-server sql/rpl_record.cc, unpack_row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.rows.images.presence import WORD_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.rows.values import Plan


WINDOW_BITS = 8
"""The NULL bits of at most so many neighbours are read at once."""


@dataclass(frozen=True)
class Window:
    """What the NULL bits of a segment's columns say, where few enough bits reach over them.

    Attributes:
        word: Which 64 NULL bits they are of.
        shift: How many of those are before them.
        mask: One bit for each of them.
        columns: They, as bits.
        sizes: By the bits, the bytes of the run.
        present: By the bits, whether there is a value with a length prefix: 1 or 0.
    """

    word: int
    shift: int
    mask: int
    columns: int
    sizes: npt.NDArray[np.int64]
    present: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Some columns of fixed width, then one with a length prefix.

    Attributes:
        run: Indexes of the columns of fixed width.
        columns: The same as bits.
        size: Bytes of the run where none of it is NULL.
        missing: (NULL byte, bytes to take off by its value) for each NULL byte that has a bit of
            the run in it.
        variable: Index of the column with a length prefix; None after the last one.
        prefix: Bytes of its length.
        window: How the NULL bits of all these columns are read at once; None where they are too
            many, or not of the same 64.
    """

    run: tuple[int, ...]
    columns: int
    size: int
    missing: tuple[tuple[int, npt.NDArray[np.int64]], ...]
    variable: int | None
    prefix: int
    window: Window | None


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
    run: list[int] = []
    for column, plan in enumerate(plans):
        if plan.prefix:
            segments.append(_segment(run, plans, column))
            run = []
        else:
            run.append(column)
    if run:
        segments.append(_segment(run, plans, None))
    width = len(plans)
    masks = [
        np.uint64((1 << min(WORD_BITS, width - first)) - 1).view(np.int64)
        for first in range(0, width, WORD_BITS)
    ]
    return Route(tuple(plans), tuple(segments), (width + 7) // 8, tuple(masks))


def _segment(run: list[int], plans: Sequence[Plan], variable: int | None) -> Segment:
    values = np.arange(256)
    missing: dict[int, npt.NDArray[np.int64]] = {}
    for column in run:
        table = missing.setdefault(column // 8, np.zeros(256, dtype=np.int64))
        table += (values >> column % 8 & 1) * plans[column].size
    prefix = 0 if variable is None else plans[variable].prefix
    size = sum(plans[column].size for column in run)
    columns = sum(1 << column for column in run)
    window = _window(run if variable is None else [*run, variable], plans)
    return Segment(tuple(run), columns, size, tuple(missing.items()), variable, prefix, window)


def _window(columns: list[int], plans: Sequence[Plan]) -> Window | None:
    """Return how the NULL bits of neighbours are read, the last of which may have lengths."""
    first, last = columns[0], columns[-1]
    bits = last + 1 - first
    if bits > WINDOW_BITS or first // WORD_BITS != last // WORD_BITS:
        return None
    mask = (1 << bits) - 1
    sizes, present = _tables(tuple(plans[column].size for column in columns))
    return Window(first // WORD_BITS, first % WORD_BITS, mask, mask << first, sizes, present)


@lru_cache(maxsize=256)
def _tables(sizes: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return by NULL bits the bytes that are left of these sizes, and whether the last one is."""
    bits = np.arange(len(sizes))
    present = 1 - (np.arange(1 << len(sizes))[:, None] >> bits & 1)
    return present @ np.array(sizes, dtype=np.int64), np.ascontiguousarray(present[:, -1])
