"""A table with rows from before the staged log is not merged, unless the author says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import End
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import CreateTable, QuarantineTable, RenameTable, TruncateTable
from airflow_provider_binlog.spark.merge.lake_table import LakeTable, StagedLog, cover
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.spark.plan.planner import plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.state import (
    WITHOUT_BEGINNING,
    Hold,
    Mark,
    hold_property,
)
from airflow_provider_binlog.staging.paths import manifest_path
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.memory_files import Files
from tests.unit.spark.plan.table_plans import ID_N, lake
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.target.state import TargetState

CREATED = statement(5, CreateTable(ORDERS, NAME))
TRUNCATED = statement(5, TruncateTable(ORDERS))
RENAMED = statement(5, RenameTable(ORDERS, ("shop", "old"), NAME))
BEFORE = manifest(4, table([(10, 14)]))


def checked(
    *manifests: Manifest, known: Hold | None = None, initial_load: str = "snapshot"
) -> Hold | None:
    """Return why a table without a lake table is not merged."""
    tables = {} if known is None else {NAME: TableProgress(first=4, pending=True, hold=known)}
    table = a_table()
    cover(table, staged(*manifests, tables=tables), initial_load=initial_load)
    return table.hold


def staged(*manifests: Manifest, tables: dict[TableName, TableProgress]) -> StagedLog:
    return StagedLog(Files(), TableLog(manifests), Progress(tables=tables), set())


def a_table(hold: Hold | None = None) -> LakeTable:
    return LakeTable("shop.orders", "lake.orders", hold=hold, name=NAME, is_read=True)


def test_a_table_without_a_beginning() -> None:
    assert checked(BEFORE) == WITHOUT_BEGINNING
    assert checked(BEFORE, initial_load="changes_only") is None
    with pytest.raises(MergeError, match="rows from before the staged log"):
        checked(BEFORE, initial_load="fail")


@pytest.mark.parametrize(
    "first",
    [
        manifest(4, table([(10, 14)], created=4), statements=[CREATED]),
        manifest(4, table([(10, 14)], created=2)),
        manifest(4, table([(10, 14)]), statements=[TRUNCATED]),
        manifest(4, table([(10, 14)]), statements=[RENAMED]),
        manifest(
            4,
            table([(10, 14)]),
            statements=[CREATED, statement(15, QuarantineTable(ORDERS, "why"))],
        ),
    ],
    ids=["created", "created before", "truncated", "renamed", "quarantined"],
)
def test_one_whose_rows_are_staged_or_followed_otherwise_is_merged(first: Manifest) -> None:
    assert checked(first) is None


QUIET: Any = manifest(5)


def test_it_waits_while_the_log_does_not_mention_it() -> None:
    assert checked(QUIET, known=WITHOUT_BEGINNING) == WITHOUT_BEGINNING
    assert checked(QUIET, known=WITHOUT_BEGINNING, initial_load="changes_only") is None


@pytest.mark.parametrize("initial_load", ["snapshot", "changes_only"])
def test_one_that_lacks_changes_waits_while_the_log_does_not_mention_it(initial_load: str) -> None:
    loading = Hold("loading", "manifest 4 was captured without the table")

    assert checked(QUIET, known=loading, initial_load=initial_load) == loading


def test_one_that_is_stale_stays_so_for_its_own_reason() -> None:
    stale = Hold("stale", "the table was quarantined: why")

    assert checked(BEFORE, known=stale) is None  # Planned again, it meets the same stop.


def test_a_renamed_table_of_which_nothing_is_staged_is_stale() -> None:
    quiet = manifest(4, table(), statements=[RENAMED])
    assert checked(quiet) is None
    renamed = a_table()
    renamed.take(plan_table(NAME, TableLog([quiet]), first=4, state=None, options=TableOptions()))

    hold = renamed.hold
    assert hold is not None
    assert (hold.state, hold.position) == ("stale", "binlog.000001:5")
    assert "the table was called shop.old before it was renamed" in hold.reason
    progress = renamed.progress(TableProgress())
    assert (progress.pending, progress.hold) == (True, hold)
    assert checked(QUIET, known=hold) == hold


@pytest.mark.parametrize(
    ("before", "since"),
    [
        (None, "2026-11-22"),
        (replace(WITHOUT_BEGINNING, since="2026-11-20"), "2026-11-20"),
        (Hold("stale", "why", since="2026-11-20"), "2026-11-22"),
    ],
    ids=["none", "the same", "another"],
)
def test_a_hold_has_the_time_at_which_it_was_first_found(before: Hold | None, since: str) -> None:
    table, merged = a_table(WITHOUT_BEGINNING), a_table()

    table.set_hold_since(before, "2026-11-22")
    merged.set_hold_since(before, "2026-11-22")

    assert table.hold is not None
    assert table.hold.since == table.to_json()["since"] == since
    assert merged.hold is None


@pytest.mark.parametrize("quarantined", [False, True])
def test_a_truncate_restarts_a_stale_table_unless_its_manifest_is_quarantined(
    *, quarantined: bool
) -> None:
    stale, state = Hold("stale", "the table was quarantined: why"), lake(ID_N)
    state = replace(state, properties={**state.properties, **hold_property(stale, None)})
    statements = [TRUNCATED, statement(15, QuarantineTable(ORDERS, "why"))]
    first = manifest(4, table(), statements=statements[: 1 + quarantined])
    tables = {NAME: TableProgress(first=4, pending=True, hold=stale)}
    held = a_table()
    held.state = state

    cover(held, staged(first, tables=tables), initial_load="fail")

    assert held.hold == (stale if quarantined else None)


def restored(state: TargetState, *manifests: Manifest, present: set[int]) -> LakeTable:
    """Return a lake table with mark 3 that had mark 8, covered with what is staged from 10 on."""
    table = a_table()
    table.state = state
    end = End(9, IDENTITY, Position(LOG, 10_000))
    now = Progress(end=end, tables={NAME: TableProgress(Mark(8))})
    then = replace(now, end=end._replace(sequence=6), tables={NAME: TableProgress(Mark(3))})
    early = replace(then, end=end._replace(sequence=4))
    files = Files()
    for number in present:
        files.write(manifest_path(number), b"")
    log = StagedLog(files, TableLog(manifests), now, present, lambda: [now, then, early])
    cover(table, log, initial_load="fail")
    return table


def test_a_restored_table_needs_what_is_staged_since_a_merge_last_saw_its_mark() -> None:
    table = restored(lake(ID_N), present={7, 8, 9})

    assert (table.hold, table.first_needed) == (None, 7)


def test_a_table_whose_manifests_were_removed_is_loading_until_they_are_back() -> None:
    hold = restored(lake(ID_N), present={8, 9}).hold
    assert hold is not None
    assert (hold.state, "reload it (manifest=7)" in hold.reason) == ("loading", True)
    state = lake(ID_N)
    state = replace(state, properties=state.properties | hold_property(hold, Mark(3)))
    assert state.hold == hold

    assert restored(state, present={8, 9}).hold == hold
    assert restored(state, present={7, 8, 9}).hold is None


def test_a_table_whose_manifests_were_removed_restarts_with_a_truncate() -> None:
    first = manifest(10, table(), statements=[TRUNCATED])

    restarted = restored(lake(ID_N), first, present={9, 10})

    assert (restarted.hold, restarted.first_needed) == (None, 10)
