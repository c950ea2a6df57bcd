"""Which changes of a log were committed, and where each of them becomes visible.

XA transactions in two phases are put where their changes become visible, at the XA COMMIT:

    MySQL:    GTID | XA START | changes | XA END | XA_PREPARE          GTID | XA COMMIT
    MariaDB:  GTID | changes | XA END | XA_PREPARE                     GTID | XA COMMIT

    becomes   GTID | XA_PREPARE                   GTID | XA START | changes | XA END | XA COMMIT

Whether XA START begins a transaction of one phase or of two is known at its end: until then its
changes are buffered. So are those of a transaction that may roll some back, see `Rollbacks`.

Source: as binlog/transactions.py; mysql-server, sql/xa/sql_cmd_xa.cc; mariadb, sql/xa.cc.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.events.gtid import MariadbGtid
from airflow_provider_binlog.binlog.transactions import GroupEnd, Step, step_of_gtid
from airflow_provider_binlog.blocks.captured import TransactionBlock, joined
from airflow_provider_binlog.capture.quarantine import RefusedTables, raise_table_error
from airflow_provider_binlog.capture.transaction_buffer import (
    BufferedTransaction,
    TransactionBuffer,
    leave_out_rolled_back,
    may_roll_back,
)
from airflow_provider_binlog.errors import PositionPurgedError, UnsupportedError, raise_error
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.sql.lexer import mask_literals
from airflow_provider_binlog.sql.statement_types import StatementType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.capture.quarantine import RefuseTables
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema import TableName

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
_UNKNOWN_SAVEPOINT = (
    "a transaction was rolled back to a savepoint that cannot be identified: take a new "
    "snapshot of its tables and begin after it"
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
        refuse: Refuse = raise_error,
        refuse_tables: RefuseTables = raise_table_error,
        buffered_bytes_max: int,
    ) -> None:
        """Start at a transaction boundary.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            wanted: Whether changes of a table, named by database and name, are wanted.
            in_doubt: What was prepared before the boundary, and is neither committed nor rolled
                back there.
            refuse: Takes the error of an XA COMMIT of none of them.
            refuse_tables: Takes the tables of changes that were purged, or of which it is not
                certain that they were committed.
            buffered_bytes_max: Changes that are kept in memory, of all transactions together.
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
        """XA transactions that are prepared, and neither committed nor rolled back by now.

        They are in the order of the log, after those that were handed in.
        """
        return tuple(
            Prepared(xid, buffered.gtid, buffered.file, buffered.offset, tuple(buffered.tables))
            for xid, buffered in self._prepared.items()
        )

    def arrange(self, whole: TransactionBlock) -> Iterator[TransactionBlock]:
        """Yield the next block's committed changes where they become visible.

        Raises:
            UnsupportedError: XA COMMIT of a transaction that is not known.
            PositionPurgedError: The log of changes that must be read again was purged, and they
                are not to be left out.
            ForeignPositionError: Changes that must be read again are not where they were.
            BinlogError: As the source that changes are read from.
        """
        return joined(self._arranged(leave_out_rolled_back(whole)))

    def check(self, captured: CapturedBlock) -> None:
        """Refuse captured changes of the next arranged block that may have been rolled back.

        Raises:
            UnsupportedError: It is not certain which changes were committed.
        """
        for event, seen in sorted(captured.transactions.scanned.items()):
            reason = None if seen.end is None else _UNCERTAIN_ENDS.get(seen.end)
            context: dict[str, object] = {"xid": seen.xid}
            if seen.query is not None and seen.statement_type is StatementType.ROLLBACK_TO:
                session = seen.query.session(captured.block.format.flavor)
                reason = _UNKNOWN_SAVEPOINT
                context = {"statement": mask_literals(seen.query.sql, session)}
            tables = self._tables.before(captured, event) if reason is not None else ()
            if reason is not None and tables:
                error = UnsupportedError(reason, **captured.block.where(event), **context)
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
            if self._open is None and _is_buffered(whole, event, seen):
                # MySQL's XA transaction begins with a statement, MariaDB's with its GTID.
                first = event if seen.gtid is None else event + 1
                yield from self._moved(whole, at, first)
                at, own = first, int(read.of_event[event])
                self._open_buffer(int(block.expanded_offset[event]), is_xa=_opens_xa(seen))
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

    def _open_buffer(self, expanded_offset: int, *, is_xa: bool) -> None:
        """Buffer what follows an event of the last transaction."""
        self._open = self._begun
        if self._open is not None:
            self._open.since, self._open.is_xa = expanded_offset + self._gained, is_xa

    def _end(
        self,
        buffered: BufferedTransaction,
        whole: TransactionBlock,
        first: int,
        event: int,
        own: int,
    ) -> Generator[TransactionBlock, None, int]:
        """Process the event that ends the open transaction; return the first one after its changes.

        Its changes are yielded where they were, unless it ends prepared.
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
        if seen is not None and seen.end is GroupEnd.ROLLED_BACK and buffered.rollbacks is not None:
            for part in self._moved(whole, event, event + 1):
                buffered.rollbacks.follow(part.block, [(0, seen)])
        # The statements of others matter in any case.
        if buffered.pieces is not None or not buffered.is_xa or self._wanted(buffered):
            for piece in self._buffer.committed(buffered, ""):
                yield piece.within(read, own)
        return stop

    def _add(
        self, buffered: BufferedTransaction, whole: TransactionBlock, first: int, last: int
    ) -> None:
        """Buffer the events from `first` up to `last` with a transaction."""
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
        pieces = self._buffer.committed(buffered, xid)
        try:
            first = next(pieces, None)
        except PositionPurgedError as error:
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
        """Return the tables with rows before an event of a block, in the event's transaction."""
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
            table_map = captured.table_maps[index]
            tables[table_map.database, table_map.table] = None
        return tables


def _is_buffered(whole: TransactionBlock, event: int, seen: Scanned) -> bool:
    """Whether the changes that follow an event wait for the end of its transaction."""
    if _opens_xa(seen):
        return True
    # What a transaction rolls back that lies whole in a block has been left out already.
    read, own = whole.transactions, int(whole.transactions.of_event[event])
    lies_whole = own > 0 and not (read.ends_open and own == read.of_event[-1])
    return may_roll_back(seen) and not lies_whole


def _opens_xa(seen: Scanned) -> bool:
    """Whether it begins an XA transaction, which may end prepared."""
    if isinstance(seen.gtid, MariadbGtid):
        return step_of_gtid(seen.gtid.flags) is Step.XA_GTID
    return seen.statement_type is StatementType.XA_START and seen.end is None


def _not_known(xid: str, file: str, offset: int) -> UnsupportedError:
    return UnsupportedError(
        "XA COMMIT of a transaction that was prepared before capture began: its changes are before "
        "the start; begin before its XA PREPARE, or take a new snapshot and begin after this",
        xid=xid,
        file=file,
        offset=offset,
    )
