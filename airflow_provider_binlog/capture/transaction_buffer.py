"""Transactions whose changes are buffered until their end, or until their XA COMMIT.

The changes are buffered in memory while they are few, and are read again from the log where they
are many, or were prepared in an earlier range.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.transactions import GroupEnd
from airflow_provider_binlog.blocks.block import IS_GROUP_START, copy
from airflow_provider_binlog.blocks.captured import TransactionBlock
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.rollbacks import Rollbacks
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    error_context,
)
from airflow_provider_binlog.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from airflow_provider_binlog.binlog.events.gtid import GtidEvent, MariadbGtid
    from airflow_provider_binlog.blocks.block import EventBlock

_PIECE_BYTES = 4 << 10  # what a piece takes besides its events


@dataclass
class BufferedTransaction:
    """A transaction of which not all changes were emitted.

    Attributes:
        file, offset: Where its GTID begins.
        gtid: Its name, where it has one.
        expanded_offset: Of its GTID, as it is emitted.
        since: Expanded offset from which on its events are buffered, but for its GTID.
        is_xa: Whether it may end prepared.
        tables: Tables of its TABLE_MAPs, in the order of the first ones.
        rollbacks: What it rolled back; None if it has to be read from the log again.
        pieces: Its buffered events; None if they have to be read from the log again.
        bytes: Size of the pieces.
    """

    file: str
    offset: int
    gtid: str | None
    expanded_offset: int = 0
    since: int = 0
    is_xa: bool = False
    tables: dict[tuple[str, str], None] = field(default_factory=dict)
    rollbacks: Rollbacks | None = None
    pieces: list[TransactionBlock] | None = None
    bytes: int = 0

    @classmethod
    def of(
        cls, block: EventBlock, event: int, gtid: GtidEvent | MariadbGtid, *, moved: int
    ) -> BufferedTransaction:
        """Return the transaction of a GTID event, whose expanded offset is moved by so much."""
        offset, at = int(block.offset[event]), int(block.expanded_offset[event]) + moved
        return cls(block.file, offset, gtid.text, at, at, rollbacks=Rollbacks(), pieces=[])

    def add_tables(self, block: EventBlock) -> None:
        """Add the tables of the TABLE_MAPs of a block."""
        for event in np.flatnonzero(block.type == EventType.TABLE_MAP).tolist():
            with error_context(**block.where(event)):
                _, rest = block.format.split(EventType.TABLE_MAP, block.body(event))
                database = decode_identifier(rest.terminated(rest.lenenc()))
                table = decode_identifier(rest.terminated(rest.lenenc()))
            self.tables[database, table] = None

    def forget(self) -> None:
        """Drop the pieces: they are read again, if at all."""
        self.pieces, self.bytes = None, 0


class TransactionBuffer:
    """Events of transactions, within a budget of memory."""

    def __init__(
        self, read_again: Callable[[Position], Iterator[EventBlock]], *, bytes_max: int
    ) -> None:
        """Create an empty buffer.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            bytes_max: Changes that are kept in memory, of all transactions together.
        """
        self._read_again = read_again
        self._bytes_max = bytes_max

    def add(
        self,
        transaction: BufferedTransaction,
        piece: TransactionBlock,
        others: Iterable[BufferedTransaction],
    ) -> None:
        """Buffer events of a transaction, unless it and the others have too many."""
        if transaction.rollbacks is not None:
            transaction.rollbacks.follow(piece.block, sorted(piece.transactions.scanned.items()))
        if transaction.pieces is None:
            return
        own = copy(piece.block)
        transaction.pieces.append(piece._replace(block=own))
        transaction.bytes += len(own.data) + _PIECE_BYTES
        waiting = [other for other in others if other.pieces is not None]
        total = transaction.bytes + sum(other.bytes for other in waiting)
        while total > self._bytes_max:
            largest = max((*waiting, transaction), key=lambda buffered: buffered.bytes)
            total -= largest.bytes
            largest.forget()

    def committed(self, transaction: BufferedTransaction, xid: str) -> Iterator[TransactionBlock]:
        """Yield the buffered events of a transaction without what it rolled back.

        With `xid`, it must end prepared under this name.

        Raises:
            PositionPurgedError: The log of changes that must be read again was purged.
            ForeignPositionError: The changes are not where they were.
            BinlogError: As the source that the changes are read from.
        """
        if transaction.rollbacks is None:
            transaction.rollbacks = Rollbacks()
            for piece in self._pieces(transaction, xid):
                scanned = sorted(piece.transactions.scanned.items())
                transaction.rollbacks.follow(piece.block, scanned)
        for piece in self._pieces(transaction, xid):
            committed = transaction.rollbacks.leave_out(piece)
            if committed is not None:
                yield committed

    def _pieces(self, transaction: BufferedTransaction, xid: str) -> Iterator[TransactionBlock]:
        """Yield the buffered events of a transaction, from memory or from the log."""
        if transaction.pieces is not None:
            yield from transaction.pieces
            return
        try:
            yield from self._from_log(transaction, xid)
        except PositionPurgedError as error:
            raise PositionPurgedError(
                "the log was purged where a transaction was prepared that is committed only now: "
                "its changes are lost, take a new snapshot of its tables",
                xid=xid,
                file=transaction.file,
                offset=transaction.offset,
                tables=", ".join(map(".".join, transaction.tables)),
            ) from error

    def _from_log(self, transaction: BufferedTransaction, xid: str) -> Iterator[TransactionBlock]:
        start = Position(transaction.file, transaction.offset)
        # What follows the transaction may be refused: it is not read here.
        transactions = TransactionReader(refuse=lambda _: None, skips=lambda _: True)
        first = shift = 0
        for number, block in enumerate(self._read_again(start)):
            read = transactions.read(block)
            if number == 0:
                if not IS_GROUP_START[block.type[0]]:
                    raise _not_there(transaction, xid)
                first, shift = 1, transaction.expanded_offset - int(block.expanded_offset[0])
            own = np.flatnonzero(read.of_event == first)
            ends = (event for event in sorted(read.scanned) if read.scanned[event].end is not None)
            end = next(ends, len(block))
            stop = min(end, int(own[-1]) + 1 if len(own) else 0)
            begin = max(
                first, int(np.searchsorted(block.expanded_offset, transaction.since - shift))
            )
            if stop > begin:
                piece = TransactionBlock(block, read).part(begin, stop)
                moved = piece.block.expanded_offset + shift
                yield piece._replace(block=replace(piece.block, expanded_offset=moved))
            first = 0
            if stop == len(block):
                continue
            seen = read.scanned.get(stop)
            is_prepared = seen is not None and seen.end is GroupEnd.PREPARED and seen.xid == xid
            if xid and not is_prepared:
                raise _not_there(transaction, xid)
            return
        raise ConnectionLostError(
            "the log ended inside a transaction that was read again", at=start, xid=xid
        )


def _not_there(transaction: BufferedTransaction, xid: str) -> ForeignPositionError:
    return ForeignPositionError(
        "a prepared transaction is not where it was: the log was reset, or is another server's",
        xid=xid,
        file=transaction.file,
        offset=transaction.offset,
    )
