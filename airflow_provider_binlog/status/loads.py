"""Snapshots of a source: those that are complete, and those that are being read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import planned_at
from airflow_provider_binlog.staging.paths import Snapshots
from airflow_provider_binlog.status.ranges import Memory, read_time

_COST = 1000


@dataclass(frozen=True, kw_only=True)
class Load:
    """A snapshot of a table.

    Attributes:
        name: The table.
        planned_at: When it was begun.
        completed_at: None while chunks are missing.
        rows: None while chunks are missing.
        chunks: How many there are.
        chunks_read: How many were read.
        first_read_at: When the first one was; None before, and where the store does not say.
        created_by: The run that reads it.
    """

    id: str
    name: TableName
    planned_at: datetime
    completed_at: datetime | None = None
    rows: int | None = None
    chunks: int
    chunks_read: int
    first_read_at: datetime | None = None
    created_by: str

    @property
    def text(self) -> str:
        """The table's name, for people."""
        return join_table_name(self.name)

    def remaining(self, now: datetime) -> timedelta | None:
        """Return how long the rest takes at the same pace; None before the second chunk was read.

        The first one may have waited for a worker.
        """
        if self.chunks_read < 2 or self.first_read_at is None:
            return None
        spent = max(timedelta(), now - self.first_read_at)
        return spent * (self.chunks - self.chunks_read) / (self.chunks_read - 1)


def read_loads(
    files: SnapshotFiles, snapshots: Snapshots, memory: Memory, key: object, *, count: int
) -> tuple[Load, ...]:
    """Return the newest snapshots, the newest first; those that are unreadable are left out.

    Args:
        files: The snapshots of a source, with their plans.
        snapshots: Those of them that are complete.
        memory: Of snapshots that were read.
        key: Names the source, and where it is staged.
        count: How many are returned of the complete ones, and of the others.
    """
    complete = snapshots.all_ids()
    planned = sorted(set(files.planned_ids()) - set(complete))
    loads = []
    for id_ in planned[-count:]:
        begun = memory.read((key, "plan", id_), partial(_begun, files, id_), _COST)
        if begun is not None:
            records = files.find_records(id_)
            first = min((record.modified for record in records if record.modified), default=None)
            read = min(begun.chunks, len(records))
            loads.append(replace(begun, chunks_read=read, first_read_at=first))
    for id_ in complete[-count:]:
        ended = memory.read((key, id_), partial(_ended, snapshots, id_), _COST)
        if ended is not None:
            loads.append(ended)
    return tuple(sorted(loads, key=lambda load: load.id, reverse=True))


def _begun(files: SnapshotFiles, id_: str) -> Load:
    plan = files.maybe_plan(id_)
    if plan is None:
        raise ManifestError("a snapshot has no plan", snapshot=id_)
    return Load(
        id=id_,
        name=plan.name,
        planned_at=planned_at(id_),
        chunks=plan.chunk_count,
        chunks_read=0,
        created_by=plan.created_by,
    )


def _ended(snapshots: Snapshots, id_: str) -> Load:
    manifest = snapshots.read(id_)
    return Load(
        id=id_,
        name=manifest.name,
        planned_at=planned_at(id_),
        completed_at=read_time(manifest.created_at),
        rows=manifest.rows,
        chunks=len(manifest.chunks),
        chunks_read=len(manifest.chunks),
        created_by=manifest.created_by,
    )
