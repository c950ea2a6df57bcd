"""Take a snapshot of a table: plan it, read its chunks one after the other, write its manifest."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConflictError, TableAlteredError
from airflow_provider_binlog.snapshot.bounds import find_bounds
from airflow_provider_binlog.snapshot.chunk import describe_table, read_chunk
from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotPlan
from airflow_provider_binlog.snapshot_manifest import (
    SnapshotManifest,
    new_snapshot_id,
    snapshot_path,
)
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.transport.server.consistent_read import open_read
from airflow_provider_binlog.transport.server.queries import identify
from airflow_provider_binlog.transport.server.table_sizes import row_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.snapshot.chunk import Connect
    from airflow_provider_binlog.snapshot.plan import ChunkRecord
    from airflow_provider_binlog.snapshot.request import SnapshotRequest
    from airflow_provider_binlog.staging.object_store import ObjectStore

_ROUNDS_MAX = 5


@dataclass(frozen=True)
class TakenSnapshot:
    """A complete snapshot.

    Attributes:
        manifest: As it is stored.
        path: Of the manifest below the source's folder.
    """

    manifest: SnapshotManifest
    path: str


@dataclass(frozen=True)
class Progress:
    """How far a snapshot is read.

    Attributes:
        chunks: How many chunks are read.
        chunk_count: Of so many.
        rows: How many rows they have.
    """

    chunks: int
    chunk_count: int
    rows: int


def take_snapshot(
    request: SnapshotRequest,
    connect: Connect,
    store: ObjectStore,
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> TakenSnapshot:
    """Read a table and stage its rows; the manifest, written last, makes them visible.

    A snapshot that an earlier try of the same run began is continued, or returned if it is
    complete. If the table is altered meanwhile, or the retry reads another server, the snapshot
    begins again.

    Args:
        request: What to read.
        connect: Opens a connection.
        store: Where the files go.
        on_progress: Called after each chunk.

    Raises:
        TableAlteredError: The table is altered again and again.
        SourceError: The server refused.
        StagingError: The store failed.
        UnsupportedError: A column's type, or a value, is not staged.
    """
    files = SnapshotFiles(store, request.source_name)
    plan = files.find_plan(request.name, request.created_by)
    for left in reversed(range(_ROUNDS_MAX)):
        if plan is not None and (manifest := files.find_manifest(plan.id)) is not None:
            return TakenSnapshot(manifest, snapshot_path(plan.id))
        if plan is None or not _is_of_server(plan, connect):
            plan = plan_snapshot(request, connect, store)
            files.write_plan(plan)
        try:
            return _complete(plan, _read_all(plan, request, connect, files, on_progress), files)
        except TableAlteredError:
            if not left:
                raise
            plan = None
    raise TableAlteredError("the table is altered again and again")


def _is_of_server(plan: SnapshotPlan, connect: Connect) -> bool:
    """Whether a plan has positions of the server that is read now."""
    with closing(connect()) as connection:
        return identify(connection) == plan.identity


def plan_snapshot(request: SnapshotRequest, connect: Connect, store: ObjectStore) -> SnapshotPlan:
    """Return the plan of a new snapshot: the table's schema, and the bounds of its chunks.

    Its `low` has GTIDs if the staged changes do, which are compared with it.
    """
    now = datetime.now(UTC)
    latest = ManifestLog(store, request.source_name).latest()
    with open_read(connect, request.name, exact=False) as read:
        table = describe_table(read, request.name, request.policies)
        compared = latest is not None and latest.stop.gtid is not None
        low = read.low if compared else replace(read.low, gtid=None)
    exact = request.exact or not table.schema.key
    # Not in the transaction: to find the bounds takes as long as the table is large.
    with closing(connect()) as connection:
        identity = identify(connection)
        chunk_rows = max(1, request.chunk_bytes // row_bytes(connection, request.name))
        bounds = [] if exact else find_bounds(connection, request.name, table.key, chunk_rows)
    return SnapshotPlan(
        id=new_snapshot_id(now, request.name),
        identity=identity,
        database=request.name[0],
        table=request.name[1],
        schema=table.schema,
        low=low,
        exact=exact,
        where=request.where,
        bounds=tuple(bounds),
        zero_dates=request.policies.zero_dates,
        invalid_text=request.policies.invalid_text,
        created_at=now.isoformat(timespec="seconds"),
        created_by=request.created_by,
    )


def _read_all(
    plan: SnapshotPlan,
    request: SnapshotRequest,
    connect: Connect,
    files: SnapshotFiles,
    on_progress: Callable[[Progress], None],
) -> list[ChunkRecord]:
    records: list[ChunkRecord] = []
    rows = 0
    for number in range(plan.chunk_count):
        record = files.find_record(plan.id, number)
        if record is None:
            record = read_chunk(plan, number, connect, files, request.limits)
        records.append(record)
        rows += record.chunk.rows
        on_progress(Progress(len(records), plan.chunk_count, rows))
    return records


def _complete(
    plan: SnapshotPlan, records: list[ChunkRecord], files: SnapshotFiles
) -> TakenSnapshot:
    """Write the manifest of a snapshot whose chunks are all read."""
    is_exact = len(records) == 1 and records[0].is_exact
    chunks = [record.chunk for record in records]
    manifest = SnapshotManifest(
        id=plan.id,
        identity=plan.identity,
        database=plan.database,
        table=plan.table,
        schema=plan.schema,
        low=replace(chunks[0].low, gtid=None) if is_exact else plan.low,
        high=max((chunk.high for chunk in chunks), key=lambda high: high.coordinates),
        is_exact=is_exact,
        where=plan.where,
        zero_dates=plan.zero_dates,
        invalid_text=plan.invalid_text,
        chunks=tuple(chunks),
        parts=tuple(part for record in records for part in record.parts),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        created_by=plan.created_by,
    )
    path = snapshot_path(plan.id)
    try:
        files.store.create(files.key(path), manifest.encode())
    except ConflictError:
        # An earlier try has written it, and its answer was lost; or another process takes part.
        found = files.find_manifest(plan.id)
        if found is None:
            raise
        manifest = found
    return TakenSnapshot(manifest, path)
