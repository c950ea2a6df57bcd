"""Rows events that wait until a part of their table is full.

A table with three rows in each block must not mean a tiny decode per block: the events of a table
are kept as bytes, over blocks and files, and are decoded together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airflow_provider_binlog.blocks.block import SLACK
from airflow_provider_binlog.blocks.spans import bytes_of, gather
from airflow_provider_binlog.rows.events import RowsEvents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.rows.memory import Int64Array

    PendingPiece: TypeAlias = "tuple[RowsEvents, Int64Array]"

# Events of one table are not copied if a block has at most so many times their bytes.
_DENSE = 1.5


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

    def stacked(self) -> Int64Array:
        """Return the columns as int64[columns, events]: `RowsColumns(*stacked)` has them again.

        Many tables take a part of each block: of one array that costs a fraction of each column's.
        """
        return np.stack(list(vars(self).values()))


class PendingEvents:
    """The waiting rows events of one table with one schema.

    Attributes:
        bytes: Their size, without what stands between them.
        pieces: They and their columns, stacked, as they came.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Keep none of the events."""
        self.bytes = 0
        self.pieces: list[PendingPiece] = []

    def append(self, events: RowsEvents, columns: Int64Array) -> None:
        """Keep these events, and with them the memory that they are in."""
        self.pieces.append((events, columns))
        self.bytes += int(events.end.sum() - events.start.sum())

    def take(self) -> tuple[RowsEvents, RowsColumns]:
        """Return the events, ready to be decoded, and forget them."""
        pieces = self.pieces
        self.forget()
        return _join(pieces)


def join(tables: Sequence[PendingEvents]) -> tuple[RowsEvents, RowsColumns, list[int]]:
    """Return the events of tables of equal columns, table after table, without forgetting them.

    The list has the index of each table's first event, and how many events there are.
    """
    counts = [sum(len(events) for events, _ in each.pieces) for each in tables]
    events, columns = _join([piece for each in tables for piece in each.pieces])
    return events, columns, list(accumulate(counts, initial=0))


def _join(pieces: Sequence[PendingPiece]) -> tuple[RowsEvents, RowsColumns]:
    """Return the events of all pieces, copied if there are several."""
    if len(pieces) == 1:
        [(events, columns)] = pieces
        return events, RowsColumns(*columns)
    begin = [int(events.start[0]) for events, _ in pieces]
    stop = [int(events.end[-1]) for events, _ in pieces]
    at = np.cumsum([0, *(last - first for first, last in zip(begin, stop, strict=True))])
    moved = (at[:-1] - begin).tolist()
    spans = [
        events.data[first:last]
        for (events, _), first, last in zip(pieces, begin, stop, strict=True)
    ]
    joined = RowsEvents(
        data=np.concatenate([*spans, np.zeros(SLACK, dtype=np.uint8)]),
        start=np.concatenate(
            [each.start + by for (each, _), by in zip(pieces, moved, strict=True)]
        ),
        end=np.concatenate([each.end + by for (each, _), by in zip(pieces, moved, strict=True)]),
        type=np.concatenate([events.type for events, _ in pieces]),
    )
    return joined, RowsColumns(*np.concatenate([columns for _, columns in pieces], axis=1))


def by_table(block: EventBlock, columns: RowsColumns) -> Iterator[tuple[int, PendingPiece]]:
    """Yield some events of a block table by table: the table, its events, their stacked columns.

    Events of one table that are most of the block stay where they are. Others are copied, those of
    all tables at once: what waits then keeps no other bytes alive.
    """
    start, types = block.start[columns.event], block.type[columns.event]
    end = start + columns.size
    order = np.argsort(columns.table, kind="stable")
    bounds = np.flatnonzero(np.diff(columns.table[order])) + 1
    if not len(bounds) and int(columns.size.sum()) * _DENSE > len(block.data):
        yield int(columns.table[0]), (RowsEvents(block.data, start, end, types), columns.stacked())
        return
    data = bytes_of(gather(block.data, start, end, order))
    now, types = columns.choose(order), types[order]
    stacked, ends = now.stacked(), np.cumsum(now.size)
    begins = ends - now.size
    for first, last in pairwise([0, *bounds.tolist(), len(order)]):
        part, base = slice(first, last), begins[first]
        piece, own = data[base : ends[last - 1]], stacked[:, part]
        if len(bounds):
            piece, own = piece.copy(), own.copy()
        events = RowsEvents(piece, begins[part] - base, ends[part] - base, types[part])
        yield int(now.table[first]), (events, own)
