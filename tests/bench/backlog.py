"""One extract of a backlog, and its sub-ranges: `python -m tests.bench.backlog [ROWS]`.

A log of eight files with so many rows each, on a MySQL server of its own, is staged in folders of
this machine, each way after the other: by one extract; in eight sub-ranges on one process, and on
two; and in eight sub-ranges on the two executor threads of a Spark that runs already. Processes
have staged the log once before they are measured. The plan and the commit are tasks of their own.

Each line has seconds by the clock, and of the processor: the sum over the processes, and of the
busiest one, which is what an idle machine would take at least. On a machine that others use, only
these say anything. The main thread of an extract is busy for a part of its seconds: the others
write Parquet at the same time.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.sub_ranges import plan_backlog, store_plan
from airflow_provider_binlog.capture.extract import extract, find_next
from airflow_provider_binlog.capture.log_range import ExtractRequest, TableFilter
from airflow_provider_binlog.executors.job import Job, SubRangeWork, run_tasks
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings, Location
from airflow_provider_binlog.transport.server.queries import identify, log_end
from tests.fixtures.mysql import connect, execute
from tests.fixtures.spark import find_environment
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server
from tests.support.requests import a_request
from tests.support.stores import open_store
from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.pool import Pool

    from airflow_provider_binlog.capture.backlog.sub_ranges import BacklogPlan
    from airflow_provider_binlog.executors.job import Outcome
    from airflow_provider_binlog.staging.object_store import ObjectStore

_Value = TypeVar("_Value")

ROWS = 125_000
FILES = 8
WORKERS = 2

_FOLDER = RUN_FOLDER / "bench-backlog"
_COLUMNS = """
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY, quantity INT, name VARCHAR(40), mail VARCHAR(100),
    amount DECIMAL(12,2), level TINYINT, changed DATETIME(6), seen TIMESTAMP(3) NULL, note TEXT,
    score DOUBLE, state ENUM('new','paid','sent')"""
_ROW = """
    n, CRC32(n) DIV 3, CONCAT('customer ', n), CONCAT('customer.', n, '@example.com'),
    CRC32(n * 7) DIV 100 / 100, n % 100, '2024-01-01' + INTERVAL n * 1000003 MICROSECOND,
    FROM_UNIXTIME(1700000000 + n % 10000000), REPEAT('a note ', n % 4), CRC32(n * 13) / 1000,
    1 + n % 3"""


@dataclass(frozen=True)
class _Backlog:
    """A log that is there.

    Attributes:
        settings: How to reach its server.
        request: For all of it.
    """

    settings: ConnectionSettings
    request: ExtractRequest


def main(arguments: list[str]) -> int:
    """Measure and print; there is no target."""
    rows = int(arguments[0]) if arguments else ROWS
    shutil.rmtree(_FOLDER, ignore_errors=True)
    server = Server.create("mysql97", _FOLDER / "server")
    server.start({"innodb_buffer_pool_size": 256 << 20})
    try:
        backlog = _fill(server, rows)
        print(f"load {os.getloadavg()[0]:.1f} before")
        for workers in (1, WORKERS):
            with multiprocessing.get_context("spawn").Pool(workers) as pool:
                first = pool.map(_load, [backlog] * workers, chunksize=1)
                if workers == 1:
                    print("one extract, the first of its process:")
                    _print_processor(first)
                    used = _timed("one extract", lambda: pool.apply(_extract, (backlog,)))
                    _print_processor([used])
                _measure(backlog, f"{workers} processes", lambda job: _read_with(pool, job))
        from airflow_provider_binlog.executors.application import read_all

        context = shared_session(find_environment(_FOLDER)).sparkContext
        context.parallelize([backlog] * WORKERS, WORKERS).map(_load).collect()
        name = f"{WORKERS} executors of Spark"
        _measure(backlog, name, lambda job: read_all(context, job).outcomes)
        print(f"load {os.getloadavg()[0]:.1f} after")
    finally:
        server.stop()
        shutil.rmtree(_FOLDER, ignore_errors=True)
    return 0


def _fill(server: Server, rows: int) -> _Backlog:
    execute(
        server,
        "CREATE DATABASE bench",
        f"CREATE TABLE bench.t ({_COLUMNS}) CHARACTER SET utf8mb4",
        "FLUSH BINARY LOGS",
    )
    with closing(connect(server)) as connection:
        start, identity = log_end(connection), identify(connection)
    for number in range(FILES):
        numbers = f"""WITH RECURSIVE s AS (
            SELECT {number * rows + 1} AS n UNION ALL SELECT n + 1 FROM s
            WHERE n < {(number + 1) * rows})"""
        execute(
            server,
            "SET SESSION cte_max_recursion_depth = 100000000",
            f"INSERT INTO bench.t {numbers} SELECT {_ROW} FROM s",
            *(["FLUSH BINARY LOGS"] if number < FILES - 1 else []),
        )
    with closing(connect(server)) as connection:
        stop = log_end(connection)
    size = sum(each.stat().st_size for each in server.data.glob("binlog.0*"))
    print(f"{rows * FILES:,} rows, {size / 1e6:.0f} MB of log")
    return _Backlog(
        ConnectionSettings.from_dsn(f"{server.dsn}/?ssl_mode=disabled"),
        a_request(
            start, stop, identity=identity, tables=TableFilter(["bench.*"]), created_by="bench"
        ),
    )


def _extract(backlog: _Backlog) -> _Used:
    """Stage all of it in this process, which has other threads that write."""
    with _measured() as used:
        extract(backlog.request, ServerLog(backlog.settings), _new_store(f"one-{os.getpid()}"))
    return used


def _measure(backlog: _Backlog, name: str, read: Callable[[Job], Sequence[Outcome]]) -> None:
    """Print how long a plan, its sub-ranges and their commit take."""
    store = _new_store("many")
    plan = _timed("plan", lambda: _plan(backlog, store))
    job = Job(
        source="shop",
        staging=Location("file", f"{_FOLDER}/many"),
        parallelism=WORKERS,
        work=SubRangeWork(
            plan=plan.id,
            run_id="bench",
            server=backlog.settings,
            files=(),
            locations={},
            numbers=tuple(range(FILES)),
        ),
    )
    text = f"{FILES} sub-ranges on {name}"
    outcomes = _timed(text, lambda: read(job))
    failures = [each.failure for each in outcomes if each.failure is not None]
    if failures:
        raise failures[0].to_error()
    _timed("commit", lambda: commit_backlog(plan, store, created_by="bench"))


def _plan(backlog: _Backlog, store: ObjectStore) -> BacklogPlan:
    source = ServerLog(backlog.settings)
    _, log_range = find_next(backlog.request, source, store)
    if log_range is None:
        raise RuntimeError("nothing was logged")
    plan = plan_backlog(log_range, source, target_bytes=1)
    store_plan(plan, store)
    return plan


@dataclass
class _Used:
    """Seconds of the processor that a process used, and its main thread of them."""

    process: int
    seconds: float = 0
    main: float = 0


@contextmanager
def _measured() -> Iterator[_Used]:
    used = _Used(os.getpid())
    seconds, main = time.process_time(), time.thread_time()
    yield used
    used.seconds, used.main = time.process_time() - seconds, time.thread_time() - main


def _print_processor(used: Sequence[_Used]) -> None:
    busy: dict[int, float] = {}
    for each in used:
        busy[each.process] = busy.get(each.process, 0) + each.seconds
    print(
        f"  processor: {sum(busy.values()):.1f} s, the busiest process {max(busy.values()):.1f} s,"
        f" main threads {sum(each.main for each in used):.1f} s"
    )


def _read_with(pool: Pool, job: Job) -> list[Outcome]:
    found = pool.map(partial(_run, job), range(FILES), chunksize=1)
    _print_processor([used for _, used in found])
    return [outcome for outcome, _ in found]


def _run(job: Job, number: int) -> tuple[Outcome, _Used]:
    with _measured() as used:
        (outcome,) = run_tasks(job, [number])
    return outcome, used


def _new_store(name: str) -> ObjectStore:
    shutil.rmtree(_FOLDER / name, ignore_errors=True)
    return open_store(f"file://{_FOLDER / name}")


def _load(backlog: _Backlog) -> _Used:
    """Stage the log once, so that what a process does for the first time is done."""
    time.sleep(1)  # So that each process takes one.
    return _extract(backlog)


def _timed(name: str, act: Callable[[], _Value]) -> _Value:
    began, used = time.monotonic(), time.process_time()
    value = act()
    seconds = time.monotonic() - began
    print(f"{name}: {seconds:.2f} s, processor here {time.process_time() - used:.2f} s", flush=True)
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
