"""Rows events that wait until a part of their table is full.

A table with three rows in each block must not mean a tiny decode per block: the events of a table
are kept as bytes, over blocks and files, and are decoded together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.blocks.arrays import bytes_of, gather
from airflow_provider_binlog.blocks.block import SLACK
from airflow_provider_binlog.rows.decode import RowsEvents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.rows.values import Int64Array

# Events of one table are not copied if a block has at most so many times their bytes.
_DENSE = 1.5

# Columns of `RowsColumns`, stacked.
_START, _SIZE = 0, 1


@dataclass(frozen=True)
class RowsColumns:
    """What is known of rows events besides their bytes; one entry per event, in log order.

    Attributes:
        start: int64; where each begins in the bytes that hold it.
        size: int64; its bytes, without its checksum.
        type: int64; its type code.
        table: int64; index of its table map.
        file: int64; index into the range's files.
        position: int64; offset in the file.
        row: int64; the number from which its rows are numbered.
        prefix, number: int64; its transaction's GTID, as in `Transactions`.
        commit_ts: int64; microseconds since 1970.
    """

    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    type: npt.NDArray[np.int64]
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
            start=block.start[events],
            size=block.size[events] - block.format.checksum_size,
            type=block.type[events].astype(np.int64),
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
        return len(self.start)

    def choose(self, chosen: slice | npt.NDArray[np.int64]) -> RowsColumns:
        """Return the columns of some of the events."""
        return RowsColumns(*(column[chosen] for column in vars(self).values()))

    @property
    def stacked(self) -> Int64Array:
        """The columns as int64[events, columns]: `RowsColumns(*stacked.T)` has them again.

        Many tables take a part of each block: of one array that costs a fraction of each column's.
        """
        return np.stack(list(vars(self).values()), axis=1)


class PendingPiece(NamedTuple):
    """Rows events of one table and one block.

    Attributes:
        data: uint8; holds them, and begins with the first of them.
        span: How many bytes it is from there to the end of the last one.
        size: Their bytes, without what stands between them.
        events: `RowsColumns`, stacked; their `start` counts from the beginning of `data`.
    """

    data: npt.NDArray[np.uint8]
    span: int
    size: int
    events: Int64Array


class PendingEvents:
    """The waiting rows events of one table with one schema.

    Attributes:
        bytes: Their size, without what stands between them.
        pieces: They, as they came.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Keep none of the events."""
        self.bytes = 0
        self.pieces: list[PendingPiece] = []

    def append(self, piece: PendingPiece) -> None:
        """Keep these events, and with them the memory that they are in."""
        self.pieces.append(piece)
        self.bytes += piece.size

    def take(self) -> tuple[RowsEvents, RowsColumns]:
        """Return the events, ready to be decoded, and forget them."""
        pieces = self.pieces
        self.forget()
        return _join(pieces)


def join(tables: Sequence[PendingEvents]) -> tuple[RowsEvents, RowsColumns, list[int]]:
    """Return the events of tables of equal columns, table after table, without forgetting them.

    The list has the index of each table's first event, and how many events there are.
    """
    counts = [sum([len(piece.events) for piece in each.pieces]) for each in tables]
    events, columns = _join([piece for each in tables for piece in each.pieces])
    return events, columns, list(accumulate(counts, initial=0))


def _join(pieces: Sequence[PendingPiece]) -> tuple[RowsEvents, RowsColumns]:
    """Return the events of all pieces, copied if there are several."""
    data, stacked = pieces[0].data, pieces[0].events
    if len(pieces) > 1:
        spans = [piece.data[: piece.span] for piece in pieces]
        data = np.concatenate([*spans, np.zeros(SLACK, dtype=np.uint8)])
        stacked = np.concatenate([piece.events for piece in pieces])
        begin = list(accumulate([piece.span for piece in pieces[:-1]], initial=0))
        stacked[:, _START] += np.repeat(begin, [len(piece.events) for piece in pieces])
    columns = RowsColumns(*np.ascontiguousarray(stacked.T))
    end, types = columns.start + columns.size, columns.type.astype(np.uint8)
    return RowsEvents(data, columns.start, end, types), columns


def by_table(block: EventBlock, columns: RowsColumns) -> Iterator[tuple[int, PendingPiece]]:
    """Yield some events of a block table by table.

    Events of one table that are most of the block stay where they are. Others are copied, those of
    all tables at once: what waits then keeps no other bytes alive.
    """
    order = np.argsort(columns.table, kind="stable")
    table = columns.table[order]
    first = np.flatnonzero(np.diff(table, prepend=-1))
    size, end = int(columns.size.sum()), columns.start + columns.size
    if len(first) == 1 and size * _DENSE > len(block.data):
        at, stacked = int(columns.start[0]), columns.stacked
        stacked[:, _START] -= at
        piece = PendingPiece(block.data[at:], int(end[-1]) - at, size, stacked)
        yield int(table[0]), piece
        return
    data = bytes_of(gather(block.data, columns.start, end, order))
    stacked = columns.stacked[order]
    upto = np.cumsum(stacked[:, _SIZE])
    start = upto - stacked[:, _SIZE]
    begin = start[first]
    stacked[:, _START] = start - np.repeat(begin, np.diff(first, append=len(order)))
    events = pairwise([*first.tolist(), len(order)])
    spans = pairwise([*begin.tolist(), len(data)])
    for index, own, (at, stop) in zip(table[first].tolist(), events, spans, strict=True):
        held, part = data[at:stop], stacked[slice(*own)]
        if len(first) > 1:
            held, part = held.copy(), part.copy()
        yield index, PendingPiece(held, stop - at, stop - at, part)
