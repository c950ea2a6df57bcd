"""The transaction that each event belongs to, and the events that must not be skipped.

    BOUNDARY ─GTID─▶ BEGUN ─BEGIN, XA START─▶ OPEN ─XID, COMMIT, ROLLBACK, XA_PREPARE─▶ BOUNDARY
                           ─any other statement─▶ BOUNDARY
             ─MariaDB's GTID─▶ OPEN, or BEGUN if one statement follows

Source: mysql-server, sql/binlog.cc and sql/log_event.cc; mariadb, sql/log.cc and
sql/log_event.h, Gtid_log_event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from airflow_provider_binlog.binlog.events.control import FormatDescription, Incident
from airflow_provider_binlog.binlog.events.gtid import Gtid
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.binlog.header import (
    COMPRESSED,
    GROUP_STARTS,
    ROWS,
    THREAD_SPECIFIC,
    EventHeader,
    EventType,
    event_name,
)
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.lexer import mask_literals
from airflow_provider_binlog.sql.statement_types import StatementType, classify, xid_of


class GroupEnd(Enum):
    """End of a group of events."""

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
    """State between two events, which decides what the next one may be."""

    BOUNDARY = "between two transactions"
    BEGUN = "after a GTID: the statement that follows decides"
    OPEN = "in a transaction"


Step: TypeAlias = EventType | StatementType
"""Transition from state to state: a statement, or the type of another event."""

_OPENING = (StatementType.BEGIN, StatementType.XA_START)
_XA_ENDS: dict[Step, GroupEnd] = {
    StatementType.XA_COMMIT: GroupEnd.XA_COMMITTED,
    StatementType.XA_ROLLBACK: GroupEnd.XA_ROLLED_BACK,
}
_ENDS: dict[Step, GroupEnd] = {
    **dict.fromkeys((EventType.XID, StatementType.COMMIT), GroupEnd.COMMITTED),
    StatementType.XA_COMMIT: GroupEnd.COMMITTED,
    **dict.fromkeys((StatementType.ROLLBACK, StatementType.XA_ROLLBACK), GroupEnd.ROLLED_BACK),
    EventType.XA_PREPARE: GroupEnd.PREPARED,
}
"""End of an open transaction, by the step."""

CHANGES = ROWS | {EventType.TABLE_MAP}
_FILE_BOUNDS = frozenset({EventType.FORMAT_DESCRIPTION, EventType.STOP, EventType.ROTATE})

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

_NOT_EXPANDED = "a compressed event that was not expanded before it was read: please report it"
_HINTS = {
    int(code): hint for code, hint in (REFUSED | dict.fromkeys(COMPRESSED, _NOT_EXPANDED)).items()
}
_UNKNOWN_TYPE = "an event of a type unknown here, which must not be skipped: upgrade this package"

PRELUDES = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
"""Of the refused ones, those that only prepare the statement after them, which says more."""

READ = frozenset(EventType) - REFUSED.keys() - COMPRESSED - {EventType.UNKNOWN, EventType.IGNORABLE}
"""Events whose meaning is known, and that are decoded where they matter."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """Effect of one event on its group.

    Attributes:
        end: How the group ends, with this event or, if CUT, before it.
        gtid: The group's first event, where this is it.
        query: The statement, of QUERY.
        statement_type: What that statement is.
        xid: Name of the XA transaction, where the group ends prepared, or completes one.
    """

    end: GroupEnd | None = None
    gtid: Gtid | None = None
    query: Query | None = None
    statement_type: StatementType | None = None
    xid: str | None = None


class TransactionScanner:
    """Follows the events of a log, file after file, from a transaction boundary on.

    Args:
        skips: Whether the rows that a statement changes by its text alone do not matter.

    Attributes:
        skipped: How many events were skipped, by type name.
    """

    def __init__(self, skips: Callable[[Query], bool] = lambda _: False) -> None:
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
            return self._begin(header, Gtid.parse(header, body))
        if code == EventType.QUERY:
            return self._statement(header, Query.parse(body, file_format), file_format.flavor)
        if code == EventType.XA_PREPARE:
            return self._prepare(header, XaPrepare.parse(body))
        if code in CHANGES or code == EventType.XID:
            return Scanned(self._move(EventType(code), header))
        # An artificial one is of the stream, not of a file.
        cut = code in _FILE_BOUNDS and not header.artificial and not self.at_boundary
        if cut:
            self.reset()
        return Scanned(GroupEnd.CUT if cut else None)

    def _prepare(self, header: EventHeader, prepared: XaPrepare) -> Scanned:
        if prepared.one_phase:
            return Scanned(self._move(EventType.XID, header))
        return Scanned(self._move(EventType.XA_PREPARE, header), xid=prepared.xid)

    def _begin(self, header: EventHeader, gtid: Gtid) -> Scanned:
        if not self.at_boundary:
            raise FormatError("a transaction begins inside another", log_pos=header.log_pos)
        opens = header.type == EventType.MARIADB_GTID and not gtid.standalone
        self._state = State.OPEN if opens else State.BEGUN
        return Scanned(gtid=gtid)

    def _move(self, step: Step, header: EventHeader) -> GroupEnd | None:
        """Follow a step; return how the group ends with it.

        Raises:
            FormatError: The step cannot follow.
        """
        is_statement = isinstance(step, StatementType)
        if self._state is State.BEGUN and is_statement:
            self._state = State.OPEN if step in _OPENING else State.BOUNDARY
            return None if step in _OPENING else _XA_ENDS.get(step, GroupEnd.STATEMENT)
        if self._state is State.OPEN and step is not StatementType.XA_START:
            end = _ENDS.get(step)
            self._state = State.OPEN if end is None else State.BOUNDARY
            return end
        what = "a statement" if is_statement else "a change"
        if step is StatementType.XA_START:
            what = "XA START inside a transaction, or a statement"
        raise FormatError(
            f"{what} outside a transaction: the start is no transaction boundary, or the log is"
            " damaged",
            event=event_name(header.type),
            log_pos=header.log_pos,
        )

    def _not_read(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        code = header.type
        if code in PRELUDES:
            return Scanned()  # the statement after it is refused, with its text
        if header.ignorable and code not in _HINTS:
            self.skipped[event_name(code)] += 1
            return Scanned()
        context: dict[str, object] = {"event": event_name(code), "log_pos": header.log_pos}
        if code == EventType.UNKNOWN:
            raise FormatError("not an event", **context)
        if code == EventType.INCIDENT:
            lost = Incident.parse(body, file_format)
            context |= {"number": lost.number, "said": lost.message}
        raise UnsupportedError(_HINTS.get(code, _UNKNOWN_TYPE), **context)

    def _statement(self, header: EventHeader, query: Query, flavor: Flavor) -> Scanned:
        statement_type = classify(query.sql, query.session(flavor))
        changes = statement_type in (StatementType.DML, StatementType.UNKNOWN)
        if changes and not self._skips(query):
            raise UnsupportedError(
                _STATEMENT_FORMAT,
                thread_id=query.thread_id,
                database=query.database,
                statement=mask_literals(query.sql, query.session(flavor)),
                log_pos=header.log_pos,
            )
        try:
            end = self._move(statement_type, header)
        except FormatError as error:
            error.context["statement"] = mask_literals(query.sql, query.session(flavor))
            raise
        completes = end in (GroupEnd.XA_COMMITTED, GroupEnd.XA_ROLLED_BACK)
        xid = xid_of(query.sql) if completes else None
        if statement_type is StatementType.DDL:
            query = replace(
                query,
                seconds=header.timestamp or None,
                used_temporary=bool(header.flags & THREAD_SPECIFIC),
            )
        return Scanned(end, query=query, statement_type=statement_type, xid=xid)
