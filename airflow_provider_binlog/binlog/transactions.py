"""Where transactions begin and end, event by event, and which events must not be passed over.

    MySQL:    GTID, then BEGIN ... XID | COMMIT | ROLLBACK
                    or  XA START ... XA_PREPARE
                    or  one statement
    MariaDB:  GTID, then ... XID | COMMIT | ROLLBACK | XA_PREPARE, or if standalone, one statement

Source: mysql-server, sql/binlog.cc and sql/log_event.cc; mariadb, sql/log.cc and
sql/log_event.h, Gtid_log_event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

from airflow_provider_binlog.binlog.event_types import (
    COMPRESSED,
    GROUP_STARTS,
    ROWS,
    EventType,
    event_name,
)
from airflow_provider_binlog.binlog.events.control import Incident
from airflow_provider_binlog.binlog.events.gtid import GtidEvent
from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.sql.statement_types import StatementType, classify, xid_of

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.binlog.header import EventHeader
    from airflow_provider_binlog.position import Flavor

_STATEMENT_FORMAT = (
    "a session logged the text of a statement instead of the rows that it changed:"
    " it must not use binlog_format=STATEMENT or MIXED"
)
_TOO_OLD = "an event of servers before MySQL 5.1: read the log through a newer replica"

REFUSED = {
    EventType.START_V3: _TOO_OLD,
    EventType.LOAD: _TOO_OLD,
    EventType.SLAVE: _TOO_OLD,
    EventType.CREATE_FILE: _TOO_OLD,
    EventType.EXEC_LOAD: _TOO_OLD,
    EventType.NEW_LOAD: _TOO_OLD,
    EventType.PRE_GA_WRITE_ROWS: _TOO_OLD,
    EventType.PRE_GA_UPDATE_ROWS: _TOO_OLD,
    EventType.PRE_GA_DELETE_ROWS: _TOO_OLD,
    EventType.INTVAR: _STATEMENT_FORMAT,
    EventType.RAND: _STATEMENT_FORMAT,
    EventType.USER_VAR: _STATEMENT_FORMAT,
    EventType.APPEND_BLOCK: _STATEMENT_FORMAT,
    EventType.DELETE_FILE: _STATEMENT_FORMAT,
    EventType.BEGIN_LOAD_QUERY: _STATEMENT_FORMAT,
    EventType.EXECUTE_LOAD_QUERY: _STATEMENT_FORMAT,
    EventType.INCIDENT: (
        "the server lost events before it could log them: the tables need a new snapshot"
    ),
    EventType.PARTIAL_ROW_DATA: (
        "rows events in fragments are not decoded:"
        " raise binlog_row_event_fragment_threshold above the largest row"
    ),
}
"""Events that carry row changes, or may, and are not decoded: with what to change."""

PRELUDES = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
"""Of the refused ones, those that only prepare the statement behind them, which says more."""

READ = frozenset(EventType) - REFUSED.keys() - COMPRESSED - {EventType.UNKNOWN, EventType.IGNORABLE}
"""Events whose meaning is known, and that are decoded where they matter."""


def refuse(type_code: int, **context: object) -> NoReturn:
    """Raise for an event that must not be passed over; `context` says where it stands.

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
        hint = (
            "an event of a type unknown here, which must not be passed over: upgrade this package"
        )
    raise UnsupportedError(hint, event=name, **context)


def refuse_statement(query: Query, **context: object) -> NoReturn:
    """Raise for a statement that changes rows and says so by its text alone.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError(
        _STATEMENT_FORMAT,
        thread_id=query.thread_id,
        database=query.database,
        statement=query.sql[:200],
        **context,
    )


class GroupEnd(Enum):
    """How a group of events ends."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    """Logged all the same, because some of its changes could not be rolled back: which rows
    stayed depends on their tables' engines."""
    PREPARED = "prepared"
    """Its rows become visible at the XA_COMMITTED group with the same `xid`, if at all."""
    XA_COMMITTED = "xa committed"
    XA_ROLLED_BACK = "xa rolled back"
    STATEMENT = "statement"
    """One statement, DDL as a rule, was the whole group."""
    CUT = "cut"
    """The file ended before the group did: its server crashed, and rolled it back."""


class Place(Enum):
    """Where an event stands."""

    OUTSIDE = "outside"
    BEGIN = "begin"
    INSIDE = "inside"
    END = "end"
    SKIPPED = "skipped"
    """Of a type not known, passed over as its flag allows."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one event is to its group.

    Attributes:
        place: Where it stands. Behind an END is a transaction boundary.
        end: How the group ends, with this event or, if CUT, before it.
        gtid: The group's first event, where this is it.
        query: The statement, of QUERY.
        statement_type: What that statement is.
        xid: Name of the XA transaction, where the group ends prepared, or completes one.
    """

    place: Place
    end: GroupEnd | None = None
    gtid: GtidEvent | MariadbGtid | None = None
    query: Query | None = None
    statement_type: StatementType | None = None
    xid: str | None = None


class _State(Enum):
    OUTSIDE = "outside"
    BEGUN = "begun"  # MySQL: the GTID was read, and what follows decides
    OPEN = "open"
    STANDALONE = "standalone"  # MariaDB: one statement follows


_FILE_BOUNDS = frozenset({EventType.FORMAT_DESCRIPTION, EventType.STOP, EventType.ROTATE})
_ENDS = frozenset({EventType.XID, EventType.XA_PREPARE})
_CHANGES = ROWS | {EventType.TABLE_MAP}
_STATEMENT_ENDS = {
    StatementType.COMMIT: GroupEnd.COMMITTED,
    StatementType.XA_COMMIT: GroupEnd.COMMITTED,
    StatementType.ROLLBACK: GroupEnd.ROLLED_BACK,
    StatementType.XA_ROLLBACK: GroupEnd.ROLLED_BACK,
}
_ALONE_ENDS = {
    StatementType.XA_COMMIT: GroupEnd.XA_COMMITTED,
    StatementType.XA_ROLLBACK: GroupEnd.XA_ROLLED_BACK,
}


class TransactionScanner:
    """Follows the events of a log, file after file, from a transaction boundary on.

    Attributes:
        skipped: How many events were passed over, by type name.
    """

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self._state = _State.OUTSIDE

    @property
    def at_boundary(self) -> bool:
        """Whether the next event begins a transaction, or belongs to none."""
        return self._state is _State.OUTSIDE

    def reset(self) -> None:
        """Begin again at a transaction boundary."""
        self._state = _State.OUTSIDE

    def feed(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        """Return what the next event is.

        Raises:
            UnsupportedError: It carries row changes, or may, and is not decoded.
            FormatError: It cannot stand here: the start was no transaction boundary.
        """
        code = header.type
        if code not in READ:
            return self._not_read(header, body, file_format)
        if code in GROUP_STARTS:
            return self._begin(header, body, file_format)
        if code in _FILE_BOUNDS and not header.artificial:
            return self._file_bound()
        if code == EventType.QUERY:
            return self._statement(header, Query.parse(body, file_format), file_format.flavor)
        if code in _CHANGES or code in _ENDS:
            self._must_be_open(header)
        if code in _ENDS:
            return self._ended(code, body, file_format)
        return Scanned(Place.OUTSIDE if self._state is _State.OUTSIDE else Place.INSIDE)

    def _not_read(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        if header.type in PRELUDES:
            return Scanned(Place.INSIDE)  # the statement behind it is refused, with its text
        if header.type == EventType.INCIDENT:
            lost = Incident.parse(body, file_format)
            refuse(header.type, number=lost.number, said=lost.message, log_pos=header.log_pos)
        if header.type in REFUSED or header.type in COMPRESSED or not header.ignorable:
            refuse(header.type, log_pos=header.log_pos)
        self.skipped[event_name(header.type)] += 1
        return Scanned(Place.SKIPPED)

    def _ended(
        self, code: int, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        if code == EventType.XID:
            return self._end(GroupEnd.COMMITTED)
        prepared = XaPrepare.parse(body, file_format)
        if prepared.one_phase:
            return self._end(GroupEnd.COMMITTED)
        return self._end(GroupEnd.PREPARED, xid=prepared.xid)

    def _begin(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        if self._state is not _State.OUTSIDE:
            raise FormatError("a transaction begins inside another", log_pos=header.log_pos)
        if header.type != EventType.MARIADB_GTID:
            self._state = _State.BEGUN
            return Scanned(Place.BEGIN, gtid=GtidEvent.parse(header.type, body, file_format))
        gtid = MariadbGtid.parse(body, file_format, server_id=header.server_id)
        self._state = _State.STANDALONE if gtid.standalone else _State.OPEN
        return Scanned(Place.BEGIN, gtid=gtid)

    def _file_bound(self) -> Scanned:
        cut = self._state is not _State.OUTSIDE
        self._state = _State.OUTSIDE
        return Scanned(Place.OUTSIDE, GroupEnd.CUT if cut else None)

    def _statement(self, header: EventHeader, query: Query, flavor: Flavor) -> Scanned:
        statement_type = classify(query.sql, query.session(flavor))
        if statement_type in (StatementType.DML, StatementType.UNKNOWN):
            refuse_statement(query, log_pos=header.log_pos)
        if self._state is _State.OUTSIDE:
            raise FormatError(
                "a statement outside a transaction: the start is no transaction boundary",
                log_pos=header.log_pos,
                statement=query.sql[:200],
            )
        if self._state is _State.OPEN:
            end = _STATEMENT_ENDS.get(statement_type)
            if end is None:
                return Scanned(Place.INSIDE, query=query, statement_type=statement_type)
            return self._end(end, query=query, statement_type=statement_type)
        opens = statement_type in (StatementType.BEGIN, StatementType.XA_START)
        if opens and self._state is _State.BEGUN:
            self._state = _State.OPEN
            return Scanned(Place.INSIDE, query=query, statement_type=statement_type)
        end = _ALONE_ENDS.get(statement_type, GroupEnd.STATEMENT)
        xid = xid_of(query.sql) if statement_type in _ALONE_ENDS else None
        return self._end(end, query=query, statement_type=statement_type, xid=xid)

    def _end(
        self,
        end: GroupEnd,
        *,
        query: Query | None = None,
        statement_type: StatementType | None = None,
        xid: str | None = None,
    ) -> Scanned:
        self._state = _State.OUTSIDE
        return Scanned(Place.END, end, query=query, statement_type=statement_type, xid=xid)

    def _must_be_open(self, header: EventHeader) -> None:
        if self._state is not _State.OPEN:
            raise FormatError(
                "a change outside a transaction: the start is no transaction boundary",
                event=event_name(header.type),
                log_pos=header.log_pos,
            )
