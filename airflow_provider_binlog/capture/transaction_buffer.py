"""Transactions that are buffered until their end or XA COMMIT, and what they rolled back.

The changes are buffered in memory while they are few, and are read again from the log where they
are many, or were prepared in an earlier range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.binlog.transactions import GroupEnd
from airflow_provider_binlog.blocks.block import IS_GROUP_START, choose, copy
from airflow_provider_binlog.blocks.captured import TransactionBlock
from airflow_provider_binlog.blocks.transactions import IS_CHANGE, TransactionReader
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    error_context,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sql.statement_types import SavepointVerb, StatementType, read_savepoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.gtid import GtidEvent, MariadbGtid
    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.position import Flavor

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


_UNREADABLE = "\ufffd"


class Intervals:
    """Intervals of offsets; none overlaps another."""

    def __init__(self) -> None:
        self._start: list[int] = []
        self._stop: list[int] = []

    def __bool__(self) -> bool:
        """Whether there is an interval."""
        return bool(self._start)

    def add(self, start: int, stop: int) -> None:
        """Add an interval, joined with those that it meets."""
        first, last = bisect_right(self._stop, start), bisect_left(self._start, stop)
        if first < last:
            start, stop = min(start, self._start[first]), max(stop, self._stop[last - 1])
        self._start[first:last], self._stop[first:last] = [start], [stop]

    def contain(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the offsets lie in an interval."""
        if not self._start:
            return np.zeros(len(offsets), dtype=bool)
        before = np.searchsorted(self._start, offsets, side="right") - 1
        inside: npt.NDArray[np.bool_] = (before >= 0) & (offsets < np.array(self._stop)[before])
        return inside


def may_roll_back(seen: Scanned) -> bool:
    """Whether what follows an event may be rolled back by a later event of its transaction."""
    return seen.statement_type is StatementType.SAVEPOINT


class Rollbacks:
    """What one transaction rolled back, as far as it was read.

        GTID | changes | SAVEPOINT `s` | changes | ROLLBACK TO `s` | changes | XID
        GTID | changes | ROLLBACK

    A server cuts what it rolls back from the log before it writes it, but MariaDB does not where
    the session also changed a table that cannot be rolled back, or made a temporary one. In row
    format the changes of such a table are logged as a transaction of their own, when they happen.
    So whatever is between a savepoint and the return to it was not committed. Nothing announces a
    ROLLBACK of the whole: changes before the first SAVEPOINT quarantine their tables then.

    Source: mariadb, sql/log.cc, binlog_savepoint_rollback, binlog_rollback and
    THD::binlog_prepare_pending_rows_event; mysql-server, sql/binlog.cc, the same.

    Attributes:
        intervals: The expanded offsets between which changes were rolled back.
        resolved: The expanded offsets of the statements that say so.
    """

    def __init__(self) -> None:
        self.intervals = Intervals()
        self.resolved: set[int] = set()
        self._since: int | None = None
        # Name and expanded offset, in log order.
        self._savepoints: list[tuple[str, int]] = []

    def follow(self, block: EventBlock, events: Iterable[tuple[int, Scanned]]) -> None:
        """Process the next events of the transaction, each with its index in a block."""
        flavor = block.format.flavor
        for event, seen in events:
            at = int(block.expanded_offset[event])
            if self._since is None and may_roll_back(seen):
                self._since = at
            if seen.end is GroupEnd.ROLLED_BACK and self._since is not None:
                self.intervals.add(self._since, at)
            elif seen.query is None:
                pass
            elif seen.statement_type is StatementType.SAVEPOINT:
                self._set(seen.query, flavor, at)
            elif seen.statement_type is StatementType.ROLLBACK_TO:
                self._return(seen.query, flavor, at)

    def leave_out(self, part: TransactionBlock) -> TransactionBlock | None:
        """Return a part of the transaction without what was rolled back; None if nothing is left.

        Only the statements that could not be resolved are left.
        """
        if not self.resolved and not self.intervals:
            return part
        block, read = part
        kept = ~(self.intervals.contain(block.expanded_offset) & IS_CHANGE[block.type])
        scanned = {
            event: seen
            for event, seen in read.scanned.items()
            if int(block.expanded_offset[event]) not in self.resolved
        }
        return _choose(part._replace(transactions=replace(read, scanned=scanned)), kept)

    def _set(self, query: Query, flavor: Flavor, at: int) -> None:
        """Follow SAVEPOINT, which takes its name from an earlier one, or RELEASE SAVEPOINT."""
        verb, name = _read(query, flavor)
        names = [name for name, _ in self._savepoints]
        index = names.index(name) if name in names else len(names)
        if verb is SavepointVerb.SET:
            del self._savepoints[index : index + 1]
            self._savepoints.append((name, at))
        else:
            del self._savepoints[index:]

    def _return(self, query: Query, flavor: Flavor, at: int) -> None:
        """Follow ROLLBACK TO, if it is certain to which savepoint."""
        _, name = _read(query, flavor)
        names = [name for name, _ in self._savepoints]
        # By the server's collation, names may be equal that differ in letters.
        if name not in names or not all(map(str.isascii, names)):
            return
        index = names.index(name)
        self.intervals.add(self._savepoints[index][1], at)
        self.resolved.add(at)
        del self._savepoints[index + 1 :]


def leave_out_rolled_back(whole: TransactionBlock) -> TransactionBlock:
    """Return a block without what the transactions that lie whole in it rolled back."""
    block, read = whole
    last = int(read.of_event[-1])
    rolling_back = {
        int(read.of_event[event])
        for event, seen in read.scanned.items()
        if seen.end is GroupEnd.ROLLED_BACK or seen.statement_type is StatementType.ROLLBACK_TO
    }
    # An XA transaction is buffered in any case, and may be read again.
    buffered = {
        int(read.of_event[event])
        for event, seen in read.scanned.items()
        if seen.end is GroupEnd.PREPARED or seen.statement_type is StatementType.XA_START
    }
    for own in sorted(rolling_back - buffered - {0} - ({last} if read.ends_open else set())):
        events = sorted(item for item in read.scanned.items() if read.of_event[item[0]] == own)
        rollbacks = Rollbacks()
        rollbacks.follow(block, events)
        # Its GTID is left, at least.
        whole = rollbacks.leave_out(whole) or whole
    return whole


def _choose(part: TransactionBlock, kept: npt.NDArray[np.bool_]) -> TransactionBlock | None:
    if kept.all():
        return part
    block, read = part
    index = np.flatnonzero(kept)
    scanned = {
        int(np.searchsorted(index, event)): seen
        for event, seen in read.scanned.items()
        if kept[event]
    }
    if not len(index):
        return None
    read = replace(read, of_event=read.of_event[index], scanned=scanned)
    return TransactionBlock(choose(block, index), read)


def _read(query: Query, flavor: Flavor) -> tuple[SavepointVerb, str]:
    """Return what a statement does with a savepoint, and the name, as far as letters matter."""
    verb, name = read_savepoint(query.sql, query.session(flavor))
    return verb, _UNREADABLE if name is None else name.rstrip(" ").casefold()
