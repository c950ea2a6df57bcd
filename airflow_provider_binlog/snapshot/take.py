"""Take a snapshot of a table: plan it, read its chunks, write its manifest.

`take_snapshot` does all of it; tasks that share the chunks of a table do a step each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from airflow_provider_binlog import errors
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.read_progress import OnProgress, ProgressReporter, ignore_progress
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot.bounds import find_bounds
from airflow_provider_binlog.snapshot.chunk import ChunkReader, describe_table, read_chunk
from airflow_provider_binlog.snapshot.plan import (
    ChunkRecord,
    SnapshotFiles,
    SnapshotPlan,
    SnapshotRequest,
    wait_until_idle,
)
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, snapshot_path
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.part_writer import PartQueue
from airflow_provider_binlog.transport.server.consistent_read import open_read, open_session
from airflow_provider_binlog.transport.server.driver import Connect, Connection
from airflow_provider_binlog.transport.server.information_schema import list_tables
from airflow_provider_binlog.transport.server.queries import gtid_at, identify
from airflow_provider_binlog.transport.server.setup import check_databases
from airflow_provider_binlog.transport.server.tables import data_bytes, row_bytes

_ROUNDS_MAX = 5
_TASK_CHUNKS = 8
"""A task reads at least as many chunks, or a whole table: its start takes as long as some."""
_KEPT = timedelta(days=7)
"""Files of an incomplete snapshot are kept for so long: a task may still read its chunks."""


def take_snapshot(
    request: SnapshotRequest,
    connect: Connect,
    store: ObjectStore,
    *,
    read_plan: Callable[[SnapshotPlan], object] | None = None,
    on_progress: OnProgress = ignore_progress,
    on_wait: Callable[[str], None] = lambda _: None,
) -> SnapshotManifest:
    """Read a table and stage its rows; the manifest, written last, makes them visible.

    A snapshot that an earlier try of the same run began is continued, or returned if it is
    complete. If the table is altered meanwhile, or the retry reads another server, the snapshot
    begins again.

    Args:
        request: What to read.
        connect: Opens a connection.
        store: Where the files go.
        read_plan: Reads the chunks of a plan that have no record yet, in place of this process.
        on_progress: Called as rows are read here, and after each chunk.
        on_wait: Called with the reason while the server is too busy.

    Raises:
        TableAlteredError: The table is altered again and again.
        SourceError: The server refused.
        StagingError: The store failed.
        UnsupportedError: A column's type, or a value, is not staged.
        ConfigurationError: The throttle cannot be followed.
    """
    files = SnapshotFiles(store, request.source_name)
    reader = ChunkReader(
        connect, files, request.limits, request.throttle, on_wait, secret=request.columns.secret
    )
    for round_ in range(_ROUNDS_MAX):
        try:
            plan = begin_snapshot(request, connect, store, renew=round_ > 0, on_wait=on_wait)
            if (manifest := files.find_manifest(plan.id)) is not None:
                return manifest
            if read_plan is not None:
                read_plan(plan)
            else:
                read_chunks(plan, range(plan.chunk_count), reader, on_progress=on_progress)
            return complete_snapshot(plan, files)
        except errors.TableAlteredError as error:
            altered = error
    raise altered


def begin_snapshot(
    request: SnapshotRequest,
    connect: Connect,
    store: ObjectStore,
    *,
    renew: bool = False,
    on_wait: Callable[[str], None] = lambda _: None,
    files: SnapshotFiles | None = None,
) -> SnapshotPlan:
    """Return the plan of a snapshot, stored: that of an earlier try of the same run if it serves.

    It does if the request is the same, and the snapshot is complete, or the server, the table's
    schema and what orders its rows are the same, too. Its `low` has GTIDs if the staged changes do,
    which are compared with it: on MariaDB only if they are another server's. What older snapshots
    of the table left that were never completed is deleted.

    Args:
        request: What to read.
        connect: Opens a connection.
        store: Where the plan is.
        renew: Whether a new plan is made in any case.
        on_wait: Called with the reason while the server is too busy to find bounds.
        files: Those of the source in the store, whose ids were listed after earlier snapshots of
            the table began.

    Raises:
        ServerSetupError: The log lacks the changes of the table's database.
        TableAlteredError: The table lost its key while bounds were found.
        BinlogError: As `take_snapshot`.
    """
    files = files or SnapshotFiles(store, request.source_name)
    stored = None if renew else files.find_plan(request)
    if stored is not None and files.find_manifest(stored.id) is not None:
        return stored
    plan = _plan(request, connect, files, stored, on_wait)
    if plan is not stored:
        files.write_plan(plan)
        before = datetime.fromisoformat(plan.created_at) - _KEPT
        files.delete_unfinished(request.name, before=before)
    return plan


def _plan(
    request: SnapshotRequest,
    connect: Connect,
    files: SnapshotFiles,
    stored: SnapshotPlan | None,
    on_wait: Callable[[str], None],
) -> SnapshotPlan:
    now, columns = datetime.now(UTC), request.columns
    latest = ManifestLog(files.store, request.source_name).latest()
    known = files.known_fields(request.name, latest) if columns.options else ()
    excluded = columns.excluded_names(request.name, known)
    with open_read(connect, request.name, exact=False, excluded=excluded) as read:
        table, low = describe_table(read, request.name, request.policies, columns, known), read.low
    # Not in the transaction: to find the bounds takes as long as the table is large.
    with open_session(connect) as connection:
        check_databases(connection, request.name[0].__eq__, request.name[:1])
        identity = identify(connection)
        here = (identity, table.schema, table.key.order)
        if stored is not None and (stored.identity, stored.schema, stored.order) == here:
            return stored
        chunk_rows = max(1, request.chunk_bytes // row_bytes(connection, request.name))
        if not known:
            _check_renamed(request, connection, files, latest)
        # Equal rows cannot be replayed over rows that the log changed already.
        exact = request.exact or not table.schema.key
        wait = partial(wait_until_idle, request.throttle, connect, on_wait=on_wait)
        bounds = (
            [] if exact else find_bounds(connection, request.name, table.key, chunk_rows, wait=wait)
        )
        low = _with_gtids(low, connection, latest, identity)
    return SnapshotPlan(
        id=files.new_id(request.name, now),
        identity=identity,
        database=request.name[0],
        table=request.name[1],
        schema=table.schema,
        low=low,
        exact=exact,
        asked_exact=request.exact,
        chunk_bytes=request.chunk_bytes,
        where=request.where,
        order=table.key.order,
        bounds=tuple(bounds),
        zero_dates=request.policies.zero_dates,
        invalid_text=request.policies.invalid_text,
        created_at=now.isoformat(timespec="seconds"),
        created_by=request.created_by,
        columns=columns.options,
    )


def _check_renamed(
    request: SnapshotRequest,
    connection: Connection,
    files: SnapshotFiles,
    latest: Manifest | None,
) -> None:
    """Refuse a table that is new if one is missing whose columns are protected by its name.

    It may be the same one under another name, which the log will say.
    """
    named = {own.table for own in request.columns.options if own.table is not None}
    if not named - {request.name}:
        return
    there = list_tables(connection).keys()
    lost = [name for name in named - there if files.known_fields(name, latest)]
    if lost:
        raise errors.ConfigurationError(
            "a table with protected columns is not on the server any more, and this one is new "
            "and may be the same one: stage the log first, which says whether it was renamed; or "
            "give this one the same options",
            table=".".join(request.name),
            missing=", ".join(map(".".join, sorted(lost))),
        )


def _with_gtids(
    low: Position,
    connection: Connection,
    latest: Manifest | None,
    identity: SourceIdentity,
) -> Position:
    """Return `low` with its GTIDs if the staged changes have any to compare it with."""
    if latest is None or latest.stop.gtid is None:
        return replace(low, gtid=None)
    if identity.flavor is Flavor.MARIADB and latest.identity != identity:
        return replace(low, gtid=gtid_at(connection, low) or "")
    return low


def read_chunks(
    plan: SnapshotPlan,
    numbers: Sequence[int],
    reader: ChunkReader,
    *,
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Read those chunks of a plan that have no record yet; return how many rows all have.

    Raises:
        BinlogError: As `read_chunk`.
    """
    records = {number: reader.files.find_record(plan.id, number) for number in numbers}
    missing = [number for number, record in records.items() if record is None]
    progress = ProgressReporter(len(missing), "chunks", on_progress)
    reader = replace(reader, on_rows=lambda rows: progress.add(rows=rows))
    with PartQueue(reader.files.store) as queue:
        reads = (read_chunk(plan, number, reader, queue) for number in missing)
        read = next(reads, None)
        while read is not None:
            try:
                # Its rows are encoded while those of the next one are read.
                following = next(reads, None)
            finally:
                records[read.chunk.number] = read.record(plan, reader.files)
            progress.add(1)
            read = following
    return sum(record.chunk.rows for record in records.values() if record is not None)


def complete_snapshot(plan: SnapshotPlan, files: SnapshotFiles) -> SnapshotManifest:
    """Write the manifest of a snapshot whose chunks are all read.

    Raises:
        StagingError: A chunk is not read, or the store failed.
    """
    records = [_read_record(plan, number, files) for number in range(plan.chunk_count)]
    is_exact = len(records) == 1 and records[0].is_exact
    chunks = [record.chunk for record in records]
    manifest = plan.complete(
        chunks,
        [part for record in records for part in record.parts],
        low=replace(chunks[0].low, gtid=plan.low.gtid) if is_exact else plan.low,
        high=max((chunk.high for chunk in chunks), key=lambda high: high.coordinates),
        is_exact=is_exact,
    )
    try:
        files.store.create(files.key(snapshot_path(plan.id)), manifest.encode())
    except errors.ConflictError:
        # An earlier try wrote it and lost the answer; or another process completes it, too.
        stored = files.find_manifest(plan.id)
        if stored is None:
            raise
        return stored
    return manifest


def _read_record(plan: SnapshotPlan, number: int, files: SnapshotFiles) -> ChunkRecord:
    record = files.find_record(plan.id, number)
    if record is None:
        raise errors.StagingError(
            "a chunk of a snapshot is not read yet: let the task that reads it succeed first",
            snapshot=plan.id,
            chunk=number,
        )
    return record


def plan_tables(
    requests: Sequence[SnapshotRequest],
    connect: Connect,
    store: ObjectStore,
    *,
    on_wait: Callable[[TableName, str], None],
) -> Iterator[SnapshotPlan | errors.BinlogError | None]:
    """Begin the snapshots of tables of many chunks; yield what each table's tasks read.

    That is a plan, None for all of a small table, or why its snapshot could not be planned: the one
    task that then reads all of it fails for that.

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
    files = SnapshotFiles(store, requests[0].source_name)
    for request, size in zip(requests, sizes, strict=True):
        if size <= _TASK_CHUNKS * request.chunk_bytes:
            yield None
            continue
        wait = partial(on_wait, request.name)
        try:
            yield begin_snapshot(request, connect, store, on_wait=wait, files=files)
        except errors.BinlogError as error:
            yield error


def share_chunks(counts: Sequence[int], tasks_max: int) -> list[tuple[int, int, int]]:
    """Share the chunks of tables, not more tables than tasks, among tasks in order.

    Returns, for each task, the number of its table, and the start and stop of its chunks.

    Args:
        counts: How many chunks each table has, 1 at least.
        tasks_max: Among how many tasks at most.
    """
    size = _TASK_CHUNKS
    while sum(-(-count // size) for count in counts) > tasks_max:
        size += size // 8
    return [
        (table, first, min(first + size, count))
        for table, count in enumerate(counts)
        for first in range(0, count, size)
    ]
