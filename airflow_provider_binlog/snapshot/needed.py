"""Find the tables that need a snapshot, and the snapshots that wait to be loaded.

A table needs one if the lake lacks rows of it that the staged log does not have: if no merge has
seen it and its creation is not staged, or not any more; if it waits for a reload in the lake, or if
its newest snapshot is unreadable. It does not while its newest snapshot waits for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_binlog.errors import ConfigurationError, ManifestError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, planned_at
from airflow_provider_binlog.staging.manifest_log import SchemaFiles
from airflow_provider_binlog.staging.paths import Snapshots

_READERS = 8
_NEVER_LOADED = ("SYSTEM VERSIONED", "SEQUENCE")


@dataclass(frozen=True)
class LakeTables:
    """Tables of a lake as its last merge noted them; all empty before the first merge.

    Attributes:
        loaded: Id of the snapshot that each table was loaded from; empty for none.
        suspended: Those of the tables that wait for a reload.
        processed: Ids of the snapshots that merges have loaded or refused.
        awaits_log: Whether a snapshot may have seen more of the log than is merged.
    """

    loaded: Mapping[TableName, str] = field(default_factory=dict)
    suspended: Collection[TableName] = ()
    processed: Collection[str] = ()
    awaits_log: Callable[[SnapshotManifest], bool] = lambda _: True


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
    on_server: Collection[TableName],
    lake: LakeTables,
    snapshots: Snapshots,
    schemas: SchemaFiles,
    *,
    first: int,
    now: datetime,
) -> tuple[list[TableName], dict[TableName, datetime]]:
    """Return the tables that need a snapshot now, in order, and when others are read again.

    Args:
        on_server: The captured tables that the server has now.
        lake: The tables that the lake has.
        snapshots: Those of the source.
        schemas: Those of the source's tables, as they are staged.
        first: Number of the oldest manifest that is staged.
        now: The time, which has a zone.

    Raises:
        ManifestError: What is staged about a table is unreadable.
    """
    names = sorted(on_server)
    # Before its first merge each table is a request or more to the store.
    with ThreadPoolExecutor(_READERS) as pool:
        needs = pool.map(lambda name: _needs_snapshot(name, lake, snapshots, schemas, first), names)
        needed = [name for name, is_needed in zip(names, needs, strict=True) if is_needed]
    times = {name: next_time(name, lake, snapshots) for name in needed}
    later = {name: time for name, time in times.items() if time > now}
    return [name for name in needed if name not in later], later


def _needs_snapshot(
    name: TableName, lake: LakeTables, snapshots: Snapshots, schemas: SchemaFiles, first: int
) -> bool:
    newest = snapshots.newest_id(name)
    if newest is not None and newest not in lake.processed:
        try:
            snapshot = snapshots.read(newest)
        except ManifestError:
            return True
        if lake.awaits_log(snapshot):
            return False
    if name in lake.loaded:
        return name in lake.suspended
    file = schemas.find(name, before=1 << 63)
    created = None if file is None or file.state is None else file.state.created
    return created is None or created < first


def next_time(name: TableName, lake: LakeTables, snapshots: Snapshots) -> datetime:
    """Return when a table is read again: the more snapshots did not help, the later.

    As long after its newest snapshot as that was taken after the first one that did not help.
    """
    tried = snapshots.since(name, lake.loaded.get(name, ""))
    if not tried:
        return datetime.min.replace(tzinfo=UTC)
    newest = planned_at(tried[-1])
    return newest + (newest - planned_at(tried[0]))


def has_new_snapshot(
    snapshots: Snapshots, latest: Manifest | None, processed: Collection[str] = ()
) -> bool:
    """Return whether a complete snapshot was begun in the second of the newest manifest, or later.

    A merge loads it with the next manifest, also with an empty one, unless one has processed it.
    """
    newest = max((id_ for id_ in snapshots.ids() if id_ not in processed), default=None)
    if newest is None or latest is None:
        return newest is not None
    # Manifests note whole seconds: of the same one, the snapshot may be the newer.
    return planned_at(newest) >= datetime.fromisoformat(latest.created_at)


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
