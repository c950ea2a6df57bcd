"""The lakes that a source is merged into, as their last merges noted them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot.needed import LakeTables, find_needed
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.spark.merge.progress import PROGRESS, Progress, load_progress
from airflow_provider_binlog.spark.reload.plan import is_comparable, is_reached
from airflow_provider_binlog.staging.manifest_log import SchemaFiles
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import (
    Snapshots,
    StoredFiles,
    list_manifests,
    source_folder,
)


def load_lakes(store: ObjectStore, source: str) -> Iterator[Progress]:
    """Yield the progress of each lake of a source; none before the first merge."""
    files = StoredFiles(store, source)
    for folder in store.folders(f"{source_folder(source)}/{PROGRESS}"):
        progress = load_progress(files, f"{PROGRESS}/{folder}")
        if progress is not None:
            yield progress


def lake_tables(progress: Progress | None) -> LakeTables:
    """Return what the progress of a lake says of its tables; None before its first merge."""
    if progress is None:
        return LakeTables()
    end, tables = progress.end, progress.tables

    def awaits_log(snapshot: SnapshotManifest) -> bool:
        # A merge refuses a snapshot whose position cannot be compared.
        return end is None or (is_comparable(snapshot, end) and not is_reached(snapshot, end))

    return LakeTables(
        {name: table.loaded for name, table in tables.items()},
        {name for name, table in tables.items() if table.hold is not None},
        progress.snapshots,
        awaits_log,
    )


def find_needed_now(
    store: ObjectStore,
    source: str,
    on_server: Collection[TableName],
    progress: Progress | None,
) -> tuple[list[TableName], dict[TableName, datetime]]:
    """Return which tables of a server need a snapshot for a lake now; see `find_needed`."""
    files = StoredFiles(store, source)
    return find_needed(
        on_server,
        lake_tables(progress),
        Snapshots(files),
        SchemaFiles(store, source),
        first=min(list_manifests(files), default=1),
        now=datetime.now(UTC),
    )
