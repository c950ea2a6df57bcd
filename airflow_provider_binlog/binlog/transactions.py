"""Where transactions begin and end, event by event, and which events must not be skipped.

    MySQL:    GTID, then BEGIN ... XID | COMMIT | ROLLBACK
                    or  XA START ... XA_PREPARE
                    or  one statement
    MariaDB:  GTID, then ... XID | COMMIT | ROLLBACK | XA_PREPARE, or if standalone, one statement

`transaction_states.py` is this as a table. Here it is applied event by event;
`blocks/transactions.py` is the same for whole blocks.

Source: mysql-server, sql/binlog.cc and sql/log_event.cc; mariadb, sql/log.cc and
sql/log_event.h, Gtid_log_event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from airflow_provider_binlog.binlog.event_types import (
    COMPRESSED,
    GROUP_STARTS,
    EventType,
    event_name,
)
from airflow_provider_binlog.binlog.events.control import Incident
from airflow_provider_binlog.binlog.events.gtid import GtidEvent
from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.binlog.transaction_states import (
    STEPS,
    TRANSITIONS,
    GroupEnd,
    State,
    Step,
    step_of_gtid,
    step_of_statement,
    why_impossible,
)
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.sql.lexer import mask_literals
from airflow_provider_binlog.sql.statement_types import StatementType, classify, xid_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.binlog.header import EventHeader
    from airflow_provider_binlog.position import Flavor

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
        """Begin at a transaction boundary.

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
        """Begin again at a transaction boundary."""
        self._state = State.BOUNDARY

    def feed(
        self, header: EventHeader, body: bytes | memoryview, file_format: FormatDescription
    ) -> Scanned:
        """Return what the next event is.

        Raises:
            UnsupportedError: It carries row changes, or may, and is not decoded.
            FormatError: It cannot be here: the start was no transaction boundary.
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
            FormatError: It cannot follow.
        """
        found = TRANSITIONS[self._state].get(step)
        if found is None:
            if step in (Step.CHANGE, Step.XID, Step.PREPARE):
                context = {"event": event_name(header.type)}
            raise FormatError(why_impossible(step), log_pos=header.log_pos, **context)
        self._state, end = found
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
            query = replace(query, seconds=header.timestamp or None)
        return Scanned(end, query=query, statement_type=statement_type, xid=xid)
