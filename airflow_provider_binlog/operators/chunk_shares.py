"""What each of several tasks reads of the tables that need a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.names import join_table_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.snapshot import SnapshotPlan, SnapshotRequest
    from airflow_provider_binlog.snapshot.chunk import Connect
    from airflow_provider_binlog.staging.object_store import ObjectStore

_WAITS = "%s: the next bound waits: %s"
_TASK_CHUNKS = 8
"""A task reads as many chunks at least, or a whole table: to start one takes as long as some."""


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


def share_tables(
    requests: Sequence[SnapshotRequest],
    connect: Connect,
    store: ObjectStore,
    *,
    tasks_max: int,
    logger: Any,
) -> list[dict[str, Any]]:
    """Return what each task reads: a table, or chunks of a larger one, whose snapshot is begun.

    A table whose snapshot cannot be begun is left whole to its task, which says why.

    Args:
        requests: One for each table.
        connect: Opens a connection.
        store: Where the plans are.
        tasks_max: There are no more tasks than that, and no more tables.
        logger: The task's.

    Raises:
        SourceError: The server refused.
    """
    # Here, so that parsing a DAG loads neither NumPy nor Arrow.
    from airflow_provider_binlog.snapshot import SnapshotFiles, begin_snapshot
    from airflow_provider_binlog.transport.server.consistent_read import open_session
    from airflow_provider_binlog.transport.server.tables import data_bytes

    with open_session(connect) as connection:
        sizes = [data_bytes(connection, each.name) for each in requests]
    files = SnapshotFiles(store, requests[0].source_name).listed_once()
    plans: list[SnapshotPlan | None] = []
    for request, size in zip(requests, sizes, strict=True):
        plan = None
        if size > _TASK_CHUNKS * request.chunk_bytes:
            try:
                name = ".".join(request.name)
                waits = partial(logger.info, _WAITS, name)
                plan = begin_snapshot(request, connect, store, on_wait=waits, files=files)
            except BinlogError as error:
                text = "%s is left to one task, because its snapshot cannot be begun: %s"
                logger.warning(text, ".".join(request.name), error)
            else:
                logger.info("%s: %d chunks", ".".join(request.name), plan.chunk_count)
        plans.append(plan)
    counts = [1 if plan is None else plan.chunk_count for plan in plans]
    return [
        {"table": join_table_name(requests[each.table].name)}
        | ({} if (plan := plans[each.table]) is None else _name_chunks(plan, each))
        for each in share_chunks(counts, tasks_max)
    ]


def _name_chunks(plan: SnapshotPlan, share: ChunkShare) -> dict[str, Any]:
    return {"chunks": {"snapshot": plan.id, "first": share.first, "stop": share.stop}}


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
