"""Which tables of a server need a snapshot, and which tasks read them.

A table needs one if the lake lacks rows of it that the staged log does not have:

- no merge has seen it, and its creation is not staged: it had rows before;
- it waits for a reload in the lake;
- its newest snapshot is unreadable.

It does not while its newest snapshot waits for the log that it may have seen.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import BinlogError, ConfigurationError, ManifestError
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.snapshot.take import begin_snapshot
from airflow_provider_binlog.snapshot_manifest import planned_at
from airflow_provider_binlog.transport.server.consistent_read import open_session
from airflow_provider_binlog.transport.server.tables import data_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot.chunk import Connect
    from airflow_provider_binlog.snapshot.plan import SnapshotPlan, SnapshotRequest
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.staging.manifest_log import SchemaFiles
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.staging.paths import Snapshots

_READERS = 8
_TASK_CHUNKS = 8
"""A task reads at least as many chunks, or a whole table: its start takes as long as some."""
_NEVER_LOADED = ("SYSTEM VERSIONED", "SEQUENCE")


@dataclass(frozen=True)
class ServerTables:
    """The tables of a server that are captured and merged.

    Attributes:
        readable: Tables that a snapshot can read, in order.
        refused: Tables that are captured and cannot be read, in order.
    """

    readable: tuple[TableName, ...]
    refused: tuple[TableName, ...]


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


@dataclass(frozen=True)
class NeededTables:
    """Tables that need a snapshot.

    Attributes:
        now: Tables to be read now, in order.
        later: When each other table is read again, because its snapshots did not help.
    """

    now: tuple[TableName, ...]
    later: Mapping[TableName, datetime]


def choose_tables(
    kinds: Mapping[TableName, str], is_chosen: Callable[[TableName], bool]
) -> ServerTables:
    """Return the chosen tables of a server, given the TABLE_TYPE of each."""
    chosen = sorted(name for name in kinds if is_chosen(name))
    return ServerTables(
        tuple(name for name in chosen if kinds[name] == "BASE TABLE"),
        tuple(name for name in chosen if kinds[name] in _NEVER_LOADED),
    )


def find_needed(
    on_server: Collection[TableName],
    lake: LakeTables,
    snapshots: Snapshots,
    schemas: SchemaFiles,
    *,
    now: datetime,
) -> NeededTables:
    """Return the tables that need a snapshot.

    Args:
        on_server: The captured tables that the server has now.
        lake: The tables that the lake has.
        snapshots: Those of the source.
        schemas: Those of the source's tables, as they are staged.
        now: The time, which has a zone.

    Raises:
        ManifestError: What is staged about a table is unreadable.
    """

    def needs_snapshot(name: TableName) -> bool:
        return _needs_snapshot(name, lake, snapshots, schemas)

    names = sorted(on_server)
    # Before its first merge each table is a request or more to the store.
    with ThreadPoolExecutor(_READERS) as pool:
        needs = pool.map(needs_snapshot, names)
        needed = [name for name, is_needed in zip(names, needs, strict=True) if is_needed]
    times = {name: next_time(name, lake, snapshots) for name in needed}
    return NeededTables(
        tuple(name for name in needed if times[name] <= now),
        {name: time for name, time in times.items() if time > now},
    )


def _needs_snapshot(
    name: TableName,
    lake: LakeTables,
    snapshots: Snapshots,
    schemas: SchemaFiles,
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
    return file is None or file.state is None or file.state.created is None


def next_time(name: TableName, lake: LakeTables, snapshots: Snapshots) -> datetime:
    """Return when a table is read again: the more snapshots did not help, the later.

    As long after its newest snapshot as that was taken after the first one that did not help.
    """
    tried = snapshots.since(name, lake.loaded.get(name, ""))
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


@dataclass(frozen=True)
class PlannedTable:
    """A table that tasks read.

    Attributes:
        name: Database and table.
        plan: Its snapshot, if several tasks read its chunks; None if one task reads all.
        refusal: Why its snapshot could not be planned; its task fails for that.
    """

    name: TableName
    plan: SnapshotPlan | None = None
    refusal: BinlogError | None = None

    @property
    def chunk_count(self) -> int:
        """How many chunks tasks share; a table that is left whole counts as one."""
        return 1 if self.plan is None else self.plan.chunk_count


@dataclass(frozen=True)
class ChunkShare:
    """Chunks that one task reads.

    Attributes:
        table: Number of the table.
        first, stop: Numbers of its first chunk, and of the one after its last.
    """

    table: int
    first: int
    stop: int


def plan_tables(
    requests: Sequence[SnapshotRequest],
    connect: Connect,
    store: ObjectStore,
    *,
    on_wait: Callable[[TableName, str], None],
) -> Iterator[PlannedTable]:
    """Yield each requested table; the snapshot of a table of many chunks is begun.

    Args:
        requests: One for each table, one at least.
        connect: Opens a connection.
        store: Where the plans are.
        on_wait: Called with the table and the reason while the server is too busy.

    Raises:
        SourceError: The server refused to say how large the tables are.
    """
    with open_session(connect) as connection:
        sizes = [data_bytes(connection, request.name) for request in requests]
    files = SnapshotFiles(store, requests[0].source_name).listed_once()
    for request, size in zip(requests, sizes, strict=True):
        name = request.name
        if size <= _TASK_CHUNKS * request.chunk_bytes:
            yield PlannedTable(name)
            continue

        def wait(reason: str, name: TableName = name) -> None:
            on_wait(name, reason)

        try:
            plan = begin_snapshot(request, connect, store, on_wait=wait, files=files)
        except BinlogError as error:
            yield PlannedTable(name, refusal=error)
        else:
            yield PlannedTable(name, plan)


def share_chunks(counts: Sequence[int], tasks_max: int) -> list[ChunkShare]:
    """Share the chunks of tables, not more tables than tasks, among tasks in order.

    Args:
        counts: How many chunks each table has, 1 at least.
        tasks_max: Among how many tasks at most.
    """
    size = _TASK_CHUNKS
    while sum(-(-count // size) for count in counts) > tasks_max:
        size += size // 8
    return [
        ChunkShare(table, first, min(first + size, count))
        for table, count in enumerate(counts)
        for first in range(0, count, size)
    ]
