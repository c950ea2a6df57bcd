"""Find the committed changes of a log, and where each becomes visible.

XA transactions in two phases are put where their changes become visible, at the XA COMMIT:

    MySQL:    GTID | XA START | changes | XA END | XA_PREPARE          GTID | XA COMMIT
    MariaDB:  GTID | changes | XA END | XA_PREPARE                     GTID | XA COMMIT

    becomes   GTID | XA_PREPARE                   GTID | XA START | changes | XA END | XA COMMIT

Whether XA START begins a transaction of one phase or of two is known at its end: until then its
changes are buffered in memory while they are few, and read again from the log where they are many,
or were prepared in an earlier range.

A server cuts what it rolls back from the log before it writes it, but MariaDB does not where the
session also changed a table that cannot be rolled back, or made a temporary one: then the log has
changes, and after them ROLLBACK, or ROLLBACK TO a savepoint. Their tables are quarantined.

Source: as binlog/transactions.py; mysql-server, sql/xa/sql_cmd_xa.cc; mariadb, sql/xa.cc, and
sql/log.cc, binlog_savepoint_rollback and binlog_rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.events.gtid import Gtid
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.binlog.transactions import GroupEnd, Scanned
from airflow_provider_binlog.blocks.block import IS_GROUP_START, EventBlock, copy
from airflow_provider_binlog.blocks.captured import CapturedBlock, TransactionBlock, joined
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.quarantine import (
    RefusedTables,
    RefuseTables,
    raise_table_error,
)
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sql.lexer import mask_literals
from airflow_provider_binlog.sql.statement_types import StatementType

_PIECE_BYTES = 4 << 10  # what a piece takes besides its events


@dataclass
class BufferedTransaction:
    """An XA transaction whose changes are not emitted.

    Attributes:
        file, offset: Where its GTID begins.
        expanded_offset: Of its GTID, as it is emitted.
        since: Expanded offset from which on its events are buffered, but for its GTID.
        tables: Tables of its TABLE_MAPs, in the order of the first ones.
        pieces: Its buffered events; None if they have to be read from the log again.
        bytes: Size of the pieces.
    """

    file: str
    offset: int
    gtid: str | None
    expanded_offset: int = 0
    since: int = 0
    tables: dict[tuple[str, str], None] = field(default_factory=dict)
    pieces: list[TransactionBlock] | None = None
    bytes: int = 0

    @classmethod
    def of(cls, block: EventBlock, event: int, gtid: Gtid, *, moved: int) -> BufferedTransaction:
        """Return the transaction of a GTID event; `moved` is added to its expanded offset."""
        offset, at = int(block.offset[event]), int(block.expanded_offset[event]) + moved
        return cls(block.file, offset, gtid.text, at, at, pieces=[])

    def add_tables(self, block: EventBlock) -> None:
        """Add the tables of the TABLE_MAPs of a block."""
        for event in np.flatnonzero(block.type == EventType.TABLE_MAP).tolist():
            with errors.error_context(**block.where(event)):
                table_map = TableMap.parse(block.body(event), block.format)
            self.tables[table_map.name] = None

    def forget(self) -> None:
        """Drop the pieces: they are read again, if at all."""
        self.pieces, self.bytes = None, 0


class TransactionBuffer:
    """Events of transactions, within a budget of memory."""

    def __init__(
        self, read_again: Callable[[Position], Iterator[EventBlock]], *, bytes_max: int
    ) -> None:
        self._read_again = read_again
        self._bytes_max = bytes_max

    def add(
        self,
        transaction: BufferedTransaction,
        piece: TransactionBlock,
        others: Iterable[BufferedTransaction],
    ) -> None:
        """Buffer events of a transaction, unless it and the others have too many."""
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

    def pieces(self, transaction: BufferedTransaction, xid: str) -> Iterator[TransactionBlock]:
        """Yield the buffered events of a transaction, from memory or from the log.

        With `xid`, it must end prepared under this name.

        Raises:
            PositionPurgedError: The log of changes that must be read again was purged.
            ForeignPositionError: The changes are not where they were.
            BinlogError: As the source that the changes are read from.
        """
        if transaction.pieces is not None:
            yield from transaction.pieces
            return
        try:
            yield from self._from_log(transaction, xid)
        except errors.PositionPurgedError as error:
            raise errors.PositionPurgedError(
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
        raise errors.ConnectionLostError(
            "the log ended inside a transaction that was read again", at=start, xid=xid
        )


def _not_there(transaction: BufferedTransaction, xid: str) -> errors.ForeignPositionError:
    return errors.ForeignPositionError(
        "a prepared transaction is not where it was: the log was reset, or is another server's",
        xid=xid,
        file=transaction.file,
        offset=transaction.offset,
    )


_UNCERTAIN_ENDS = {
    # The changes of those in a form that is known are buffered.
    GroupEnd.PREPARED: "an XA transaction was prepared in a form that is not known here: report it",
    GroupEnd.CUT: (
        "the file ends inside a transaction: its server crashed, and rolled it back; "
        "take a new snapshot, and begin after it"
    ),
    GroupEnd.ROLLED_BACK: (
        "a transaction was rolled back, but for changes that cannot be: take a new snapshot of its "
        "tables and begin after it"
    ),
}
"""Ends of transactions whose changes may not have been committed."""
_SAVEPOINT = (
    "a transaction was rolled back to a savepoint, and its log has the changes all the same: take "
    "a new snapshot of its tables and begin after it"
)


class CommitReader:
    """Keeps the changes that were committed, and puts them where they become visible.

    Call `arrange` with the blocks of a log as they come from the `Expander`, from a transaction
    boundary on, and `check` with what is captured of each arranged block. What is put at an XA
    COMMIT has its file and its `offset`, and expanded offsets before it: those of everything after
    it in the file move on.

    Prepared transactions that touch no table that is wanted are taken out and not put back.
    """

    def __init__(
        self,
        read_again: Callable[[Position], Iterator[EventBlock]],
        *,
        wanted: Callable[[str, str], bool],
        in_doubt: Iterable[Prepared] = (),
        refuse: errors.Refuse = errors.raise_error,
        refuse_tables: RefuseTables = raise_table_error,
        buffered_bytes_max: int,
    ) -> None:
        """Start at a transaction boundary.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            wanted: Whether changes of a table, named by database and name, are wanted.
            in_doubt: XA transactions that are in doubt at the boundary.
            refuse: Takes the error of an XA COMMIT of an unknown transaction.
            refuse_tables: Takes tables whose changes were purged, or may not be committed.
            buffered_bytes_max: Changes in memory, of all transactions together.
        """
        self._buffer = TransactionBuffer(read_again, bytes_max=buffered_bytes_max)
        self._wants = wanted
        self._refuse = refuse
        self._refuse_tables = refuse_tables
        self._tables = _TransactionTables()
        self._prepared = {
            xa.xid: BufferedTransaction(
                xa.file, xa.offset, xa.gtid, tables=dict.fromkeys(xa.tables)
            )
            for xa in in_doubt
        }
        # The last transaction that is not of the usual form, and the one that is buffered now.
        self._begun: BufferedTransaction | None = None
        self._open: BufferedTransaction | None = None
        self._file = ""
        # By how many bytes the offsets in this file were moved.
        self._gained = 0

    def reset(self) -> None:
        """Continue at a boundary before which it is not known what was prepared."""
        self._prepared.clear()
        self._begun = self._open = None
        self._tables = _TransactionTables()

    @property
    def in_doubt(self) -> tuple[Prepared, ...]:
        """XA transactions in doubt: those of the start, then others, in the order of the log."""
        return tuple(
            Prepared(xid, buffered.gtid, buffered.file, buffered.offset, tuple(buffered.tables))
            for xid, buffered in self._prepared.items()
        )

    def arrange(self, whole: TransactionBlock) -> Iterator[TransactionBlock]:
        """Yield the next block's committed changes where they become visible.

        Raises:
            UnsupportedError: XA COMMIT of a transaction that is not known.
            ForeignPositionError: Changes that must be read again are not where they were.
            BinlogError: As the source that changes are read from.
        """
        return joined(self._arranged(whole))

    def check(self, captured: CapturedBlock) -> None:
        """Refuse captured changes of the next arranged block that may have been rolled back."""
        for event, seen in sorted(captured.transactions.scanned.items()):
            reason = None if seen.end is None else _UNCERTAIN_ENDS.get(seen.end)
            context: dict[str, object] = {"xid": seen.xid}
            if seen.query is not None and seen.statement_type is StatementType.ROLLBACK_TO:
                session = seen.query.session(captured.block.format.flavor)
                reason = _SAVEPOINT
                context = {"statement": mask_literals(seen.query.sql, session)}
            tables = self._tables.before(captured, event) if reason is not None else ()
            if reason is not None and tables:
                error = errors.UnsupportedError(reason, **captured.block.where(event), **context)
                self._refuse_tables(RefusedTables.at(captured.block, event, error, tables))
        self._tables.carry(captured)

    def _arranged(self, whole: TransactionBlock) -> Iterator[TransactionBlock]:
        block, read = whole
        if block.file != self._file:
            self._file, self._gained = block.file, 0
        at = own = 0
        for event, seen in sorted(read.scanned.items()):
            if self._open is not None and (seen.end is not None or read.of_event[event] != own):
                at = yield from self._end(self._open, whole, at, event, own)
            if seen.gtid is not None:
                self._begun = BufferedTransaction.of(block, event, seen.gtid, moved=self._gained)
            if self._open is None and self._begun is not None and _opens_xa(seen):
                # MySQL's XA transaction begins with a statement, MariaDB's with its GTID.
                first = event if seen.gtid is None else event + 1
                yield from self._moved(whole, at, first)
                at, own = first, int(read.of_event[event])
                self._open = self._begun
                self._open.since = int(block.expanded_offset[event]) + self._gained
            elif seen.end is GroupEnd.XA_COMMITTED:
                yield from self._moved(whole, at, event)
                yield from self._commit(seen.xid or "", whole, event)
                at = event
            elif seen.end is GroupEnd.XA_ROLLED_BACK:
                self._prepared.pop(seen.xid or "", None)
        if self._open is not None and read.of_event[-1] != own:
            at = yield from self._end(self._open, whole, at, len(block), own)
        if self._open is not None:
            self._add(self._open, whole, at, len(block))
            return
        yield from self._moved(whole, at, len(block))

    def _end(
        self,
        buffered: BufferedTransaction,
        whole: TransactionBlock,
        first: int,
        event: int,
        own: int,
    ) -> Generator[TransactionBlock, None, int]:
        """Yield the changes of a transaction that ends otherwise than prepared.

        Returns the first event after them.
        """
        self._open, read = None, whole.transactions
        # Where events were refused, it has no end of its own.
        stop = min(event, int(np.searchsorted(read.of_event, own, side="right")))
        self._add(buffered, whole, first, stop)
        seen = read.scanned.get(event)
        if seen is not None and seen.end is GroupEnd.PREPARED:
            # Had an older one of this name survived a crash, it would have ended by now.
            self._prepared.pop(seen.xid or "", None)
            self._prepared[seen.xid or ""] = buffered
            if not self._wanted(buffered):
                buffered.forget()
            return stop
        if buffered.pieces is not None or self._wanted(buffered):
            for piece in self._buffer.pieces(buffered, ""):
                yield piece.within(read, own)
        return stop

    def _add(
        self, buffered: BufferedTransaction, whole: TransactionBlock, first: int, last: int
    ) -> None:
        for part in self._moved(whole, first, last):
            buffered.add_tables(part.block)
            self._buffer.add(buffered, part, self._prepared.values())

    def _commit(self, xid: str, whole: TransactionBlock, event: int) -> Iterator[TransactionBlock]:
        """Yield the changes of a prepared transaction as if they were logged before its commit."""
        block, read = whole
        offset, expanded_offset = int(block.offset[event]), int(block.expanded_offset[event])
        buffered = self._prepared.pop(xid, None)
        if buffered is None:
            self._refuse(_not_known(xid, block.file, offset))
            return
        if not self._wanted(buffered):
            return
        pieces = self._buffer.pieces(buffered, xid)
        try:
            first = next(pieces, None)
        except errors.PositionPurgedError as error:
            tables = tuple(name for name in buffered.tables if self._wants(*name))
            at = expanded_offset + self._gained
            self._refuse_tables(RefusedTables(error, tables, block.file, offset, at, lost=True))
            return
        for piece in chain([] if first is None else [first], pieces):
            changes = piece.block
            # Without their checksums: an expanded block has none.
            size = changes.size - changes.format.checksum_size
            follows = np.cumsum(size)
            placed = replace(
                changes,
                file=block.file,
                offset=np.full(len(changes), offset),
                expanded_offset=follows - size + (expanded_offset + self._gained),
                next_offset=offset,
            )
            self._gained += int(follows[-1])
            yield piece._replace(block=placed).within(read, int(read.of_event[event]))

    def _wanted(self, buffered: BufferedTransaction) -> bool:
        return any(self._wants(*name) for name in buffered.tables)

    def _moved(self, whole: TransactionBlock, first: int, last: int) -> Iterator[TransactionBlock]:
        """Yield the events from `first` up to `last`, if there are any, where they come now."""
        if first == last:
            return
        part = whole if last - first == len(whole.block) else whole.part(first, last)
        if self._gained:
            moved = part.block.expanded_offset + self._gained
            part = part._replace(block=replace(part.block, expanded_offset=moved))
        yield part


class _TransactionTables:
    """The captured tables of the open transaction, over the blocks of a range."""

    def __init__(self) -> None:
        self._open: dict[TableName, None] = {}

    def before(self, captured: CapturedBlock, event: int) -> tuple[TableName, ...]:
        """Return the tables with rows before an event in its transaction."""
        own = int(captured.transactions.of_event[event])
        chosen = (captured.transaction == own) & (captured.events < event)
        return tuple(self._with(captured, chosen, own))

    def carry(self, captured: CapturedBlock) -> None:
        """Keep the tables of the transaction that is open at the end of a block."""
        read = captured.transactions
        own = int(read.of_event[-1])
        open_at_end = self._with(captured, captured.transaction == own, own)
        self._open = open_at_end if read.ends_open else {}

    def _with(
        self, captured: CapturedBlock, chosen: npt.NDArray[np.bool_], own: int
    ) -> dict[TableName, None]:
        """Return the tables of some rows of a transaction, with those of earlier blocks."""
        tables = dict(self._open) if own == 0 else {}
        indexes, first = np.unique(captured.table[chosen], return_index=True)
        for index in indexes[np.argsort(first)].tolist():
            tables[captured.table_maps[index].name] = None
        return tables


def _opens_xa(seen: Scanned) -> bool:
    """Whether it begins an XA transaction, which may end prepared."""
    if seen.gtid is not None:
        return seen.gtid.starts_xa
    return seen.statement_type is StatementType.XA_START and seen.end is None


def _not_known(xid: str, file: str, offset: int) -> errors.UnsupportedError:
    return errors.UnsupportedError(
        "XA COMMIT of a transaction that was prepared before capture began: its changes are before "
        "the start; begin before its XA PREPARE, or take a new snapshot and begin after this",
        xid=xid,
        file=file,
        offset=offset,
    )
