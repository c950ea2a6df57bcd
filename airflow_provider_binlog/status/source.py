"""The status of a source: everything that its staged files say, bounded, as one value."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.sources.lakes import load_lakes
from airflow_provider_binlog.spark.merge.progress import Progress
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import (
    Snapshots,
    StoredFiles,
    list_manifests,
    manifest_path,
    source_folder,
)
from airflow_provider_binlog.status.loads import Load, read_loads
from airflow_provider_binlog.status.merges import Published, read_published
from airflow_provider_binlog.status.ranges import (
    BYTES_PER_READ,
    Memory,
    RangeSummary,
    read_newest,
)
from airflow_provider_binlog.status.tables import State, TableStatus, read_tables

_LAKES_MAX = 20
_LOADS = 20


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """What is staged of a source, and merged.

    Attributes:
        ranges: The newest ones, the newest first.
        lakes: What the merges of each lake have noted, in the order of their names.
        has_more_lakes: Whether there are others, which were not read.
        published: What merges have published since the oldest of the ranges.
        loads: The newest snapshots, and those that are being read, the newest first.
        tables: Those that need a person first.
        problem: Why a manifest cannot be read; empty if all could.
    """

    ranges: tuple[RangeSummary, ...]
    lakes: tuple[Progress, ...]
    published: tuple[Published, ...]
    loads: tuple[Load, ...]
    tables: tuple[TableStatus, ...]
    problem: str = ""
    has_more_lakes: bool = False

    @property
    def newest(self) -> RangeSummary | None:
        """The newest range; None if nothing is staged, or it is unreadable."""
        return self.ranges[0] if self.ranges else None

    @property
    def states(self) -> dict[State, int]:
        """How many tables have each state, in the order of the states."""
        counted = Counter(table.state for table in self.tables)
        return {state: counted[state] for state in State if counted[state]}


def read_status(
    store: ObjectStore,
    source: str,
    memory: Memory,
    location: str,
    *,
    ranges: int,
    merges: int = 0,
    lakes_max: int | None = _LAKES_MAX,
) -> SourceStatus:
    """Return the status of a source.

    Args:
        store: Where it is staged.
        source: Its name.
        memory: Of files that were read, shared by all sources.
        location: Names the store.
        ranges: How many ranges are read, if their manifests are small.
        merges: How many publish records are read, of the time of these ranges.
        lakes_max: How many lakes are read; None for all.

    Raises:
        StagingError: The store denies access, or does not answer.
    """
    key = location, source
    files = StoredFiles(store, source)
    newest = read_newest(
        list_manifests(files),
        lambda number: store.read(f"{source_folder(source)}/{manifest_path(number)}"),
        memory,
        key,
        count=ranges,
        bytes_max=BYTES_PER_READ,
    )
    found = load_lakes(store, source)
    lakes = tuple(sorted(islice(found, lakes_max), key=lambda progress: progress.lake))
    published: tuple[Published, ...] = ()
    if newest.ranges and merges:
        since = newest.ranges[-1].created_at
        published = read_published(
            store, source, memory, key, since=since, count=merges, lakes_max=lakes_max
        )
    loads = read_loads(SnapshotFiles(store, source), Snapshots(files), memory, key, count=_LOADS)
    processed = {id_ for lake in lakes for id_ in lake.snapshots}
    return SourceStatus(
        ranges=newest.ranges,
        lakes=lakes,
        published=published,
        loads=loads,
        tables=read_tables(
            lakes, newest.ranges, [load.name for load in loads if load.id not in processed]
        ),
        problem=newest.problem,
        has_more_lakes=next(found, None) is not None,
    )
