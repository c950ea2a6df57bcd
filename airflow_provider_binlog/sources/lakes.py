"""The lakes that a source is merged into, and the tables that need a snapshot for one of them.

A table needs a snapshot if the lake lacks rows of it that the staged log does not have: if no merge
has seen it and its creation is not staged, or not any more; if it waits for a reload in the lake,
or if its newest snapshot is unreadable. It does not while its newest snapshot waits for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from airflow_provider_binlog.errors import ConfigurationError, ManifestError
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import planned_at
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

_READERS = 8
_NEVER_LOADED = ("SYSTEM VERSIONED", "SEQUENCE")


def load_lakes(store: ObjectStore, source: str) -> Iterator[Progress]:
    """Yield the progress of each lake of a source; none before the first merge."""
    files = StoredFiles(store, source)
    for folder in store.folders(f"{source_folder(source)}/{PROGRESS}"):
        progress = load_progress(files, f"{PROGRESS}/{folder}")
        if progress is not None:
            yield progress


def choose_tables(
    kinds: Mapping[TableName, str], is_chosen: Callable[[TableName], bool]
) -> tuple[list[TableName], list[TableName]]:
    """Return the chosen tables that a snapshot can read, and those that are captured alone.

    Args:
        kinds: The TABLE_TYPE of each table of a server.
        is_chosen: Whether a table is captured and merged.
    """
    chosen = sorted(filter(is_chosen, kinds))
    readable = [name for name in chosen if kinds[name] == "BASE TABLE"]
    return readable, [name for name in chosen if kinds[name] in _NEVER_LOADED]


def find_needed(
    store: ObjectStore,
    source: str,
    on_server: Collection[TableName],
    progress: Progress | None,
    *,
    now: datetime,
) -> tuple[list[TableName], dict[TableName, datetime]]:
    """Return the tables that need a snapshot now, in order, and when others are read again.

    Args:
        store: Where the source is staged.
        source: Its name.
        on_server: The captured tables that the server has now.
        progress: That of the lake; None before its first merge.
        now: The time, which has a zone.

    Raises:
        ManifestError: What is staged about a table is unreadable.
    """
    files, lake, names = StoredFiles(store, source), progress or Progress(), sorted(on_server)
    snapshots, schemas = Snapshots(files), SchemaFiles(store, source)
    first = min(list_manifests(files), default=1)
    # Before its first merge each table is a request or more to the store.
    with ThreadPoolExecutor(_READERS) as pool:
        needs = pool.map(lambda name: _needs_snapshot(name, lake, snapshots, schemas, first), names)
        needed = [name for name, is_needed in zip(names, needs, strict=True) if is_needed]
    loaded = {name: table.loaded for name, table in lake.tables.items()}
    times = {name: next_time(name, loaded.get(name, ""), snapshots) for name in needed}
    later = {name: time for name, time in times.items() if time > now}
    return [name for name in needed if name not in later], later


def _needs_snapshot(
    name: TableName, lake: Progress, snapshots: Snapshots, schemas: SchemaFiles, first: int
) -> bool:
    newest = snapshots.newest_id(name)
    if newest is not None and newest not in lake.snapshots:
        try:
            snapshot = snapshots.read(newest)
        except ManifestError:
            return True
        end = lake.end
        # A merge refuses a snapshot whose position cannot be compared.
        if end is None or (is_comparable(snapshot, end) and not is_reached(snapshot, end)):
            return False
    if name in lake.tables:
        return lake.tables[name].hold is not None
    file = schemas.find(name, before=1 << 63)
    created = None if file is None or file.state is None else file.state.created
    return created is None or created < first


def next_time(name: TableName, loaded: str, snapshots: Snapshots) -> datetime:
    """Return when a table is read again: the more snapshots did not help, the later.

    As long after its newest snapshot as that was taken after the first one that did not help, all
    of them newer than the one that it was `loaded` from.
    """
    tried = snapshots.since(name, loaded)
    if not tried:
        return datetime.min.replace(tzinfo=UTC)
    newest = planned_at(tried[-1])
    return newest + (newest - planned_at(tried[0]))


def limit_tables(names: Sequence[TableName], most: int, *, has_next_run: bool) -> list[TableName]:
    """Return the tables that one run reads: the others wait for the next one.

    Raises:
        ConfigurationError: There are more tables than tasks, and no next run.
    """
    if len(names) > most and not has_next_run:
        raise ConfigurationError(
            "there are more tables than tasks to read them: name fewer, or increase "
            "[core] max_map_length",
            tables=len(names),
            tasks=most,
        )
    return list(names[:most])
