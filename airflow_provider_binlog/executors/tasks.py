"""A task on an executor: read one chunk, or one sub-range, and stage it.

Errors of ours are returned, not raised: Spark would run the task again, whatever the error is, and
then fail with a text of its own. Only the Airflow task decides about retries.
"""

# ruff: noqa: PLC0415  What the executor may lack is imported where its lack can be reported.

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ForeignPositionError
from airflow_provider_binlog.executors.job import ChunkWork, Failure, Job, Outcome, SubRangeWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from airflow_provider_binlog.capture import Progress
    from airflow_provider_binlog.capture.backlog import BacklogPlan
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.sources.state import Log
    from airflow_provider_binlog.staging.object_store import ObjectStore


def run_tasks(job: Job, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Yield the outcomes of a partition's tasks."""
    for number in numbers:
        yield run_task(job, number)


def run_task(job: Job, number: int) -> Outcome:
    """Read one chunk or sub-range and stage it; return the outcome."""
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
        tuple(replica.connect for replica in work.replicas),
    )
    reader = ChunkReader(
        Connections(work.server).open, files, Limits(**work.limits), throttle, _print_wait
    )
    plan = files.read_plan(work.snapshot, (work.database, work.table), work.where)
    return Outcome(number, read_chunks(plan, [number], reader).rows)


def _print_wait(reason: str) -> None:
    print(f"the chunk waits: {reason}", file=sys.stderr, flush=True)  # noqa: T201


def _stage_sub_range(source: str, work: SubRangeWork, number: int, store: ObjectStore) -> Outcome:
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

    locations = {named.name: named.location for named in work.found_at}
    return FileLog(find_files(work.files, lambda name: locations[name].open()))


def stage_planned(
    log: Log,
    store: ObjectStore,
    *,
    source: str,
    plan_id: str,
    number: int,
    run: str,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Stage a sub-range of a stored plan, and return its manifest.

    Args:
        log: The log that the source has now.
        store: Where the plan is, and the parts are written.
        source: Name of the source.
        plan_id: Of the plan.
        number: Of the sub-range.
        run: That stages it.
        on_progress: Called now and then.

    Raises:
        ForeignPositionError, PositionPurgedError: The log is of another server than the plan, or
            lacks the start of the sub-range.
        BinlogError: As `stage_sub_range`.
    """
    from airflow_provider_binlog.capture.backlog import load_plan, stage_sub_range

    plan = load_plan(store, source, plan_id)
    _check_log(log, plan, number, run)
    return stage_sub_range(plan, number, log, store, on_progress=on_progress)


def _check_log(log: Log, plan: BacklogPlan, number: int, run: str) -> None:
    """Refuse another server's log than the plan is of.

    Raises:
        ForeignPositionError, PositionPurgedError: As `stage_planned`.
    """
    start, now = plan.sub_ranges[number].start, datetime.now(UTC).isoformat(timespec="seconds")
    checkpoint = Checkpoint(plan.identity, start, plan.sequence - 1, now, run)
    state = log.read_state(checkpoint, start=None)
    if state.identity != plan.identity:
        raise ForeignPositionError(
            "the backlog was planned on another server: plan it again",
            planned=plan.identity,
            this_is=state.identity,
        )
