"""XA transactions in two phases, put where their changes become visible: at the XA COMMIT.

    MySQL:    GTID | XA START | changes | XA END | XA_PREPARE          GTID | XA COMMIT
    MariaDB:  GTID | changes | XA END | XA_PREPARE                     GTID | XA COMMIT

    becomes   GTID | XA_PREPARE                   GTID | XA START | changes | XA END | XA COMMIT

The changes wait in memory while they are few, and are read once more where they are many, or were
prepared in an earlier range. Whether XA START begins a transaction of one phase or of two is known
at its end: until then its changes wait as well.

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
from airflow_provider_binlog.capture.held import HeldChanges, HeldTransaction
from airflow_provider_binlog.capture.quarantine import RefusedTables, raise_table_error
from airflow_provider_binlog.errors import PositionPurgedError, UnsupportedError, raise_error
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.sql.statement_types import StatementType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.capture.quarantine import RefuseTables
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.position import Position


class PreparedTransactions:
    """Puts the changes of prepared transactions at their XA COMMIT.

        prepared = PreparedTransactions(read_again, wanted=tables.matches, held_bytes_max=...)
        for block in expanded_blocks:
            for arranged in prepared.arrange(TransactionBlock(block, transactions.read(block))):
                ...

    Feed it the blocks of a log as they come from the `Expander`, from a transaction boundary on.
    Blocks come out with their events as they were, but for prepared transactions. What is put at an
    XA COMMIT has its file and its `offset`, and expanded offsets before it: those of everything
    after it in the file move on.

    Transactions that touch no table that is wanted are taken out and not put back: their changes
    cost nothing.
    """

    def __init__(
        self,
        read_again: Callable[[Position], Iterator[EventBlock]],
        *,
        wanted: Callable[[str, str], bool],
        in_doubt: Iterable[Prepared] = (),
        refuse: Refuse = raise_error,
        lose: RefuseTables = raise_table_error,
        held_bytes_max: int,
    ) -> None:
        """Begin at a transaction boundary.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            wanted: Whether changes of a table, named by database and name, are wanted.
            in_doubt: What was prepared before the boundary, and is neither committed nor rolled
                back there.
            refuse: Takes the error of an XA COMMIT of none of them.
            lose: Takes the changes of a transaction whose log was purged; if it returns, they are
                left out.
            held_bytes_max: Changes that are kept in memory, of all transactions together.
        """
        self._changes = HeldChanges(read_again, bytes_max=held_bytes_max)
        self._wants = wanted
        self._refuse = refuse
        self._lose = lose
        self._waiting = {
            each.xid: HeldTransaction(
                each.file, each.offset, each.gtid, tables=dict.fromkeys(each.tables)
            )
            for each in in_doubt
        }
        # The last transaction that is not of the usual form, and the one whose changes come now.
        self._begun: HeldTransaction | None = None
        self._open: HeldTransaction | None = None
        self._file = ""
        # By how many bytes the offsets in this file were moved.
        self._gained = 0

    def reset(self) -> None:
        """Begin again, at a boundary before which it is not known what was prepared."""
        self._waiting.clear()
        self._begun = self._open = None

    @property
    def in_doubt(self) -> tuple[Prepared, ...]:
        """What is prepared, and neither committed nor rolled back by now, in the order of the log.

        Those that were handed in come first.
        """
        return tuple(
            Prepared(xid, each.gtid, each.file, each.offset, tuple(each.tables))
            for xid, each in self._waiting.items()
        )

    def arrange(self, whole: TransactionBlock) -> Iterator[TransactionBlock]:
        """Yield the next block's events, with the changes of prepared transactions at their commit.

        Raises:
            UnsupportedError: XA COMMIT of a transaction that is not known.
            PositionPurgedError: The log of changes that must be read again was purged, and they
                are not to be left out.
            ForeignPositionError: They are not where they were.
            BinlogError: As the source that they are read from.
        """
        return joined(self._arranged(whole))

    def _arranged(self, whole: TransactionBlock) -> Iterator[TransactionBlock]:
        block, read = whole
        if block.file != self._file:
            self._file, self._gained = block.file, 0
        at = own = 0
        for event, seen in sorted(read.scanned.items()):
            if self._open is not None and (seen.end is not None or read.of_event[event] != own):
                at = yield from self._end(self._open, whole, at, event, own)
            if seen.gtid is not None:
                self._begun = HeldTransaction.begin(block, event, seen.gtid, moved=self._gained)
            if _opens_xa(seen):
                # MySQL's begins with a statement, MariaDB's with its GTID.
                first = event if seen.gtid is None else event + 1
                yield from self._moved(whole, at, first)
                at, own, self._open = first, int(read.of_event[event]), self._begun
            elif seen.end is GroupEnd.XA_COMMITTED:
                yield from self._moved(whole, at, event)
                yield from self._commit(seen.xid or "", whole, event)
                at = event
            elif seen.end is GroupEnd.XA_ROLLED_BACK:
                self._waiting.pop(seen.xid or "", None)
        if self._open is not None and read.of_event[-1] != own:
            at = yield from self._end(self._open, whole, at, len(block), own)
        if self._open is not None:
            self._keep(self._open, whole, at, len(block))
            return
        yield from self._moved(whole, at, len(block))

    def _end(
        self, held: HeldTransaction, whole: TransactionBlock, first: int, event: int, own: int
    ) -> Generator[TransactionBlock, None, int]:
        """Follow the event that ends the open transaction; return the first one after its changes.

        Its changes are yielded where they were, unless it ends prepared.
        """
        self._open, read = None, whole.transactions
        # Where events were refused, it has no end of its own.
        stop = min(event, int(np.searchsorted(read.of_event, own, side="right")))
        self._keep(held, whole, first, stop)
        seen = read.scanned.get(event)
        if seen is not None and seen.end is GroupEnd.PREPARED:
            # Had an older one of this name survived a crash, it would have ended by now.
            self._waiting.pop(seen.xid or "", None)
            self._waiting[seen.xid or ""] = held
            if not self._wanted(held):
                held.forget()
        elif self._wanted(held):
            for piece in self._changes.of(held, ""):
                yield piece.within(read, own)
        return stop

    def _keep(self, held: HeldTransaction, whole: TransactionBlock, first: int, last: int) -> None:
        """Keep the events from `first` up to `last` with a transaction."""
        for part in self._moved(whole, first, last):
            held.add_tables(part.block)
            self._changes.keep(held, part, self._waiting.values())

    def _commit(self, xid: str, whole: TransactionBlock, event: int) -> Iterator[TransactionBlock]:
        """Yield the changes of a prepared transaction as if they were logged before its commit."""
        block, read = whole
        offset, expanded_offset = int(block.offset[event]), int(block.expanded_offset[event])
        held = self._waiting.pop(xid, None)
        if held is None:
            self._refuse(_not_known(xid, block.file, offset))
            return
        if not self._wanted(held):
            return
        pieces = self._changes.of(held, xid)
        try:
            first = next(pieces, None)
        except PositionPurgedError as error:
            tables = tuple(each for each in held.tables if self._wants(*each))
            at = expanded_offset + self._gained
            self._lose(RefusedTables(error, tables, block.file, offset, at, lost=True))
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

    def _wanted(self, held: HeldTransaction) -> bool:
        return any(self._wants(*each) for each in held.tables)

    def _moved(self, whole: TransactionBlock, first: int, last: int) -> Iterator[TransactionBlock]:
        """Yield the events from `first` up to `last`, if there are any, where they come now."""
        if first == last:
            return
        part = whole if last - first == len(whole.block) else whole.part(first, last)
        if self._gained:
            moved = part.block.expanded_offset + self._gained
            part = part._replace(block=replace(part.block, expanded_offset=moved))
        yield part


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
