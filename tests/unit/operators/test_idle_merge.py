"""An idle merge: a task finds nothing to do, and starts no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.operators.merge import find_idle_report, merge_arguments
from airflow_provider_binlog.snapshot_manifest import snapshot_path, table_digest
from airflow_provider_binlog.spark.job.options import parse_arguments
from airflow_provider_binlog.spark.merge.progress import (
    Progress,
    TableProgress,
    load_progress,
    note_start,
    progress_folder,
    read_start,
    save_progress,
)
from airflow_provider_binlog.spark.target.state import Hold, Mark
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.table_options import TableRules
from tests.support.stores import open_store
from tests.unit.spark.history import Source, Table
from tests.unit.spark.staged_changes import INT

FOLDER = progress_folder("delta", "file:///lake", TableRules())


@pytest.fixture
def files(tmp_path: Path) -> StoredFiles:
    return StoredFiles(open_store(f"file://{tmp_path}"), "shop")


@pytest.fixture
def orders(files: StoredFiles, tmp_path: Path) -> Table:
    """One merged manifest of one table."""
    source = Source(open_store(f"file://{tmp_path}"), "shop")
    orders = source.create("shop", "orders", {"id": INT}, ("id",))
    orders.insert(id=1)
    manifest = source.commit()
    tables = {orders.name: TableProgress(Mark(1), version=7)}
    _save(files, replace(Progress().read([manifest]), tables=tables))
    return orders


def _save(files: StoredFiles, progress: Progress) -> None:
    loaded = load_progress(files, FOLDER)
    save_progress(files, FOLDER, progress, loaded=loaded, merged=progress.tables.keys())


def _find(files: StoredFiles, *more: str, through: int | None = None) -> dict[str, Any] | None:
    return find_idle_report(files, [*_arguments(through), *more])


def _arguments(through: int | None = None) -> list[str]:
    return merge_arguments(
        source="shop",
        staging_path="file:///staging",
        through=through,
        format="delta",
        lake="file:///lake",
    )


def test_what_is_merged_is_not_merged_again(files: StoredFiles, orders: Table) -> None:
    report = _find(files)

    assert report is not None
    assert (report["status"], report["through"], report["tables"]) == ("merged", 1, [])
    assert report["stop"] == orders.source.log.load(1).stop.to_json()
    assert report["versions"] == {"shop.orders": 7}
    assert _find(files, through=1) is not None


def test_a_new_manifest_is_merged(files: StoredFiles, orders: Table) -> None:
    orders.insert(id=2)
    orders.source.commit()

    assert _find(files) is None
    assert _find(files, through=1) is not None


def test_a_source_that_was_captured_again_under_its_name_is_refused(
    files: StoredFiles, orders: Table
) -> None:
    """Else the first manifests would be taken for those that the lake has got."""
    second = orders.source.make_manifest()
    _save(files, Progress().read([orders.source.log.load(1), second]))

    with pytest.raises(ManifestError, match="another source name"):
        _find(files)


def test_without_progress_the_job_is_submitted(files: StoredFiles, orders: Table) -> None:
    assert _find(files, "--lake", "file:///other") is None
    assert _find(files, "--options", '{"*": {"target": "{table}"}}') is None


def test_after_a_killed_merge_none_is_idle(files: StoredFiles, orders: Table) -> None:
    note_start(files, FOLDER, [orders.name])

    assert _find(files) is None


def test_a_table_that_waits_is_merged_by_who_is_for_it(files: StoredFiles, orders: Table) -> None:
    manifest = orders.source.log.load(1)
    tables = {orders.name: TableProgress(first=1, pending=True)}
    _save(files, replace(Progress().read([manifest]), tables=tables))

    assert _find(files) is None
    assert _find(files, "--exclude", "shop.*") is not None


def test_globs_that_match_nothing_staged_are_reported(files: StoredFiles, orders: Table) -> None:
    report = _find(files, "--tables", "shop.*", "shop.Orders", "--exclude", "*.audit")

    assert report is not None
    assert report["unmatched"] == ["shop.Orders", "*.audit"]


def test_a_stale_table_is_reported(files: StoredFiles, orders: Table) -> None:
    manifest = orders.source.log.load(1)
    state = Hold("stale", "its key changed", "binlog.000001:4")
    tables = {orders.name: TableProgress(Mark(1), first=2, pending=True, hold=state)}
    _save(files, replace(Progress().read([manifest]), tables=tables))

    report = _find(files)

    assert report is not None
    (table,) = report["tables"]
    assert (table["table"], table["status"]) == ("shop.orders", "stale")
    assert table["target"] == "delta.`file:///lake/shop/orders`"
    assert table["reason"] == "its key changed"


def test_an_unreadable_snapshot_is_left_to_the_merge_of_its_table(
    files: StoredFiles, orders: Table
) -> None:
    """Its id has the table's digest: merges that are not for the table find nothing to do."""
    files.write(snapshot_path(f"20261122T000000.000000Z-{table_digest(orders.name)}"), b"cut")

    assert _find(files) is None
    assert _find(files, "--exclude", "shop.*") is not None


def test_an_unreadable_snapshot_of_a_table_that_no_merge_has_seen_is_reported(
    files: StoredFiles, orders: Table
) -> None:
    name = ("shop", "new")
    id_ = f"20261122T000000.000000Z-{table_digest(name)}"
    files.write(snapshot_path(id_), b"cut")
    options, _ = parse_arguments(_arguments())
    start = read_start(files, options)

    assert not start.is_idle
    (report,) = start.report_unnamed([orders.name])
    assert (report.table, report.status) == (f"snapshot {id_}", "failed")
    assert "take the snapshot of the table again, or delete this file" in str(report.error)
    assert start.report_unnamed([orders.name, name]) == []
