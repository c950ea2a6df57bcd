"""Transactions whose changes wait for their end, or for their XA COMMIT.

The changes wait in memory while they are few, and are read again from the log where they are many,
or were prepared in an earlier range.
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
class HeldTransaction:
    """A transaction that waits for its end, or for its XA COMMIT.

    Attributes:
        file, offset: Where its GTID begins.
        gtid: Its name, where it has one.
        expanded_offset: Of its GTID, as it comes out.
        tables: Those it has TABLE_MAPs of, in the order of the first ones.
        pieces: What follows its GTID, up to its end; None if it must be read again.
        bytes: What the pieces take.
    """

    file: str
    offset: int
    gtid: str | None
    expanded_offset: int = 0
    tables: dict[tuple[str, str], None] = field(default_factory=dict)
    pieces: list[TransactionBlock] | None = None
    bytes: int = 0

    @classmethod
    def begin(
        cls, block: EventBlock, event: int, gtid: GtidEvent | MariadbGtid, *, moved: int
    ) -> HeldTransaction:
        """Return the transaction of a GTID event, whose expanded offset is moved by so much."""
        offset, expanded_offset = int(block.offset[event]), int(block.expanded_offset[event])
        return cls(block.file, offset, gtid.text, expanded_offset + moved, pieces=[])

    def add_tables(self, block: EventBlock) -> None:
        """Add the tables of the TABLE_MAPs of a block."""
        for event in np.flatnonzero(block.type == EventType.TABLE_MAP).tolist():
            with error_context(**block.where(event)):
                _, rest = block.format.split(EventType.TABLE_MAP, block.body(event))
                database = decode_identifier(rest.terminated(rest.lenenc()))
                table = decode_identifier(rest.terminated(rest.lenenc()))
            self.tables[database, table] = None

    def forget(self) -> None:
        """Drop what was held: it is read again, if at all."""
        self.pieces, self.bytes = None, 0


class HeldChanges:
    """Keeps the changes of transactions within a budget, and finds them again."""

    def __init__(
        self, read_again: Callable[[Position], Iterator[EventBlock]], *, bytes_max: int
    ) -> None:
        """Begin with nothing held.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            bytes_max: Changes that are kept in memory, of all transactions together.
        """
        self._read_again = read_again
        self._bytes_max = bytes_max

    def keep(
        self, held: HeldTransaction, piece: TransactionBlock, others: Iterable[HeldTransaction]
    ) -> None:
        """Keep events of a transaction, unless it and the others hold too many."""
        if held.pieces is None:
            return
        own = copy(piece.block)
        held.pieces.append(piece._replace(block=own))
        held.bytes += len(own.data) + _PIECE_BYTES
        waiting = [each for each in others if each.pieces is not None]
        total = held.bytes + sum(each.bytes for each in waiting)
        while total > self._bytes_max:
            largest = max((*waiting, held), key=lambda each: each.bytes)
            total -= largest.bytes
            largest.forget()

    def of(self, held: HeldTransaction, xid: str) -> Iterator[TransactionBlock]:
        """Yield what follows the GTID of a transaction, from memory or from the log.

        With `xid`, it must end prepared under this name.

        Raises:
            PositionPurgedError: The log of changes that must be read again was purged.
            ForeignPositionError: They are not where they were.
            BinlogError: As the source that they are read from.
        """
        if held.pieces is not None:
            yield from held.pieces
            return
        try:
            yield from self._from_log(held, xid)
        except PositionPurgedError as error:
            raise PositionPurgedError(
                "the log was purged where a transaction was prepared that is committed only now: "
                "its changes are lost, take a new snapshot of its tables",
                xid=xid,
                file=held.file,
                offset=held.offset,
                tables=", ".join(".".join(each) for each in held.tables),
            ) from error

    def _from_log(self, held: HeldTransaction, xid: str) -> Iterator[TransactionBlock]:
        start = Position(held.file, held.offset)
        # What follows the transaction may be refused: it is not read here.
        transactions = TransactionReader(refuse=lambda _: None, skips=lambda _: True)
        first = shift = 0
        for number, block in enumerate(self._read_again(start)):
            read = transactions.read(block)
            if number == 0:
                if not IS_GROUP_START[block.type[0]]:
                    raise _not_there(held, xid)
                first, shift = 1, held.expanded_offset - int(block.expanded_offset[0])
            own = np.flatnonzero(read.of_event == first)
            ends = (each for each in sorted(read.scanned) if read.scanned[each].end is not None)
            end = next(ends, len(block))
            stop = min(end, int(own[-1]) + 1 if len(own) else 0)
            if stop > first:
                piece = TransactionBlock(block, read).part(first, stop)
                moved = piece.block.expanded_offset + shift
                yield piece._replace(block=replace(piece.block, expanded_offset=moved))
            first = 0
            if stop == len(block):
                continue
            seen = read.scanned.get(stop)
            is_prepared = seen is not None and seen.end is GroupEnd.PREPARED and seen.xid == xid
            if xid and not is_prepared:
                raise _not_there(held, xid)
            return
        raise ConnectionLostError(
            "the log ended inside a transaction that was read again", at=start, xid=xid
        )


def _not_there(held: HeldTransaction, xid: str) -> ForeignPositionError:
    return ForeignPositionError(
        "a prepared transaction is not where it was: the log was reset, or is another server's",
        xid=xid,
        file=held.file,
        offset=held.offset,
    )
