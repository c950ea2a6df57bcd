"""XA transactions in two phases, put where their changes become visible: at the XA COMMIT.

    MySQL:    GTID | XA START | changes | XA END | XA_PREPARE          GTID | XA COMMIT
    MariaDB:  GTID | changes | XA END | XA_PREPARE                     GTID | XA COMMIT

    becomes   GTID | XA START | XA_PREPARE            GTID | XA START | changes | XA END | XA COMMIT

So what reads the transactions after this stage meets a prepared one without changes, and later an
ordinary one. The changes wait in memory while they are few, and are read once more where they are
many, or were prepared in an earlier range. Whether MySQL's XA START begins a transaction of one
phase or of two is known at its end: until then its changes wait as well.

Source: as binlog/transactions.py; mysql-server, sql/xa/sql_cmd_xa.cc; mariadb, sql/xa.cc.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.mariadb import (
    COMPLETED_XA,
    PREPARED_XA,
    STANDALONE,
)
from airflow_provider_binlog.binlog.transaction_states import (
    STEPS,
    TRANSITIONS,
    GroupEnd,
    State,
    Step,
    step_of_statement,
)
from airflow_provider_binlog.blocks.picking import choose, copy, joined
from airflow_provider_binlog.blocks.type_masks import IS_GROUP_START
from airflow_provider_binlog.capture.held import (
    IS_HELD,
    HeldChanges,
    HeldTransaction,
    ends_of,
    parse_statement,
    parse_xa_prepare,
    rest_of,
)
from airflow_provider_binlog.errors import UnsupportedError, raise_error
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.sql.statement_types import xid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.position import Position

_MARIADB_FLAGS, _MARIADB_END = 31, 32


class PreparedTransactions:
    """Puts the changes of prepared transactions at their XA COMMIT.

        prepared = PreparedTransactions(read_again, wanted=tables.matches, held_bytes_max=...)
        for block in expanded_blocks:
            for arranged in prepared.arrange(block):
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
        held_bytes_max: int,
    ) -> None:
        """Begin at a transaction boundary.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            wanted: Whether changes of a table, named by database and name, are wanted.
            in_doubt: What was prepared before the boundary, and is neither committed nor rolled
                back there.
            refuse: Takes the error of an XA COMMIT of none of them.
            held_bytes_max: Changes that are kept in memory, of all transactions together.
        """
        self._changes = HeldChanges(read_again, bytes_max=held_bytes_max)
        self._wants = wanted
        self._refuse = refuse
        self._waiting = {
            each.xid: HeldTransaction(
                each.file, each.offset, each.gtid, tables=dict.fromkeys(each.tables)
            )
            for each in in_doubt
        }
        # The transaction whose changes come now.
        self._open: HeldTransaction | None = None
        # The one of which only the GTID has come: what follows says what it is.
        self._begun: HeldTransaction | None = None
        self._file = ""
        # By how many bytes the offsets in this file were moved.
        self._gained = 0

    @property
    def in_doubt(self) -> tuple[Prepared, ...]:
        """What is prepared, and neither committed nor rolled back by now, in the order of the log.

        Those that were handed in come first.
        """
        return tuple(
            Prepared(xid, each.gtid, each.file, each.offset, tuple(each.tables))
            for xid, each in self._waiting.items()
        )

    def arrange(self, block: EventBlock) -> Iterator[EventBlock]:
        """Yield the next block's events, with the changes of prepared transactions at their commit.

        Raises:
            UnsupportedError: XA COMMIT of a transaction that is not known.
            PositionPurgedError: The log of changes that must be read again was purged.
            ForeignPositionError: They are not where they were.
            BinlogError: As the source that they are read from.
        """
        yield from joined(self._arranged(block))

    def _arranged(self, block: EventBlock) -> Iterator[EventBlock]:
        if block.file != self._file:
            if self._open is not None:  # its file was cut
                yield from self._release(self._open)
            self._open = self._begun = None
            self._file, self._gained = block.file, 0
        suspects, ends = _suspects(block), ends_of(block)
        at = 0
        while at < len(block):
            if self._open is not None:
                at = yield from self._hold(self._open, block, at, ends)
            elif self._begun is not None:
                at = yield from self._begin(self._begun, block, at)
            else:
                at = yield from self._pass(block, at, suspects)

    def _pass(
        self, block: EventBlock, at: int, suspects: npt.NDArray[np.int64]
    ) -> Generator[EventBlock, None, int]:
        """Let everything through up to the next GTID that may belong to XA, that included."""
        index = int(np.searchsorted(suspects, at))
        if index == len(suspects):
            yield self._moved(block.part(at, len(block)))
            return len(block)
        gtid = int(suspects[index])
        if block.type[gtid] != EventType.MARIADB_GTID:
            self._begun = HeldTransaction.begin(block, gtid)
            yield self._moved(block.part(at, gtid + 1))
            return gtid + 1
        if gtid > at:
            yield self._moved(block.part(at, gtid))
        flags = int(block.data[block.start[gtid] + _MARIADB_FLAGS])
        if flags & COMPLETED_XA:
            self._begun = HeldTransaction.begin(block, gtid)
            yield self._moved(_opened(block.part(gtid, gtid + 1)))
        else:
            self._open = HeldTransaction.begin(block, gtid)
            self._open.pieces = []
            yield self._moved(block.part(gtid, gtid + 1))
        return gtid + 1

    def _begin(
        self, begun: HeldTransaction, block: EventBlock, at: int
    ) -> Generator[EventBlock, None, int]:
        """Follow what comes after a GTID."""
        event = block.part(at, at + 1)
        code = int(block.type[at])
        if code != EventType.QUERY:
            if STEPS.get(code, Step.OTHER) is not Step.OTHER:
                self._begun = None
                return at
            yield self._moved(event)
            return at + 1
        self._begun = None
        sql, statement_type = parse_statement(block, at)
        state, end = TRANSITIONS[begun.state][step_of_statement(statement_type)]
        if state is State.XA_OPEN:
            begun.opened, begun.pieces = True, []
            self._open = begun
            self._keep(begun, event)
        elif end is GroupEnd.XA_COMMITTED:
            yield from self._commit(xid_of(sql), event)
        elif end is GroupEnd.XA_ROLLED_BACK:
            self._waiting.pop(xid_of(sql), None)
        yield self._moved(event)
        return at + 1

    def _hold(
        self, held: HeldTransaction, block: EventBlock, at: int, ends: npt.NDArray[np.int64]
    ) -> Generator[EventBlock, None, int]:
        """Take changes out, up to the end of their transaction or of the block."""
        end, kept, others = rest_of(block, at, ends)
        held.add_tables(block, kept)
        if len(kept):
            self._keep(held, choose(block, kept))
        if len(others):
            yield self._moved(choose(block, others))
        if end == len(block):
            return end
        self._open = None
        if block.type[end] == EventType.XA_PREPARE:
            prepared = parse_xa_prepare(block, end)
            if not prepared.one_phase:
                # Had an older one of this name survived a crash, it would have ended by now.
                self._waiting.pop(prepared.xid, None)
                self._waiting[prepared.xid] = held
                if not self._wanted(held):
                    held.forget()
                yield self._moved(block.part(end, end + 1))
                return end + 1
        # Of one phase, or cut: whoever reads it decides.
        yield from self._release(held)
        return end

    def _release(self, held: HeldTransaction) -> Iterator[EventBlock]:
        """Yield the changes of the last transaction where they were."""
        if not self._wanted(held):
            return
        pieces = self._changes.of(held, "")
        if held.opened:
            first = next(pieces)  # its XA START is out already
            pieces = chain([first.part(1, len(first))] if len(first) > 1 else [], pieces)
        for piece in pieces:
            yield self._moved(piece)

    def _commit(self, xid: str, commit: EventBlock) -> Iterator[EventBlock]:
        """Yield the changes of a prepared transaction as if they were logged before its commit."""
        held = self._waiting.pop(xid, None)
        if held is None:
            self._refuse(_not_known(xid, commit))
            return
        if not self._wanted(held):
            return
        offset, expanded_offset = int(commit.offset[0]), int(commit.expanded_offset[0])
        for piece in self._changes.of(held, xid):
            # Without their checksums: an expanded block has none.
            size = piece.size - piece.format.checksum_size
            follows = np.cumsum(size)
            yield replace(
                piece,
                file=commit.file,
                offset=np.full(len(piece), offset),
                expanded_offset=follows - size + (expanded_offset + self._gained),
                next_offset=offset,
            )
            self._gained += int(follows[-1])

    def _keep(self, held: HeldTransaction, events: EventBlock) -> None:
        self._changes.keep(held, events, self._waiting.values())

    def _wanted(self, held: HeldTransaction) -> bool:
        return any(self._wants(*each) for each in held.tables)

    def _moved(self, block: EventBlock) -> EventBlock:
        if not self._gained:
            return block
        return replace(block, expanded_offset=block.expanded_offset + self._gained)


def _suspects(block: EventBlock) -> npt.NDArray[np.int64]:
    """Return the GTIDs of a block that may belong to XA; of most logs none but the last one.

    MySQL's say nothing of it: those with XA_PREPARE after them, those with a statement that no
    change follows, and the last one, whose end is not known.
    """
    kind = block.type
    begin = np.flatnonzero(IS_GROUP_START[kind])
    if not len(begin):
        return begin
    last = len(kind) - 1
    suspect = ~IS_HELD[kind[np.minimum(begin + 1, last)]]
    suspect &= ~IS_HELD[kind[np.minimum(begin + 2, last)]]
    prepared = np.searchsorted(begin, np.flatnonzero(kind == EventType.XA_PREPARE)) - 1
    suspect[prepared[prepared >= 0]] = True
    suspect[-1] = True
    mariadb = kind[begin] == EventType.MARIADB_GTID
    if mariadb.any():
        whole = block.size[begin] >= _MARIADB_END + block.format.checksum_size
        flags = block.data[block.start[begin] + _MARIADB_FLAGS] & (PREPARED_XA | COMPLETED_XA)
        suspect = np.where(mariadb, whole & (flags != 0), suspect)
    return begin[suspect]


def _opened(gtid: EventBlock) -> EventBlock:
    """Return MariaDB's GTID of an XA COMMIT as that of a transaction, not of one statement."""
    opened = copy(gtid)
    opened.data[_MARIADB_FLAGS] &= ~STANDALONE & 0xFF
    return opened


def _not_known(xid: str, commit: EventBlock) -> UnsupportedError:
    return UnsupportedError(
        "XA COMMIT of a transaction that was prepared before capture began: its changes are before "
        "the start; begin before its XA PREPARE, or take a new snapshot and begin after this",
        xid=xid,
        file=commit.file,
        offset=int(commit.offset[0]),
    )
