"""Iceberg: the mark of a snapshot is that of its last ancestor that has one."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.target.iceberg.catalog import (
    APPLIED,
    BASE,
    CONTAINS_TABLE,
    LOADED,
    WRITER,
    Snapshot,
    commit_properties,
    find_contents,
)
from airflow_provider_binlog.spark.target.modes import MODE
from airflow_provider_binlog.spark.target.state import NOTHING, TABLE_ID, Contents, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping


def snapshot(parent: int | None, applied: str | None = None, **said: str) -> Snapshot:
    """Return a snapshot, of a merge if it has a mark."""
    summary = said if applied is None else {WRITER: "shop", APPLIED: applied} | said
    return Snapshot(0, parent, summary)


def find(
    current: int | None, snapshots: Mapping[int, Snapshot], properties: Mapping[str, str]
) -> Contents | str:
    return find_contents(current, snapshots.get, properties, source="shop")


# 10 and 20 are merges; 15, 25 and 35 compactions; 30 was rolled back; 99 was created by a query.
LINKS = {
    10: snapshot(None, "1"),
    15: snapshot(10),
    20: snapshot(15, "2.3"),
    25: snapshot(20),
    30: snapshot(25, "3"),
    35: snapshot(15),
    45: snapshot(40),
    99: snapshot(None),
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
    assert find(current, LINKS, {}) == Contents(mark)


@pytest.mark.parametrize(("current", "says"), [(45, "snapshot 40 expired"), (99, "replaced")])
def test_what_cannot_be_determined_is_said(current: int, says: str) -> None:
    merged = {TABLE_ID: "1-1"}
    assert says in str(find(current, LINKS, merged))


def test_a_table_that_was_loaded_by_hand_has_no_mark() -> None:
    assert find(99, LINKS, {}) == Contents(NOTHING)


def test_a_snapshot_says_whose_rows_it_has_and_from_which_staged_one() -> None:
    links = {
        10: snapshot(None, "1"),
        20: snapshot(10, "2", **{CONTAINS_TABLE: "9f86d081884c7d65", LOADED: "20261122"}),
    }

    found = find(20, links, {})
    assert found == Contents(Mark(2), "9f86d081884c7d65", "20261122")
    assert find(10, links, {}) == Contents(Mark(1))


def test_the_rows_of_another_source_are_not_taken_for_those_of_this_one() -> None:
    links = {10: snapshot(None, "1"), 20: snapshot(10, "7", **{WRITER: "shop_2"}), 30: snapshot(20)}

    assert find(30, links, {}) == "its rows are those of source 'shop_2': reload it"


@pytest.mark.parametrize(
    ("mode", "is_known"), [("current", True), ("history", False), ("multiset", False)]
)
def test_what_two_merges_at_once_left_is_known_where_changes_may_repeat(
    mode: str, is_known: bool
) -> None:
    links = {
        10: snapshot(None, "1"),
        20: snapshot(10, "3", **{BASE: "10"}),
        25: snapshot(20),
        30: snapshot(25, "2", **{BASE: "10"}),
        40: snapshot(30, "3", **{BASE: "30"}),
    }
    properties = {MODE: json.dumps({"kind": mode, "deletes": "hard", "names": {}})}

    assert find(20, links, properties) == Contents(Mark(3))
    assert (find(30, links, properties) == Contents(Mark(2))) is is_known
    expired = {at: links[at] for at in links if at != 20}
    assert isinstance(find(30, expired, properties), Contents) is is_known
    # Whoever merges it after that has reloaded it.
    assert find(40, links, properties) == Contents(Mark(3))


def test_only_the_commits_of_the_body_have_the_properties() -> None:
    """A session serves many tables: the mark of one would be that of another's rows."""
    settings = {"spark.sql.shuffle.partitions": "1"}
    session: Any = SimpleNamespace(
        conf=SimpleNamespace(set=settings.__setitem__, unset=settings.__delitem__)
    )

    with suppress(ValueError), commit_properties(session, {"binlog.applied": "7"}):
        assert settings["spark.sql.iceberg.snapshot-property.binlog.applied"] == "7"
        raise ValueError

    assert settings == {"spark.sql.shuffle.partitions": "1"}
