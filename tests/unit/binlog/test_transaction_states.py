"""The table of transactions: what can follow what, and how a group ends."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.event_types import GROUP_STARTS, EventType
from airflow_provider_binlog.binlog.transaction_states import (
    STEPS,
    TRANSITIONS,
    GroupEnd,
    State,
    Step,
    step_of_statement,
    why_impossible,
)
from airflow_provider_binlog.sql.statement_types import StatementType

GTIDS = {Step.GTID, Step.OPENING_GTID, Step.XA_GTID, Step.STANDALONE_GTID}


def follow(*steps: Step) -> tuple[State, GroupEnd | None]:
    state, end = State.BOUNDARY, None
    for step in steps:
        state, end = TRANSITIONS[state][step]
    return state, end


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ((Step.GTID, Step.BEGIN, Step.CHANGE, Step.OTHER, Step.CHANGE, Step.XID), "committed"),
        ((Step.OPENING_GTID, Step.CHANGE, Step.XID), "committed"),
        ((Step.GTID, Step.BEGIN, Step.CHANGE, Step.ROLLBACK), "rolled back"),
        ((Step.GTID, Step.STATEMENT), "statement"),
        ((Step.STANDALONE_GTID, Step.STATEMENT), "statement"),
        ((Step.GTID, Step.XA_START, Step.CHANGE, Step.STATEMENT, Step.PREPARE), "prepared"),
        ((Step.XA_GTID, Step.CHANGE, Step.STATEMENT, Step.PREPARE), "prepared"),
        ((Step.GTID, Step.XA_COMMIT), "xa committed"),
        ((Step.STANDALONE_GTID, Step.XA_ROLLBACK), "xa rolled back"),
        ((Step.GTID, Step.BEGIN, Step.CHANGE, Step.FILE_BOUND), "cut"),
    ],
)
def test_a_group_ends_at_a_boundary(steps: tuple[Step, ...], end: str) -> None:
    assert follow(*steps) == (State.BOUNDARY, GroupEnd(end))


def test_a_group_ends_exactly_where_a_boundary_is_reached_from_inside() -> None:
    for state, steps in TRANSITIONS.items():
        for following, end in steps.values():
            inside = state is not State.BOUNDARY
            assert (end is not None) == (inside and following is State.BOUNDARY)


def test_a_transaction_begins_with_a_gtid_and_only_at_a_boundary() -> None:
    assert TRANSITIONS[State.BOUNDARY].keys() >= GTIDS
    for state in set(State) - {State.BOUNDARY}:
        assert not GTIDS & TRANSITIONS[state].keys()


def test_changes_are_only_in_an_open_transaction() -> None:
    assert {state for state in State if Step.CHANGE in TRANSITIONS[state]} == {
        State.OPEN,
        State.XA_OPEN,
    }


def test_a_file_may_end_in_every_state() -> None:
    assert all(Step.FILE_BOUND in steps for steps in TRANSITIONS.values())


def test_every_statement_can_follow_everywhere_but_at_a_boundary() -> None:
    for statement_type in StatementType:
        step = step_of_statement(statement_type)
        nowhere = {State.BOUNDARY}
        if step is Step.XA_START:
            # The server refuses it inside a transaction (XAER_OUTSIDE, XAER_RMFAIL).
            nowhere |= {State.OPEN, State.XA_OPEN}
        assert {state for state in State if step not in TRANSITIONS[state]} == nowhere
        assert "a statement outside" in why_impossible(step)


def test_every_start_of_a_group_is_a_gtid() -> None:
    assert {STEPS[code] for code in GROUP_STARTS} == {Step.GTID}
    assert STEPS[EventType.XID] is Step.XID
