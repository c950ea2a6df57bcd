"""XA transactions in two phases, put where their changes become visible: at the XA COMMIT.

    MySQL:    GTID | XA START | changes | XA END | XA_PREPARE          GTID | XA COMMIT
    MariaDB:  GTID | changes | XA END | XA_PREPARE                     GTID | XA COMMIT

    becomes   GTID | XA START | XA_PREPARE            GTID | XA START | changes | XA END | XA COMMIT

So what reads the transactions behind this stage meets a prepared one without changes, and later an
ordinary one. The changes wait in memory while they are few, and are read once more where they are
many, or were prepared in an earlier range. Whether MySQL's XA START begins a transaction of one
phase or of two is known at its end: until then its changes wait as well.

Source: as binlog/transactions.py; mysql-server, sql/xa/sql_cmd_xa.cc; mariadb, sql/xa.cc.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.event_types import GROUP_STARTS, ROWS, EventType
from airflow_provider_binlog.binlog.events.gtid import GtidEvent
from airflow_provider_binlog.binlog.events.mariadb import (
    COMPLETED_XA,
    PREPARED_XA,
    STANDALONE,
    MariadbGtid,
)
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.blocks.picking import choose, copy, joined
from airflow_provider_binlog.errors import (
    BinlogError,
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    UnsupportedError,
    raise_error,
)
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sql.statement_types import StatementType, classify, xid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.errors import Refuse

_PIECE_BYTES = 4 << 10  # what a piece takes besides its events
_MARIADB_FLAGS, _MARIADB_END = 31, 32

_HELD = ROWS | {EventType.TABLE_MAP, EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS}
_IS_HELD = np.zeros(256, dtype=bool)
_IS_HELD[[int(each) for each in _HELD]] = True
_IS_START = np.zeros(256, dtype=bool)
_IS_START[[int(each) for each in GROUP_STARTS]] = True
# What ends a transaction, or the file; a QUERY may, too.
_IS_END = _IS_START.copy()
_IS_END[
    [
        int(each)
        for each in (
            EventType.XA_PREPARE,
            EventType.XID,
            EventType.FORMAT_DESCRIPTION,
            EventType.STOP,
            EventType.ROTATE,
        )
    ]
] = True
_HELD_STATEMENTS = frozenset(
    {
        StatementType.SAVEPOINT,
        StatementType.ROLLBACK_TO,
        StatementType.XA_START,
        StatementType.XA_END,
    }
)
_ENDING_STATEMENTS = frozenset(
    {
        StatementType.COMMIT,
        StatementType.ROLLBACK,
        StatementType.XA_COMMIT,
        StatementType.XA_ROLLBACK,
    }
)


@dataclass
class _Transaction:
    """A transaction that waits for its end, or for its XA COMMIT.

    Attributes:
        file, offset: Where its GTID begins.
        gtid: Its name, where it has one.
        place: Of its GTID, as it came in.
        opened: Whether XA START stands in front of its changes, as MySQL writes it.
        tables: Those it has TABLE_MAPs of, in the order of the first ones.
        pieces: XA START and what was held; None if it must be read again.
        bytes: What the pieces take.
    """

    file: str
    offset: int
    gtid: str | None
    place: int = 0
    opened: bool = False
    tables: dict[tuple[str, str], None] = field(default_factory=dict)
    pieces: list[EventBlock] | None = None
    bytes: int = 0


class PreparedTransactions:
    """Puts the changes of prepared transactions at their XA COMMIT.

        prepared = PreparedTransactions(read_again, wanted=tables.matches, held_bytes_max=...)
        for block in expanded_blocks:
            for arranged in prepared.arrange(block):
                ...

    Feed it the blocks of a log as they come from the `Expander`, from a transaction boundary on.
    Blocks come out with their events as they were, but for prepared transactions. What is put at an
    XA COMMIT has its file and its `position`, and places in front of it: those of everything
    behind it in the file move on.

    Transactions that touch no table that is wanted are taken out and not put back: their changes
    cost nothing.
    """

    def __init__(
        self,
        read_again: Callable[[Position], Iterator[EventBlock]],
        *,
        wanted: Callable[[str, str], bool],
        undecided: Iterable[Prepared] = (),
        refuse: Refuse = raise_error,
        held_bytes_max: int,
    ) -> None:
        """Begin at a transaction boundary.

        Args:
            read_again: Yields the log's events, expanded, from a transaction's beginning on.
            wanted: Tells by database and table whose changes are wanted.
            undecided: What was prepared before the boundary, and is neither committed nor rolled
                back there.
            refuse: Takes the error of an XA COMMIT of none of them.
            held_bytes_max: Changes that are kept in memory, of all transactions together.
        """
        self._read_again = read_again
        self._wants = wanted
        self._refuse = refuse
        self._held_bytes_max = held_bytes_max
        self._waiting = {
            each.xid: _Transaction(
                each.file, each.offset, each.gtid, tables=dict.fromkeys(each.tables)
            )
            for each in undecided
        }
        # The transaction whose changes come now.
        self._open: _Transaction | None = None
        # The one of which only the GTID has come: what follows says what it is.
        self._begun: _Transaction | None = None
        self._file = ""
        # By how many bytes the places of this file have moved on.
        self._gained = 0

    @property
    def undecided(self) -> tuple[Prepared, ...]:
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
        suspects, ends = _suspects(block), _ends(block)
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
            self._begun = _transaction(block, gtid)
            yield self._moved(block.part(at, gtid + 1))
            return gtid + 1
        if gtid > at:
            yield self._moved(block.part(at, gtid))
        flags = int(block.data[block.start[gtid] + _MARIADB_FLAGS])
        if flags & COMPLETED_XA:
            self._begun = _transaction(block, gtid)
            yield self._moved(_opened(block.part(gtid, gtid + 1)))
        else:
            self._open = _transaction(block, gtid)
            self._open.pieces = []
            yield self._moved(block.part(gtid, gtid + 1))
        return gtid + 1

    def _begin(
        self, begun: _Transaction, block: EventBlock, at: int
    ) -> Generator[EventBlock, None, int]:
        """Look at what follows a GTID."""
        event = block.part(at, at + 1)
        code = int(block.type[at])
        if code != EventType.QUERY:
            if _IS_HELD[code] or _IS_END[code]:
                self._begun = None
                return at
            yield self._moved(event)  # one that is passed over
            return at + 1
        self._begun = None
        query = _query(block, at)
        kind = classify(query.sql, query.session(block.format.flavor))
        if kind is StatementType.XA_START:
            begun.opened, begun.pieces = True, []
            self._open = begun
            self._keep(begun, event)
        elif kind is StatementType.XA_COMMIT:
            yield from self._commit(xid_of(query.sql), event)
        elif kind is StatementType.XA_ROLLBACK:
            self._waiting.pop(xid_of(query.sql), None)
        yield self._moved(event)
        return at + 1

    def _hold(
        self, held: _Transaction, block: EventBlock, at: int, ends: npt.NDArray[np.int64]
    ) -> Generator[EventBlock, None, int]:
        """Take changes out, up to the end of their transaction or of the block."""
        end, kept, passed = _inside(block, at, ends)
        for index in np.flatnonzero(block.type[kept] == EventType.TABLE_MAP).tolist():
            held.tables[_named(block, int(kept[index]))] = None
        if len(kept):
            self._keep(held, choose(block, kept))
        if len(passed):
            yield self._moved(choose(block, passed))
        if end == len(block):
            return end
        self._open = None
        if block.type[end] == EventType.XA_PREPARE:
            prepared = _xa_prepare(block, end)
            if not prepared.one_phase:
                # An older one of this name would have been decided, had it outlived a crash.
                self._waiting.pop(prepared.xid, None)
                self._waiting[prepared.xid] = held
                if not self._wanted(held):
                    held.pieces, held.bytes = None, 0
                yield self._moved(block.part(end, end + 1))
                return end + 1
        # Of one phase, or cut: whoever reads it decides.
        yield from self._release(held)
        return end

    def _release(self, held: _Transaction) -> Iterator[EventBlock]:
        """Yield the changes of the last transaction where they were."""
        if not self._wanted(held):
            return
        pieces = self._pieces(held, "")
        if held.opened:
            first = next(pieces)  # its XA START is out already
            pieces = chain([first.part(1, len(first))] if len(first) > 1 else [], pieces)
        for piece in pieces:
            yield self._moved(piece)

    def _commit(self, xid: str, commit: EventBlock) -> Iterator[EventBlock]:
        """Yield the changes of a prepared transaction as if they stood in front of its commit."""
        held = self._waiting.pop(xid, None)
        if held is None:
            self._refuse(_not_known(xid, commit))
            return
        if not self._wanted(held):
            return
        offset, expanded_offset = int(commit.offset[0]), int(commit.expanded_offset[0])
        for piece in self._pieces(held, xid):
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

    def _pieces(self, held: _Transaction, xid: str) -> Iterator[EventBlock]:
        """Yield XA START and the changes of a transaction, from memory or from the log."""
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

    def _from_log(self, held: _Transaction, xid: str) -> Iterator[EventBlock]:
        """Yield XA START and the changes of a transaction from the log.

        With `xid`, it must end prepared under this name.
        """
        start = Position(held.file, held.offset)
        shift: int | None = None
        for block in self._read_again(start):
            at = 0
            if shift is None:
                if not _IS_START[block.type[0]]:
                    raise _not_there(held, xid)
                at, shift = 1, held.place - int(block.expanded_offset[0])
            end, kept, _ = _inside(block, at, _ends(block))
            if len(kept):
                piece = choose(block, kept)
                yield replace(piece, expanded_offset=piece.expanded_offset + shift)
            if end == len(block):
                continue
            ends_prepared = block.type[end] == EventType.XA_PREPARE
            if xid and not (ends_prepared and _xa_prepare(block, end).xid == xid):
                raise _not_there(held, xid)
            return
        raise ConnectionLostError(
            "the log ended inside a transaction that was read again", at=start, xid=xid
        )

    def _keep(self, held: _Transaction, events: EventBlock) -> None:
        """Keep events of a transaction, unless they are too many."""
        if held.pieces is None:
            return
        piece = copy(events)
        held.pieces.append(piece)
        held.bytes += len(piece.data) + _PIECE_BYTES
        waiting = [each for each in self._waiting.values() if each.pieces is not None]
        total = held.bytes + sum(each.bytes for each in waiting)
        while total > self._held_bytes_max:
            largest = max((*waiting, held), key=lambda each: each.bytes)
            total -= largest.bytes
            largest.pieces, largest.bytes = None, 0

    def _wanted(self, held: _Transaction) -> bool:
        return any(self._wants(*each) for each in held.tables)

    def _moved(self, block: EventBlock) -> EventBlock:
        if not self._gained:
            return block
        return replace(block, expanded_offset=block.expanded_offset + self._gained)


def _suspects(block: EventBlock) -> npt.NDArray[np.int64]:
    """Return the GTIDs of a block that may belong to XA; of most logs none but the last one.

    MySQL's say nothing of it: those with XA_PREPARE behind them, those with a statement that no
    change follows, and the last one, whose end is not known.
    """
    kind = block.type
    begin = np.flatnonzero(_IS_START[kind])
    if not len(begin):
        return begin
    last = len(kind) - 1
    suspect = ~_IS_HELD[kind[np.minimum(begin + 1, last)]]
    suspect &= ~_IS_HELD[kind[np.minimum(begin + 2, last)]]
    prepared = np.searchsorted(begin, np.flatnonzero(kind == EventType.XA_PREPARE)) - 1
    suspect[prepared[prepared >= 0]] = True
    suspect[-1] = True
    mariadb = kind[begin] == EventType.MARIADB_GTID
    if mariadb.any():
        whole = block.size[begin] >= _MARIADB_END + block.format.checksum_size
        flags = block.data[block.start[begin] + _MARIADB_FLAGS] & (PREPARED_XA | COMPLETED_XA)
        suspect = np.where(mariadb, whole & (flags != 0), suspect)
    return begin[suspect]


def _ends(block: EventBlock) -> npt.NDArray[np.int64]:
    """Return the events that end a transaction, whatever they say."""
    return np.flatnonzero(_IS_END[block.type])


def _inside(
    block: EventBlock, at: int, ends: npt.NDArray[np.int64]
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Look at the rest of a transaction from event `at` on.

    Returns:
        Which event ends it, the block's size if none does; which of those before are held; and
        which are not: what is passed over or refused, where it stands.
    """
    index = int(np.searchsorted(ends, at))
    end = int(ends[index]) if index < len(ends) else len(block)
    held = _IS_HELD[block.type[at:end]]
    for index in np.flatnonzero(block.type[at:end] == EventType.QUERY).tolist():
        query = _query(block, at + index)
        kind = classify(query.sql, query.session(block.format.flavor))
        if kind in _ENDING_STATEMENTS:
            end = at + index
            held = held[:index]
            break
        held[index] = kind in _HELD_STATEMENTS
    return end, at + np.flatnonzero(held), at + np.flatnonzero(~held)


def _transaction(block: EventBlock, gtid: int) -> _Transaction:
    """Return the transaction that begins with a GTID."""
    with _placed(block, gtid):
        header = EventHeader.parse(block.event(gtid))
        body = block.body(gtid)
        if header.type == EventType.MARIADB_GTID:
            name: str | None = MariadbGtid.parse(
                body, block.format, server_id=header.server_id
            ).text
        else:
            name = GtidEvent.parse(header.type, body, block.format).text
    return _Transaction(block.file, int(block.offset[gtid]), name, int(block.expanded_offset[gtid]))


def _query(block: EventBlock, event: int) -> Query:
    with _placed(block, event):
        return Query.parse(block.body(event), block.format)


def _xa_prepare(block: EventBlock, event: int) -> XaPrepare:
    with _placed(block, event):
        return XaPrepare.parse(block.body(event), block.format)


def _named(block: EventBlock, table_map: int) -> tuple[str, str]:
    """Return database and table of a TABLE_MAP."""
    with _placed(block, table_map):
        _, rest = block.format.split(EventType.TABLE_MAP, block.body(table_map))
        database = decode_identifier(rest.terminated(rest.lenenc()))
        return database, decode_identifier(rest.terminated(rest.lenenc()))


@contextmanager
def _placed(block: EventBlock, event: int) -> Iterator[None]:
    """Tell an error where its event stands."""
    try:
        yield
    except BinlogError as error:
        error.context |= {"file": block.file, "offset": int(block.offset[event])}
        raise


def _opened(gtid: EventBlock) -> EventBlock:
    """Return MariaDB's GTID of an XA COMMIT as that of a transaction, not of one statement."""
    opened = copy(gtid)
    opened.data[_MARIADB_FLAGS] &= ~STANDALONE & 0xFF
    return opened


def _not_known(xid: str, commit: EventBlock) -> UnsupportedError:
    return UnsupportedError(
        "XA COMMIT of a transaction that was prepared before capture began: its changes are behind "
        "the start; begin before its XA PREPARE, or take a new snapshot and begin behind this",
        xid=xid,
        file=commit.file,
        offset=int(commit.offset[0]),
    )


def _not_there(held: _Transaction, xid: str) -> ForeignPositionError:
    return ForeignPositionError(
        "a prepared transaction is not where it was: the log was reset, or is another server's",
        xid=xid,
        file=held.file,
        offset=held.offset,
    )
