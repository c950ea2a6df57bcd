"""Iceberg: the mark of a snapshot is that of its last ancestor that has one."""

from __future__ import annotations

import json

import pytest

from airflow_provider_binlog.spark.lake.iceberg_mark import APPLIED, Link, find_contents
from airflow_provider_binlog.spark.lake.table_format import TABLE_ID
from airflow_provider_binlog.spark.mark import NOTHING, Contents, Mark

# 10 and 20 are merges; 15, 25 and 35 compactions; 30 was rolled back; 99 was created by a query.
LINKS = {
    10: Link(None, "1"),
    15: Link(10, None),
    20: Link(15, "2.3"),
    25: Link(20, None),
    30: Link(25, "3"),
    35: Link(15, None),
    45: Link(40, None),
    99: Link(None, None),
}


@pytest.mark.parametrize(
    ("current", "mark"),
    [
        (None, NOTHING),
        (10, Mark(1)),
        (15, Mark(1)),
        (25, Mark(2, 3)),
        (30, Mark(3)),
        (35, Mark(1)),
    ],
)
def test_the_last_ancestor_counts_that_has_one(current: int | None, mark: Mark) -> None:
    assert find_contents(current, LINKS.get, {}) == Contents(mark)


@pytest.mark.parametrize(("current", "says"), [(45, "snapshot 40 expired"), (99, "replaced")])
def test_what_cannot_be_determined_is_said(current: int, says: str) -> None:
    merged = {TABLE_ID: "1-1"}
    assert says in str(find_contents(current, LINKS.get, merged))
    assert says in str(find_contents(current, LINKS.get, merged | {APPLIED: "7"}))


def test_a_table_that_was_loaded_by_hand_has_no_mark() -> None:
    assert find_contents(99, LINKS.get, {}) == Contents(NOTHING)


def test_a_mark_that_is_set_by_hand_counts_for_its_snapshot() -> None:
    by_hand = {APPLIED: json.dumps({"applied": "7", "snapshot": 45})}

    assert find_contents(45, LINKS.get, by_hand) == Contents(Mark(7), snapshot=None)
    assert find_contents(30, LINKS.get, by_hand) == Contents(Mark(3))


def test_a_snapshot_says_whose_rows_it_has_and_from_which_staged_one() -> None:
    links = {10: Link(None, "1"), 20: Link(10, "2", "9f86d081884c7d65", "20261122")}

    found = find_contents(20, links.get, {})
    assert found == Contents(Mark(2), "9f86d081884c7d65", "20261122")
    assert find_contents(10, links.get, {}) == Contents(Mark(1))
