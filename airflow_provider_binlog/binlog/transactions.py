"""Where transactions begin and end, and which events must not be skipped.

    BOUNDARY ─GTID─▶ BEGUN ─BEGIN─▶ OPEN ─XID, COMMIT, ROLLBACK─▶ BOUNDARY
                           ─XA START─▶ XA_OPEN ─XA_PREPARE─▶ BOUNDARY
                           ─any other statement─▶ BOUNDARY
             ─MariaDB's─▶ OPEN, XA_OPEN or STANDALONE ─one statement─▶ BOUNDARY

`TRANSITIONS` is this as a table. `TransactionScanner` applies it event by event,
`blocks/transactions.py` to whole blocks.

Source: mysql-server, sql/binlog.cc and sql/log_event.cc; mariadb, sql/log.cc and
sql/log_event.h, Gtid_log_event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from airflow_provider_binlog.binlog.events.control import Incident
from airflow_provider_binlog.binlog.events.gtid import (
    PREPARED_XA,
    STANDALONE,
    GtidEvent,
    MariadbGtid,
)
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.binlog.header import (
    COMPRESSED,
    GROUP_STARTS,
    ROWS,
    THREAD_SPECIFIC,
    EventType,
    event_name,
)
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.sql.lexer import mask_literals
from airflow_provider_binlog.sql.statement_types import StatementType, classify, xid_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.control import FormatDescription
    from airflow_provider_binlog.binlog.header import EventHeader
    from airflow_provider_binlog.position import Flavor


class GroupEnd(Enum):
    """How a group of events ends."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    """Logged all the same, because some of its changes could not be rolled back: which rows were
    committed depends on their tables' engines."""
    PREPARED = "prepared"
    """Its rows become visible at the XA_COMMITTED group with the same `xid`, if at all."""
    XA_COMMITTED = "xa committed"
    XA_ROLLED_BACK = "xa rolled back"
    STATEMENT = "statement"
    """One statement, DDL as a rule, was the whole group."""
    CUT = "cut"
    """The file ended before the group did: its server crashed, and rolled it back."""


class State(Enum):
    """What the events so far say about the next one."""

    BOUNDARY = "boundary"
    """Between two transactions."""
    BEGUN = "begun"
    """After a GTID of MySQL: what follows decides."""
    OPEN = "open"
    XA_OPEN = "xa open"
    """In an XA transaction, which may end prepared."""
    STANDALONE = "standalone"
    """After a GTID of MariaDB that one statement follows."""


class Step(Enum):
    """What an event does to its transaction."""

    GTID = "gtid"
    OPENING_GTID = "opening gtid"
    """MariaDB's: it is the BEGIN as well."""
    XA_GTID = "xa gtid"
    """MariaDB's: it is the XA START as well."""
    STANDALONE_GTID = "standalone gtid"
    BEGIN = "begin"
    XA_START = "xa start"
    CHANGE = "change"
    """TABLE_MAP, or a rows event."""
    XID = "xid"
    """Or XA_PREPARE in one phase."""
    PREPARE = "prepare"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    XA_COMMIT = "xa commit"
    XA_ROLLBACK = "xa rollback"
    STATEMENT = "statement"
    """Any other that changes no rows: DDL, SAVEPOINT, XA END, GRANT."""
    FILE_BOUND = "file bound"
    """The file ends or begins."""
    OTHER = "other"


Transition: TypeAlias = tuple[State, GroupEnd | None]
_STATEMENT: Transition = (State.BOUNDARY, GroupEnd.STATEMENT)
_COMMITTED: Transition = (State.BOUNDARY, GroupEnd.COMMITTED)
_ROLLED_BACK: Transition = (State.BOUNDARY, GroupEnd.ROLLED_BACK)
_CUT: Transition = (State.BOUNDARY, GroupEnd.CUT)


def _inside(state: State) -> dict[Step, Transition]:
    """Return the transitions of a transaction that is open."""
    return {
        Step.BEGIN: (state, None),
        Step.CHANGE: (state, None),
        Step.STATEMENT: (state, None),
        Step.OTHER: (state, None),
        Step.XID: _COMMITTED,
        Step.COMMIT: _COMMITTED,
        Step.XA_COMMIT: _COMMITTED,
        Step.ROLLBACK: _ROLLED_BACK,
        Step.XA_ROLLBACK: _ROLLED_BACK,
        Step.PREPARE: (State.BOUNDARY, GroupEnd.PREPARED),
        Step.FILE_BOUND: _CUT,
    }


TRANSITIONS: dict[State, dict[Step, Transition]] = {
    State.BOUNDARY: {
        Step.GTID: (State.BEGUN, None),
        Step.OPENING_GTID: (State.OPEN, None),
        Step.XA_GTID: (State.XA_OPEN, None),
        Step.STANDALONE_GTID: (State.STANDALONE, None),
        Step.FILE_BOUND: (State.BOUNDARY, None),
        Step.OTHER: (State.BOUNDARY, None),
    },
    State.BEGUN: {
        Step.BEGIN: (State.OPEN, None),
        Step.XA_START: (State.XA_OPEN, None),
        Step.XA_COMMIT: (State.BOUNDARY, GroupEnd.XA_COMMITTED),
        Step.XA_ROLLBACK: (State.BOUNDARY, GroupEnd.XA_ROLLED_BACK),
        Step.COMMIT: _STATEMENT,
        Step.ROLLBACK: _STATEMENT,
        Step.STATEMENT: _STATEMENT,
        Step.FILE_BOUND: _CUT,
        Step.OTHER: (State.BEGUN, None),
    },
    State.OPEN: _inside(State.OPEN),
    State.XA_OPEN: _inside(State.XA_OPEN),
    State.STANDALONE: {
        Step.BEGIN: _STATEMENT,
        Step.XA_START: _STATEMENT,
        Step.XA_COMMIT: (State.BOUNDARY, GroupEnd.XA_COMMITTED),
        Step.XA_ROLLBACK: (State.BOUNDARY, GroupEnd.XA_ROLLED_BACK),
        Step.COMMIT: _STATEMENT,
        Step.ROLLBACK: _STATEMENT,
        Step.STATEMENT: _STATEMENT,
        Step.FILE_BOUND: _CUT,
        Step.OTHER: (State.STANDALONE, None),
    },
}
"""By state and step: the next state, and how the group ends, if it does. A step that a state does
not have cannot follow: the start was no transaction boundary, or the log is damaged."""

STEPS: dict[int, Step] = {
    **dict.fromkeys(
        (EventType.FORMAT_DESCRIPTION, EventType.STOP, EventType.ROTATE), Step.FILE_BOUND
    ),
    **dict.fromkeys((*ROWS, EventType.TABLE_MAP), Step.CHANGE),
    **dict.fromkeys(GROUP_STARTS, Step.GTID),
    EventType.XID: Step.XID,
    EventType.XA_PREPARE: Step.PREPARE,
}
"""What an event of each type does; the bodies of QUERY, MARIADB_GTID and XA_PREPARE say more."""

_STATEMENT_STEPS = {
    StatementType.BEGIN: Step.BEGIN,
    StatementType.XA_START: Step.XA_START,
    StatementType.COMMIT: Step.COMMIT,
    StatementType.ROLLBACK: Step.ROLLBACK,
    StatementType.XA_COMMIT: Step.XA_COMMIT,
    StatementType.XA_ROLLBACK: Step.XA_ROLLBACK,
}


def step_of_statement(statement_type: StatementType) -> Step:
    """Return what a statement does that changes no rows."""
    return _STATEMENT_STEPS.get(statement_type, Step.STATEMENT)


def step_of_gtid(flags: int) -> Step:
    """Return what a GTID of MariaDB with these flags does."""
    if flags & STANDALONE:
        return Step.STANDALONE_GTID
    return Step.XA_GTID if flags & PREPARED_XA else Step.OPENING_GTID


_GTIDS = frozenset({Step.GTID, Step.OPENING_GTID, Step.XA_GTID, Step.STANDALONE_GTID})
_EVENTS = frozenset({Step.CHANGE, Step.XID, Step.PREPARE})


def why_impossible(step: Step) -> str:
    """Return what is wrong where a step cannot follow."""
    if step in _GTIDS:
        return "a transaction begins inside another"
    if step is Step.XA_START:
        return (
            "a statement outside a transaction, or XA START inside one: the start is no "
            "transaction boundary, or the log is damaged"
        )
    what = "a change" if step in _EVENTS else "a statement"
    return f"{what} outside a transaction: the start is no transaction boundary"


_STATEMENT_FORMAT = (
    "a session logged the text of a statement instead of the rows that it changed:"
    " it must not use binlog_format=STATEMENT or MIXED"
)
_TOO_OLD = "an event of servers before MySQL 5.1: read the log through a newer replica"

_E = EventType
REFUSED: dict[EventType, str] = {
    **dict.fromkeys((_E.START_V3, _E.LOAD, _E.SLAVE, _E.CREATE_FILE, _E.EXEC_LOAD), _TOO_OLD),
    **dict.fromkeys((_E.NEW_LOAD, _E.PRE_GA_WRITE_ROWS, _E.PRE_GA_UPDATE_ROWS), _TOO_OLD),
    _E.PRE_GA_DELETE_ROWS: _TOO_OLD,
    **dict.fromkeys((_E.INTVAR, _E.RAND, _E.USER_VAR, _E.APPEND_BLOCK), _STATEMENT_FORMAT),
    **dict.fromkeys((_E.DELETE_FILE, _E.BEGIN_LOAD_QUERY), _STATEMENT_FORMAT),
    _E.EXECUTE_LOAD_QUERY: _STATEMENT_FORMAT,
    _E.INCIDENT: (
        "the server lost events before it could log them: the tables need a new snapshot"
    ),
    _E.PARTIAL_ROW_DATA: (
        "rows events in fragments are not decoded:"
        " raise binlog_row_event_fragment_threshold above the largest row"
    ),
}
"""Events that carry row changes, or may, and are not decoded: with what to change."""

PRELUDES = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
"""Of the refused ones, those that only prepare the statement after them, which says more."""

READ = frozenset(EventType) - REFUSED.keys() - COMPRESSED - {EventType.UNKNOWN, EventType.IGNORABLE}
"""Events whose meaning is known, and that are decoded where they matter."""


def refuse(type_code: int, **context: object) -> NoReturn:
    """Raise for an event that must not be skipped; `context` says where it is.

    Raises:
        UnsupportedError: A legal event that is not decoded, or one of a newer server.
        FormatError: No server writes such an event.
    """
    name = event_name(type_code)
    if type_code == EventType.UNKNOWN:
        raise FormatError("not an event", event=name, **context)
    if type_code in COMPRESSED:
        raise UnsupportedError(
            "a compressed event that was not expanded before it was read: please report it",
            event=name,
            **context,
        )
    try:
        hint = REFUSED[EventType(type_code)]
    except (KeyError, ValueError):
        hint = "an event of a type unknown here, which must not be skipped: upgrade this package"
    raise UnsupportedError(hint, event=name, **context)


def refuse_statement(query: Query, flavor: Flavor, **context: object) -> NoReturn:
    """Raise for a statement that changes rows and says so by its text alone.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError(
        _STATEMENT_FORMAT,
        thread_id=query.thread_id,
        database=query.database,
        statement=mask_literals(query.sql, query.session(flavor)),
        **context,
    )


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one event is to its group.

    Attributes:
        end: How the group ends, with this event or, if CUT, before it.
        gtid: The group's first event, where this is it.
        query: The statement, of QUERY.
        statement_type: What that statement is.
        xid: Name of the XA transaction, where the group ends prepared, or completes one.
    """

    end: GroupEnd | None = None
    gtid: GtidEvent | MariadbGtid | None = None
    query: Query | None = None
    statement_type: StatementType | None = None
    xid: str | None = None


class TransactionScanner:
    """Follows the events of a log, file after file, from a transaction boundary on.

    Attributes:
        skipped: How many events were skipped, by type name.
    """

    def __init__(self, skips: Callable[[Query], bool] = lambda _: False) -> None:
        """Create a scanner at a transaction boundary.

        Args:
            skips: Whether the rows that a statement changes by its text alone do not matter.
        """
        self.skipped: Counter[str] = Counter()
        self._skips = skips
        self._state = State.BOUNDARY

    @property
    def at_boundary(self) -> bool:
        """Whether the next event begins a transaction, or belongs to none."""
        return self._state is State.BOUNDARY

    def reset(self) -> None:
        """Continue at a transaction boundary."""
        self._state = State.BOUNDARY

    def feed(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        """Return what the next event is.

        Raises:
            UnsupportedError: The event carries row changes, or may, and is not decoded.
            FormatError: The event cannot follow: the start was no transaction boundary.
        """
        code = header.type
        if code not in READ:
            return self._not_read(header, body, file_format)
        if code in GROUP_STARTS:
            return self._begin(header, body, file_format)
        if code == EventType.QUERY:
            return self._statement(header, Query.parse(body, file_format), file_format.flavor)
        if code == EventType.XA_PREPARE:
            return self._prepare(header, XaPrepare.parse(body, file_format))
        step = STEPS.get(code, Step.OTHER)
        if step is Step.FILE_BOUND:
            # An artificial one is of the stream, not of a file.
            return Scanned(None if header.artificial else self._move(step, header))
        return Scanned(self._move(step, header))

    def _prepare(self, header: EventHeader, prepared: XaPrepare) -> Scanned:
        if prepared.one_phase:
            return Scanned(self._move(Step.XID, header))
        return Scanned(self._move(Step.PREPARE, header), xid=prepared.xid)

    def _move(self, step: Step, header: EventHeader, **context: object) -> GroupEnd | None:
        """Follow a step; return how the group ends with it.

        Raises:
            FormatError: The step cannot follow.
        """
        transition = TRANSITIONS[self._state].get(step)
        if transition is None:
            if step in (Step.CHANGE, Step.XID, Step.PREPARE):
                context = {"event": event_name(header.type)}
            raise FormatError(why_impossible(step), log_pos=header.log_pos, **context)
        self._state, end = transition
        return end

    def _not_read(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        if header.type in PRELUDES:
            return Scanned()  # the statement after it is refused, with its text
        if header.type == EventType.INCIDENT:
            lost = Incident.parse(body, file_format)
            refuse(header.type, number=lost.number, said=lost.message, log_pos=header.log_pos)
        if header.type in REFUSED or header.type in COMPRESSED or not header.ignorable:
            refuse(header.type, log_pos=header.log_pos)
        self.skipped[event_name(header.type)] += 1
        return Scanned()

    def _begin(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        gtid: GtidEvent | MariadbGtid
        if header.type == EventType.MARIADB_GTID:
            gtid = MariadbGtid.parse(body, file_format, server_id=header.server_id)
            self._move(step_of_gtid(gtid.flags), header)
        else:
            gtid = GtidEvent.parse(header.type, body, file_format)
            self._move(Step.GTID, header)
        return Scanned(gtid=gtid)

    def _statement(self, header: EventHeader, query: Query, flavor: Flavor) -> Scanned:
        statement_type = classify(query.sql, query.session(flavor))
        changes = statement_type in (StatementType.DML, StatementType.UNKNOWN)
        if changes and not self._skips(query):
            refuse_statement(query, flavor, log_pos=header.log_pos)
        step, shown = step_of_statement(statement_type), ""
        if step not in TRANSITIONS[self._state]:
            shown = mask_literals(query.sql, query.session(flavor))
        end = self._move(step, header, statement=shown)
        completes = end in (GroupEnd.XA_COMMITTED, GroupEnd.XA_ROLLED_BACK)
        xid = xid_of(query.sql) if completes else None
        if statement_type is StatementType.DDL:
            query = replace(
                query,
                seconds=header.timestamp or None,
                used_temporary=bool(header.flags & THREAD_SPECIFIC),
            )
        return Scanned(end, query=query, statement_type=statement_type, xid=xid)
