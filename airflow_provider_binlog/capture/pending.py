"""Rows events that wait until a part of their table is full.

A table with three rows in each block must not mean a tiny decode per block: the events of a table
are kept as bytes, over blocks and files, and are decoded together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.blocks.block import SLACK
from airflow_provider_binlog.blocks.unaligned import unaligned_view
from airflow_provider_binlog.rows.events import RowsEvents

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock

# So many events of one size, on average, are copied by the size: less than one by one.
_ALIKE = 32

# Events that fill a third of the bytes from the first to the last are copied with what is between
# them: one copy instead of one per event.
_DENSE = 3


@dataclass(frozen=True)
class RowsColumns:
    """What is known of rows events besides their bytes; one entry per event, in log order.

    Attributes:
        event: int64; index into the block.
        size: int64; bytes of each event, without its checksum.
        table: int64; index of its table map.
        file: int64; index into the range's files.
        position: int64; offset in the file.
        row: int64; the number from which its rows are numbered.
        prefix, number: int64; its transaction's GTID, as in `Transactions`.
        commit_ts: int64; microseconds since 1970.
    """

    event: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    file: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    prefix: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    commit_ts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, captured: CapturedBlock) -> RowsColumns:
        """Return the columns of a block's captured rows events."""
        block, events, transactions = captured.block, captured.events, captured.transactions
        transaction = captured.transaction
        return cls(
            event=events,
            size=block.size[events] - block.format.checksum_size,
            table=captured.table,
            file=np.full(len(events), captured.file_index, dtype=np.int64),
            position=block.offset[events],
            row=captured.row,
            prefix=transactions.prefix[transaction],
            number=transactions.number[transaction],
            commit_ts=transactions.commit_ts[transaction],
        )

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.event)

    def choose(self, chosen: slice | npt.NDArray[np.int64]) -> RowsColumns:
        """Return the columns of some of the events."""
        return RowsColumns(*(column[chosen] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, pieces: Sequence[RowsColumns]) -> RowsColumns:
        """Return the columns of all events, one piece after the other."""
        columns = zip(*(vars(piece).values() for piece in pieces), strict=True)
        return cls(*map(np.concatenate, columns))


class PendingEvents:
    """The waiting rows events of one table with one schema.

    Attributes:
        bytes: Their size, without what was copied along with them.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.bytes = 0
        self._stored = 0
        self._pieces: list[npt.NDArray[np.uint8]] = []
        self._start: list[npt.NDArray[np.int64]] = []
        self._end: list[npt.NDArray[np.int64]] = []
        self._type: list[npt.NDArray[np.uint8]] = []
        self._columns: list[RowsColumns] = []

    def append(self, block: EventBlock, columns: RowsColumns) -> None:
        """Keep these events of the block: their bytes are copied."""
        start = block.start[columns.event]
        size = columns.size
        total = int(size.sum())
        first, last = int(start[0]), int(start[-1] + size[-1])
        if total * _DENSE >= last - first:
            piece, begin = block.data[first:last].copy(), start - first
        else:
            piece, begin = _gather(block.data, start, size), np.cumsum(size) - size
        self._pieces.append(piece)
        self._start.append(begin + self._stored)
        self._end.append(begin + self._stored + size)
        self._type.append(block.type[columns.event])
        self._columns.append(columns)
        self._stored += len(piece)
        self.bytes += total

    def take(self) -> tuple[RowsEvents, RowsColumns]:
        """Return the events, ready to be decoded, and forget them."""
        events = RowsEvents(
            data=np.concatenate([*self._pieces, np.zeros(SLACK, dtype=np.uint8)]),
            start=np.concatenate(self._start),
            end=np.concatenate(self._end),
            type=np.concatenate(self._type),
        )
        columns = RowsColumns.concatenate(self._columns)
        self._clear()
        return events, columns


def _gather(
    data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Return the bytes of all events, one after the other."""
    order = np.argsort(size, kind="stable")
    bounds = np.flatnonzero(np.diff(size[order])) + 1
    if len(bounds) * _ALIKE > len(size):
        ends = (start + size).tolist()
        return np.concatenate([data[a:b] for a, b in zip(start.tolist(), ends, strict=True)])
    begin = np.cumsum(size) - size
    gathered = np.empty(int(size.sum()), dtype=np.uint8)
    for alike in np.split(order, bounds):
        whole = f"V{size[alike[0]]}"
        unaligned_view(gathered, whole)[begin[alike]] = unaligned_view(data, whole)[start[alike]]
    return gathered
