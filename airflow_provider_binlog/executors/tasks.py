"""What runs on an executor: one task reads one chunk, or one sub-range.

An error of ours is returned, not raised: Spark would run the task again, whatever the error is, and
then fail with a text of its own. Whether to try again is decided by the Airflow task alone.
"""

# ruff: noqa: PLC0415  What the executor may lack is imported where its lack can be reported.

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.executors.job import ChunkWork, Job, SubRangeWork
from airflow_provider_binlog.executors.outcome import Failure, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_binlog.sources.log import Log
    from airflow_provider_binlog.staging.object_store import ObjectStore


def run_tasks(job: Job, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Yield how the tasks of a partition ended."""
    for number in numbers:
        yield run_task(job, number)


def run_task(job: Job, number: int) -> Outcome:
    """Read one chunk or sub-range and stage it; return how that ended."""
    try:
        # NumPy, Arrow, PyMySQL and fsspec are loaded here.
        from airflow_provider_binlog.staging.object_store import ObjectStore

        store = ObjectStore(*job.staging.open())
        if isinstance(job.work, ChunkWork):
            return _read_chunk(job.source, job.work, number, store)
        return _stage_sub_range(job.source, job.work, number, store)
    except Exception as error:  # noqa: BLE001  It is passed on.
        return Outcome(number, failure=Failure.of(error))


def _read_chunk(source: str, work: ChunkWork, number: int, store: ObjectStore) -> Outcome:
    from airflow_provider_binlog.limits import Limits
    from airflow_provider_binlog.snapshot import ChunkReader, SnapshotFiles, Throttle, read_chunks
    from airflow_provider_binlog.sources.settings import Connections

    files = SnapshotFiles(store, source)
    throttle = Throttle(
        work.rows_per_second_max,
        work.threads_running_max,
        work.replica_lag_max,
        tuple(each.connect for each in work.replicas),
    )
    reader = ChunkReader(
        Connections(work.server).open, files, Limits(**work.limits), throttle, _print_wait
    )
    plan = files.read_plan(work.snapshot, (work.database, work.table))
    return Outcome(number, read_chunks(plan, [number], reader).rows)


def _print_wait(reason: str) -> None:
    """Say in the executor's log that a chunk waits."""
    print(f"the chunk waits: {reason}", file=sys.stderr, flush=True)  # noqa: T201


def _stage_sub_range(source: str, work: SubRangeWork, number: int, store: ObjectStore) -> Outcome:
    from airflow_provider_binlog.executors.sub_ranges import stage_planned
    from airflow_provider_binlog.manifest import count_changes

    with closing(_open_log(work, number)) as log:
        manifest = stage_planned(
            log, store, source=source, plan_id=work.plan, number=number, run=work.run
        )
    return Outcome(number, manifest.rows, count_changes(manifest.tables))


def _open_log(work: SubRangeWork, number: int) -> Log:
    if work.server is not None:
        from airflow_provider_binlog.sources.server_log import ServerLog

        server_id = work.server_ids[work.numbers.index(number)]
        return ServerLog(replace(work.server, server_id=server_id or work.server.server_id))
    from airflow_provider_binlog.sources.binlog_files import find_files
    from airflow_provider_binlog.sources.file_log import FileLog

    found_at = {each.name: each.location for each in work.found_at}
    return FileLog(find_files(work.files, lambda name: found_at[name].open()))
