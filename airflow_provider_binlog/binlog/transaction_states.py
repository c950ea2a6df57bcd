"""The transactions of a log as a table: states, and what an event does in each of them.

    BOUNDARY ─GTID─▶ BEGUN ─BEGIN─▶ OPEN ─XID, COMMIT, ROLLBACK─▶ BOUNDARY
                           ─XA START─▶ XA_OPEN ─XA_PREPARE─▶ BOUNDARY
                           ─any other statement─▶ BOUNDARY
             ─MariaDB's─▶ OPEN, XA_OPEN or STANDALONE ─one statement─▶ BOUNDARY

Whatever follows transactions uses this table: the scanner event by event, `blocks/transactions.py`
for whole blocks, and `capture/prepared.py`, which moves the changes of XA transactions.

Source: as transactions.py.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from airflow_provider_binlog.binlog.event_types import GROUP_STARTS, ROWS, EventType
from airflow_provider_binlog.binlog.events.mariadb import PREPARED_XA, STANDALONE
from airflow_provider_binlog.sql.statement_types import StatementType


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
