"""Transactions whose changes wait for their end, or for their XA COMMIT.

The changes wait in memory while they are few, and are read again from the log where they are many,
or were prepared in an earlier range.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.event_types import ROWS, EventType
from airflow_provider_binlog.binlog.events.gtid import GtidEvent
from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.binlog.transaction_states import (
    STEPS,
    TRANSITIONS,
    State,
    step_of_statement,
)
from airflow_provider_binlog.blocks.picking import choose, copy
from airflow_provider_binlog.blocks.type_masks import IS_GROUP_START, type_mask
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    error_context,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sql.statement_types import StatementType, classify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock

_PIECE_BYTES = 4 << 10  # what a piece takes besides its events

IS_HELD = type_mask(ROWS | {EventType.TABLE_MAP, EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS})
_HELD_STATEMENTS = frozenset(
    {
        StatementType.SAVEPOINT,
        StatementType.ROLLBACK_TO,
        StatementType.XA_START,
        StatementType.XA_END,
    }
)
_STAYS_OPEN = {
    step for step, (state, _) in TRANSITIONS[State.XA_OPEN].items() if state is State.XA_OPEN
}
_ENDS = type_mask(code for code, step in STEPS.items() if step not in _STAYS_OPEN)


@dataclass
class HeldTransaction:
    """A transaction that waits for its end, or for its XA COMMIT.

    Attributes:
        file, offset: Where its GTID begins.
        gtid: Its name, where it has one.
        expanded_offset: Of its GTID, as it came in.
        state: After its GTID.
        opened: Whether XA START precedes its changes, as MySQL writes it.
        tables: Those it has TABLE_MAPs of, in the order of the first ones.
        pieces: XA START and what was held; None if it must be read again.
        bytes: What the pieces take.
    """

    file: str
    offset: int
    gtid: str | None
    expanded_offset: int = 0
    state: State = State.BEGUN
    opened: bool = False
    tables: dict[tuple[str, str], None] = field(default_factory=dict)
    pieces: list[EventBlock] | None = None
    bytes: int = 0

    @classmethod
    def begin(cls, block: EventBlock, gtid: int) -> HeldTransaction:
        """Return the transaction that begins with a GTID event."""
        with error_context(**block.where(gtid)):
            header = EventHeader.parse(block.event(gtid))
            body = block.body(gtid)
            if header.type == EventType.MARIADB_GTID:
                parsed = MariadbGtid.parse(body, block.format, server_id=header.server_id)
                name: str | None = parsed.text
                state = State.STANDALONE
            else:
                name = GtidEvent.parse(header.type, body, block.format).text
                state = State.BEGUN
        offset, expanded_offset = int(block.offset[gtid]), int(block.expanded_offset[gtid])
        return cls(block.file, offset, name, expanded_offset, state)

    def add_tables(self, block: EventBlock, events: npt.NDArray[np.int64]) -> None:
        """Add the tables of the TABLE_MAPs among some events of a block."""
        for event in events[block.type[events] == EventType.TABLE_MAP].tolist():
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
        self, held: HeldTransaction, events: EventBlock, others: Iterable[HeldTransaction]
    ) -> None:
        """Keep events of a transaction, unless it and the others hold too many."""
        if held.pieces is None:
            return
        piece = copy(events)
        held.pieces.append(piece)
        held.bytes += len(piece.data) + _PIECE_BYTES
        waiting = [each for each in others if each.pieces is not None]
        total = held.bytes + sum(each.bytes for each in waiting)
        while total > self._bytes_max:
            largest = max((*waiting, held), key=lambda each: each.bytes)
            total -= largest.bytes
            largest.forget()

    def of(self, held: HeldTransaction, xid: str) -> Iterator[EventBlock]:
        """Yield XA START and the changes of a transaction, from memory or from the log.

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

    def _from_log(self, held: HeldTransaction, xid: str) -> Iterator[EventBlock]:
        start = Position(held.file, held.offset)
        shift: int | None = None
        for block in self._read_again(start):
            at = 0
            if shift is None:
                if not IS_GROUP_START[block.type[0]]:
                    raise _not_there(held, xid)
                at, shift = 1, held.expanded_offset - int(block.expanded_offset[0])
            rest = rest_of(block, at, ends_of(block))
            if len(rest.held):
                piece = choose(block, rest.held)
                yield replace(piece, expanded_offset=piece.expanded_offset + shift)
            if rest.end == len(block):
                continue
            ends_prepared = block.type[rest.end] == EventType.XA_PREPARE
            if xid and not (ends_prepared and parse_xa_prepare(block, rest.end).xid == xid):
                raise _not_there(held, xid)
            return
        raise ConnectionLostError(
            "the log ended inside a transaction that was read again", at=start, xid=xid
        )


class Rest(NamedTuple):
    """The rest of a transaction in a block.

    Attributes:
        end: Which event ends it; the block's size if none does.
        held: Those before it that wait with the changes.
        others: Those before it that do not.
    """

    end: int
    held: npt.NDArray[np.int64]
    others: npt.NDArray[np.int64]


def ends_of(block: EventBlock) -> npt.NDArray[np.int64]:
    """Return the events of a block that end any transaction by their type."""
    return np.flatnonzero(_ENDS[block.type])


def rest_of(block: EventBlock, at: int, ends: npt.NDArray[np.int64]) -> Rest:
    """Return the rest of an XA transaction from event `at` on; `ends` is `ends_of` the block."""
    index = int(np.searchsorted(ends, at))
    end = int(ends[index]) if index < len(ends) else len(block)
    held = IS_HELD[block.type[at:end]]
    for index in np.flatnonzero(block.type[at:end] == EventType.QUERY).tolist():
        _, statement_type = parse_statement(block, at + index)
        if step_of_statement(statement_type) not in _STAYS_OPEN:
            end = at + index
            held = held[:index]
            break
        held[index] = statement_type in _HELD_STATEMENTS
    return Rest(end, at + np.flatnonzero(held), at + np.flatnonzero(~held))


def parse_statement(block: EventBlock, event: int) -> tuple[str, StatementType]:
    """Return the text of a QUERY event, and what statement it is."""
    with error_context(**block.where(event)):
        query = Query.parse(block.body(event), block.format)
    return query.sql, classify(query.sql, query.session(block.format.flavor))


def parse_xa_prepare(block: EventBlock, event: int) -> XaPrepare:
    """Return an XA_PREPARE event."""
    with error_context(**block.where(event)):
        return XaPrepare.parse(block.body(event), block.format)


def _not_there(held: HeldTransaction, xid: str) -> ForeignPositionError:
    return ForeignPositionError(
        "a prepared transaction is not where it was: the log was reset, or is another server's",
        xid=xid,
        file=held.file,
        offset=held.offset,
    )
