"""A table with rows from before the staged log is not merged, unless the author says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.schema import CreateTable, QuarantineTable, RenameTable, TruncateTable
from airflow_provider_binlog.spark.job.report import TableReport
from airflow_provider_binlog.spark.merge.lake_table import LakeTable, check_coverage
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.spark.plan.planner import plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.state import WITHOUT_BEGINNING, LakeState
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest

CREATED = statement(5, CreateTable(ORDERS, NAME))
TRUNCATED = statement(5, TruncateTable(ORDERS))
RENAMED = statement(5, RenameTable(ORDERS, ("shop", "old"), NAME))
BEFORE = manifest(4, table([(10, 14)]))


def checked(
    *manifests: Manifest, known: LakeState | None = None, initial_load: str = "snapshot"
) -> LakeTable:
    """Return a table without a lake table after the check."""
    found = LakeTable(NAME, "lake.orders", TableReport("shop.orders", "lake.orders"), is_read=True)
    tables = {} if known is None else {NAME: TableProgress(first=4, pending=True, state=known)}
    before = Progress(tables=tables)
    now = before.read(manifests)
    check_coverage(found, TableLog(manifests), before, now, initial_load=initial_load)
    return found


@pytest.mark.parametrize(
    ("initial_load", "held", "fails"),
    [("snapshot", True, False), ("changes_only", False, False), ("fail", False, True)],
)
def test_a_table_without_a_beginning(initial_load: str, *, held: bool, fails: bool) -> None:
    found = checked(BEFORE, initial_load=initial_load)

    assert found.held == (WITHOUT_BEGINNING if held else None)
    assert (found.report.error or "").startswith(WITHOUT_BEGINNING.reason) == fails
    assert found.report.retryable is False


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
    assert checked(first).is_merged


QUIET: Any = manifest(5)


def test_it_waits_while_the_log_does_not_mention_it() -> None:
    assert checked(QUIET, known=WITHOUT_BEGINNING).held == WITHOUT_BEGINNING
    assert checked(QUIET, known=WITHOUT_BEGINNING, initial_load="changes_only").is_merged


@pytest.mark.parametrize("initial_load", ["snapshot", "changes_only"])
def test_one_that_lacks_changes_waits_while_the_log_does_not_mention_it(initial_load: str) -> None:
    loading = LakeState("loading", "manifest 4 was captured without the table")

    assert checked(QUIET, known=loading, initial_load=initial_load).held == loading


def test_one_that_is_stale_stays_so_for_its_own_reason() -> None:
    stale = LakeState("stale", "the table was quarantined: why")

    assert checked(BEFORE, known=stale).is_merged  # Planned again, it meets the same stop.


def test_a_renamed_table_of_which_nothing_is_staged_is_loading() -> None:
    quiet = manifest(4, table(), statements=[RENAMED])
    found = checked(quiet)
    assert found.is_merged
    found.take(plan_table(NAME, TableLog([quiet]), first=4, state=None, options=TableOptions()))

    assert found.held is not None
    assert (found.held.name, found.held.position) == ("loading", "binlog.000001:5")
    assert "the table was called shop.old before it was renamed" in found.held.reason
    known = found.progress(TableProgress())
    assert (known.pending, known.state) == (True, found.held)
    # As long as nothing else is logged, and when its first row comes.
    assert checked(QUIET, known=known.state).held == found.held
    assert not checked(manifest(5, table([(10, 14)])), known=known.state).is_merged


def test_a_state_has_the_time_at_which_it_was_first_found() -> None:
    first = checked(BEFORE)
    first.date(None, "2026-11-22T09:00:00+00:00")
    assert first.held is not None
    assert first.report.since == first.held.since == "2026-11-22T09:00:00+00:00"

    again = checked(BEFORE)
    again.date(first.held, "2026-11-22T10:00:00+00:00")
    assert again.report.since == first.held.since

    another = checked(BEFORE)
    another.date(LakeState("stale", "why", since="2026-11-21"), "2026-11-22T10:00:00+00:00")
    assert another.report.since == "2026-11-22T10:00:00+00:00"

    merged = checked(BEFORE, initial_load="changes_only")
    merged.date(first.held, "2026-11-22T10:00:00+00:00")
    assert merged.report.since == ""
