"""A table loaded in three ways: `python -m tests.bench snapshots [--rows N]`.

A table of 11 columns, ten million rows (about 1 GB) if nothing is said, on a MySQL server of its
own, staged as Parquet in a folder of this machine: by one process, with and without a throttle; by
two that share the chunks, as mapped tasks do; and by the two executor threads of a Spark that runs
already. Beside them: the same table dumped by mysqldump to nowhere. Processes are started and have
imported what they need before the clock is.

What the server saw is from its performance_schema: the longest transaction, and the rows that its
statements examined. What its other clients saw is from one that reads a row by its key, again and
again, while nothing else runs and beside each of the above.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from statistics import quantiles
from typing import TYPE_CHECKING

from airflow_provider_binlog.executors.job import ChunkWork, Job
from airflow_provider_binlog.limits import Limits, limits_in_bytes
from airflow_provider_binlog.snapshot.chunk import ChunkReader
from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotRequest, Throttle
from airflow_provider_binlog.snapshot.take import begin_snapshot, complete_snapshot, read_chunks
from airflow_provider_binlog.sources.settings import ConnectionSettings, Location
from tests.bench.measure import peak_bytes
from tests.bench.orders import NAME, dump, fill_orders
from tests.fixtures.mysql import execute, query
from tests.fixtures.spark import find_environment
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server
from tests.support.stores import open_store
from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    from multiprocessing.pool import Pool

    from pyspark import SparkContext

    from airflow_provider_binlog.snapshot.plan import SnapshotPlan

ROWS = 10_000_000
WORKERS = 2
PEAK_BYTES_MAX = 512 << 20
"""Resident memory of a process that reads chunks, however large the table is."""

THROTTLED = 100_000
"""Rows per second that the throttled process reads."""

DUMP_FACTOR_MAX = 1.5
"""So many times the seconds of mysqldump, at most, that one process takes."""

_IDLE_SECONDS = 20
_POINT_PAUSE = 0.002
_SOURCE = "shop"
_FOLDER = RUN_FOLDER / "bench-snapshots"
_STAGED = _FOLDER / "staged"
_SUMMARIES = (
    "performance_schema.events_transactions_summary_global_by_event_name",
    "performance_schema.events_statements_summary_global_by_event_name",
)


@dataclass(frozen=True)
class _Used:
    """What a process used: seconds of the processor, and its peak of resident memory."""

    process: int
    seconds: float
    peak: int


@dataclass(frozen=True)
class _Taken:
    """Time of a snapshot, in seconds by the clock, and the peak of memory of its processes."""

    seconds: float
    peak: int


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser("python -m tests.bench snapshots")
    parser.add_argument("--rows", type=int, default=ROWS, help="a multiple of a million")
    rows = parser.parse_args(arguments).rows
    shutil.rmtree(_FOLDER, ignore_errors=True)
    server = Server.create("mysql97", _FOLDER / "server")
    server.start({"innodb_buffer_pool_size": 512 << 20})
    try:
        fill_orders(server, rows)
        size = "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = 'orders'"
        print(f"{rows:,} rows, {query(server, size)[0][0] / 1e6:.0f} MB", flush=True)
        settings = ConnectionSettings.from_dsn(f"{server.dsn}/?ssl_mode=disabled")
        spawn = multiprocessing.get_context("spawn")
        with _point_reads(settings, "alone"):
            time.sleep(_IDLE_SECONDS)
        with _point_reads(settings, "beside mysqldump"):
            began = time.monotonic()
            dump(server)
            dumped = time.monotonic() - began
        print(f"mysqldump: {dumped:.1f} s, {rows / dumped:,.0f} rows/s", flush=True)
        taken = []
        for workers, throttle in (
            (1, Throttle()),
            (WORKERS, Throttle()),
            (1, Throttle(rows_per_second_max=THROTTLED)),
        ):
            pace = f", {THROTTLED:,} rows/s at most" if throttle.rows_per_second_max else ""
            with spawn.Pool(workers) as pool:
                pool.map(_load, range(workers), chunksize=1)
                read = partial(_read_with, pool, workers, settings, throttle)
                name = f"{workers} processes{pace}"
                taken.append(_measure(server, settings, name, read))
        context = shared_session(find_environment(_FOLDER)).sparkContext
        _load_executors(context)
        read = partial(_read_on_spark, context, settings)
        taken.append(_measure(server, settings, f"{WORKERS} executors of Spark", read))
    finally:
        server.stop()
        shutil.rmtree(_FOLDER, ignore_errors=True)
    factor = taken[0].seconds / dumped
    print(f"one process takes {factor:.2f} times as long as mysqldump, {DUMP_FACTOR_MAX} at most")
    peak = max(snapshot.peak for snapshot in taken)
    return int(peak > PEAK_BYTES_MAX or factor > DUMP_FACTOR_MAX)


def _measure(
    server: Server,
    settings: ConnectionSettings,
    name: str,
    read: Callable[[SnapshotPlan], Sequence[_Used]],
) -> _Taken:
    """Print what a snapshot takes whose chunks are read in a way, and return it."""
    shutil.rmtree(_STAGED, ignore_errors=True)
    store = open_store(_STAGED.as_uri())
    execute(server, *(f"TRUNCATE {each}" for each in _SUMMARIES))
    request = SnapshotRequest(source_name=_SOURCE, name=NAME, created_by="bench")
    with _point_reads(settings, f"beside {name}"):
        began = time.monotonic()
        plan = begin_snapshot(request, settings.connect, store)
        planned = time.monotonic() - began
        used = read(plan)
        rows = complete_snapshot(plan, SnapshotFiles(store, _SOURCE)).rows
        seconds = time.monotonic() - began
    transactions, statements = _SUMMARIES
    ((longest,),) = query(server, f"SELECT MAX(MAX_TIMER_WAIT) / 1e12 FROM {transactions}")
    ((examined,),) = query(server, f"SELECT SUM(SUM_ROWS_EXAMINED) FROM {statements}")
    peak = max(each.peak for each in used)
    print(
        f"{name}: {rows:,} rows in {plan.chunk_count} chunks, {seconds:.1f} s (the plan"
        f" {planned:.1f} s), {rows / seconds:,.0f} rows/s\n"
        f"  processor {sum(each.seconds for each in used):.1f} s, peak memory of a process"
        f" {peak >> 20} MiB\n"
        f"  on the server: longest transaction {longest:.2f} s, rows examined {examined:,.0f};"
        f" load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return _Taken(seconds, peak)


@contextmanager
def _point_reads(settings: ConnectionSettings, name: str) -> Iterator[None]:
    """Let a process read a row by its key, again and again; print how long that took."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    stop = spawn.Event()
    process = spawn.Process(target=_read_points, args=(settings, stop, theirs))
    process.start()
    theirs.close()  # So that the end of the process is the end of the pipe.
    ours.recv()  # It is connected.
    try:
        yield
    finally:
        stop.set()
        seconds: list[float] = ours.recv()
        process.join()
    cuts = [1000 * cut for cut in quantiles(seconds, n=100)]
    print(
        f"  {len(seconds):,} point reads {name}: median {cuts[49]:.1f} ms, p95 {cuts[94]:.1f} ms,"
        f" p99 {cuts[98]:.1f} ms",
        flush=True,
    )


def _read_points(settings: ConnectionSettings, stop: Event, to: Connection) -> None:
    seconds = []
    with closing(settings.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT MAX(id) FROM shop.orders")
        [(last,)] = cursor.fetchall()
        to.send(None)
        while not stop.wait(_POINT_PAUSE):
            began = time.perf_counter()
            key = random.randint(0, last)
            if not cursor.execute("SELECT * FROM shop.orders WHERE id = %s", (key,)):
                sys.exit(f"shop.orders has no row {key}")
            cursor.fetchall()
            seconds.append(time.perf_counter() - began)
    to.send(seconds)


def _read_with(
    pool: Pool,
    workers: int,
    settings: ConnectionSettings,
    throttle: Throttle,
    plan: SnapshotPlan,
) -> Sequence[_Used]:
    """Let each process read its part of the chunks, as a mapped task does."""
    size = -(-plan.chunk_count // workers)
    numbers = range(plan.chunk_count)
    shares = [numbers[first : first + size] for first in numbers[::size]]
    return pool.map(partial(_read, settings, throttle, plan.id), shares, chunksize=1)


def _read(settings: ConnectionSettings, throttle: Throttle, snapshot: str, numbers: range) -> _Used:
    began = time.process_time()
    files = SnapshotFiles(open_store(_STAGED.as_uri()), _SOURCE)
    reader = ChunkReader(settings.connect, files, throttle=throttle)
    read_chunks(files.read_plan(snapshot, NAME, None), numbers, reader)
    return _Used(os.getpid(), time.process_time() - began, int(peak_bytes()))


def _read_on_spark(
    context: SparkContext, settings: ConnectionSettings, plan: SnapshotPlan
) -> Sequence[_Used]:
    work = ChunkWork(
        server=settings,
        snapshot=plan.id,
        database=plan.database,
        table=plan.table,
        where=plan.where,
        numbers=tuple(range(plan.chunk_count)),
        limits=limits_in_bytes(Limits()),
        rows_per_second_max=None,
        threads_running_max=None,
        replica_lag_max=None,
        replicas=(),
    )
    staging = Location("file", str(_STAGED))
    before = {each.process: each.seconds for each in _load_executors(context)}
    from airflow_provider_binlog.executors.application import read_all

    report = read_all(context, Job(source=_SOURCE, staging=staging, parallelism=WORKERS, work=work))
    if (error := report.find_error()) is not None:
        raise error
    return [
        replace(each, seconds=each.seconds - before.get(each.process, 0))
        for each in _load_executors(context)
    ]


def _load_executors(context: SparkContext) -> list[_Used]:
    """Return what the Python processes of the executors have used since they started."""
    used: list[_Used] = context.parallelize(range(WORKERS), WORKERS).map(_load).collect()
    return used


def _load(_: int) -> _Used:
    """Import what a task needs, long enough that each process does."""
    import airflow_provider_binlog.sources.settings  # noqa: F401

    time.sleep(1)
    return _Used(os.getpid(), time.process_time(), int(peak_bytes()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
