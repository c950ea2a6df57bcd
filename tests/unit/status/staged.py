"""A source of which ranges are staged and merged, without a server and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.merge.progress import (
    Progress,
    TableProgress,
    load_progress,
    save_progress,
)
from airflow_provider_binlog.spark.target.state import ForeignWrite, Hold, Mark
from airflow_provider_binlog.staging.paths import StoredFiles, read_manifests
from tests.unit.operators.test_idle_merge import FOLDER
from tests.unit.spark.history import Source, Table
from tests.unit.spark.staged_changes import INT

STALE = Hold("stale", "rows were removed", "binlog.000001:120", "2026-11-24T10:00:00+00:00")
LOADING = Hold("loading", "it has rows from before the staged log")
WRITE = ForeignWrite(7, "DELETE", "eve", "2026-11-24T11:00:00+00:00")


def create(source: Source, *names: str) -> list[Table]:
    """Create tables of a database, with a row each."""
    tables = [source.create("shop", name, {"id": INT}, ("id",)) for name in names]
    for table in tables:
        table.insert(id=1)
    return tables


def merge(
    source: Source,
    through: int,
    states: Mapping[TableName, Hold | ForeignWrite | None],
    *,
    lake: str = "delta file:///lake",
    snapshots: frozenset[str] = frozenset(),
    folder: str = FOLDER,
    others: Iterable[TableName] = (),
) -> Progress:
    """Note that a merge has read the manifests up to a number, and the state of each table.

    `others` are staged, and merged into other lakes.
    """
    files = StoredFiles(source.store, source.name)
    tables = {
        name: TableProgress(
            Mark(through),
            pending=isinstance(state, Hold),
            hold=state if isinstance(state, Hold) else None,
            foreign_write=state if isinstance(state, ForeignWrite) else None,
            chosen=True,
        )
        for name, state in states.items()
    }
    tables |= {name: TableProgress(pending=True) for name in others}
    manifests = read_manifests(files, range(1, through + 1))
    progress = replace(Progress(lake=lake).read(manifests), tables=tables, snapshots=snapshots)
    loaded = load_progress(files, folder)
    save_progress(files, folder, progress, loaded=loaded, merged=list(states))
    return progress
