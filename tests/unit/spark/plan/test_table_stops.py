"""What a lake table cannot follow: a quarantine, rewritten rows, a key that is not one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    DropField,
    DropTable,
    QuarantineTable,
    RewriteRows,
    TruncateTable,
)
from airflow_provider_binlog.spark.target.state import Mark
from tests.unit.spark.plan.table_plans import ID_N, lake, plan, quiet, segment, stop
from tests.unit.spark.plans import NAME, ORDERS, column, manifest, schema, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Action, Schema


QUARANTINED = QuarantineTable(ORDERS, "a column of this type is not decoded (type=DECIMAL)")


def test_a_quarantine_stops_before_its_manifest() -> None:
    quarantined = manifest(5, table(), statements=[statement(15, QUARANTINED, text="")])

    before, found = stop(manifest(4, table([(10, 14)])), quarantined)
    assert before is not None
    assert [each.first_row for each in before.parts] == [10]
    assert before.mark == found.mark == Mark(4)
    assert found.explanation == (
        "the table was quarantined: a column of this type is not decoded (type=DECIMAL): "
        "reload the table"
    )
    assert found.position == str(quarantined.start)


@pytest.mark.parametrize("restart", [TruncateTable(ORDERS), CreateTable(ORDERS, NAME)])
@pytest.mark.parametrize("columns", [ID_N, schema("id", "n", key=())], ids=["keyed", "changelog"])
def test_a_quarantine_concerns_the_whole_manifest(restart: Action, columns: Schema) -> None:
    steps = statement(25, restart), statement(15, QUARANTINED)

    found = plan(manifest(4, table((), columns), statements=steps))

    assert found.segment is None
    assert found.stop is not None
    assert found.stop.mark == Mark(3)


def test_a_truncate_in_a_later_manifest_ends_a_quarantine() -> None:
    quarantined = quiet(ID_N, statement(15, QUARANTINED))
    truncated = manifest(5, table((), ID_N), statements=[statement(25, TruncateTable(ORDERS))])

    found = segment(quarantined, truncated, state=lake(ID_N))

    assert (found.starts_empty, found.mark) == (True, Mark(5))


WHOLE = RewriteRows(ORDERS, "dropped a partition")
VALUES = RewriteRows(ORDERS, "shortened the values of n", 2)


@pytest.mark.parametrize("action", [WHOLE, VALUES])
def test_rewritten_rows_are_a_stop(action: RewriteRows) -> None:
    rewritten = statement(15, action, text="ALTER TABLE orders ... p0")

    before, found = stop(manifest(4, table([(10, 14), (20, 30)]), statements=[rewritten]))
    assert before is not None
    assert [each.first_row for each in before.parts] == [10]
    assert found.explanation == (
        f"rows changed without row events, because the statement {action.reason} "
        "(ALTER TABLE orders ... p0): reload the table"
    )
    before, found = stop(quiet(ID_N, rewritten), state=lake(ID_N))
    assert before is None


@pytest.mark.parametrize("action", [WHOLE, VALUES])
def test_a_rewrite_of_a_table_without_rows_passes(action: RewriteRows) -> None:
    created, rewritten = statement(5, CreateTable(ORDERS, NAME)), statement(15, action)
    found = manifest(4, table([(20, 30)], created=4), statements=[created, rewritten])

    assert segment(found).rows == 2


def test_a_rewrite_may_bring_rows_into_a_table_that_is_not_complete() -> None:
    truncated, rewritten = statement(5, TruncateTable(ORDERS)), statement(15, WHOLE)

    before, found = stop(quiet(ID_N, truncated, rewritten), state=lake(ID_N))

    assert before is not None
    assert before.starts_empty
    assert "dropped a partition" in found.reason


def test_a_rewrite_before_a_truncate_does_not_matter() -> None:
    truncated, rewritten = statement(25, TruncateTable(ORDERS)), statement(15, WHOLE)

    assert segment(quiet(ID_N, rewritten, truncated), state=lake(ID_N)).starts_empty


def test_rewritten_values_of_a_column_that_was_dropped_do_not_matter() -> None:
    rewritten, dropped = statement(15, VALUES), statement(25, DropField(ORDERS, 2, "n"))

    found = segment(quiet(schema("id", id_=2), rewritten, dropped), state=lake(ID_N))

    assert found.evolution.dropped == ("n",)


def test_rewritten_values_of_a_column_that_waits_for_its_type_are_refused() -> None:
    added, rewritten = statement(15, AddField(ORDERS, 3, "m")), RewriteRows(ORDERS, "rewrote", 3)
    wider = schema("id", "n", column(3, "m", None), id_=2)

    _, found = stop(quiet(wider, added, statement(25, rewritten)), state=lake(ID_N))

    assert "the statement rewrote" in found.reason


def test_a_changelog_keeps_values_as_they_were_logged() -> None:
    no_key = schema("id", "n", key=())

    assert segment(
        manifest(4, table([(10, 14)], no_key), statements=[statement(15, VALUES)])
    ).is_changelog


def test_a_dropped_table_that_cannot_be_followed_is_left_as_it_is() -> None:
    steps = statement(15, WHOLE), statement(25, DropTable(ORDERS, NAME))
    found = plan(manifest(4, table([(10, 14)], dropped=True), statements=steps), state=lake(ID_N))

    assert (found.table, found.ended) == (None, True)
    assert found.segment is not None
    assert found.segment.parts == ()


@pytest.mark.parametrize("chosen", [None, ("n",)], ids=["of the table", "chosen"])
def test_a_key_that_another_value_stands_for_is_not_followed(
    chosen: tuple[str, ...] | None,
) -> None:
    def staged(sequence: int, **replaced: int) -> Manifest:
        first = 10 * sequence
        entry = table([(first, first + 9)], schema("id", "n", "m"))
        parts = (replace(entry.parts[0], replaced=replaced),)
        return manifest(sequence, replace(entry, parts=parts), before_images=BeforeImages.ALL)

    key, no_key = ("n", "id") if chosen else ("id", "n")
    other = staged(4, m=3, **{no_key: 2})

    found = plan(other, staged(5, **{key: 3}), key=chosen)

    assert found.segment is not None
    assert found.segment.mark == Mark(4)
    assert found.stop is not None
    assert found.stop.position == "binlog.000001:5000"
    assert f"3 values in the key column {key} are zero dates" in found.stop.explanation
    assert plan(other, key=chosen).stop is None


def test_a_key_that_another_value_stood_for_before_a_truncation_does_not_count() -> None:
    entry = table([(10, 14), (20, 24)])
    first, last = entry.parts
    parts = replace(first, replaced={"id": 1}), last
    truncated = statement(17, TruncateTable(ORDERS))

    found = segment(manifest(4, replace(entry, parts=parts), statements=[truncated]))

    assert found.changes == {"insert": 2}


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("a system-versioned table. Leave the table out", ""),
        ("a value: correct it, or leave the table out", ": reload the table"),
    ],
)
def test_a_quarantine_that_no_reload_ends_is_not_to_be_reloaded(reason: str, advice: str) -> None:
    quarantined = statement(15, QuarantineTable(ORDERS, reason), text="")

    found = stop(manifest(4, table((), ID_N), statements=[quarantined]), state=lake(ID_N))[1]

    assert found.explanation == f"the table was quarantined: {reason}{advice}"


def test_a_table_that_lost_its_key_after_a_stop_says_so() -> None:
    keyless = schema("id", "n", key=(), id_=2)
    stopped = manifest(4, table((), ID_N), statements=[statement(15, QUARANTINED, text="")])

    _, found = stop(stopped, manifest(5, table([(20, 30)], keyless)), state=lake(ID_N))

    assert found.mark == Mark(3)
    assert found.reason.startswith("the table was quarantined")
    assert "later the table's primary key was dropped" in found.explanation
    assert "choose a key with options={...}" in found.explanation
