"""How long after its commit a change is in the lake, while a run follows the log.

    python -m tests.bench freshness --format delta --minutes 10

Five tables of a shop on MySQL 9.7, 200 transactions a second; one process stages, a Spark job
merges, as the tasks of a DAG with `follow` do. A change counts from its commit on the server until
its lake table has it, and until its merge is published, when every table of the merge is committed.
Then nothing is written for a while, which is what idling costs; at the end the lake equals SELECT.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.follow import Schedule, follow, request_next
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import COMMIT_TS
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    Progress,
    published_at,
    read_records,
    record_ids,
)
from airflow_provider_binlog.staging.paths import (
    StoredFiles,
    part_key,
    read_manifest,
    source_folder,
)
from tests.faults.spark_job import SparkJob
from tests.fixtures.mysql import Database, connect, execute
from tests.fixtures.spark import find_environment
from tests.random_ddl.comparison import find_differences
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Account, Server
from tests.support.ranges import end_of
from tests.support.requests import a_request
from tests.support.stores import open_store
from tests.unit.spark.session import shared_session
from tests.unit.spark.workplace import Workplace, local_workplace

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.schema import TableName
    from tests.support.pipeline import Pipeline

NAME = "shop"
_TABLES = (
    "customers (id INT PRIMARY KEY AUTO_INCREMENT, email VARCHAR(120), seen DATETIME(3))",
    "orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, status TEXT, total DECIMAL(9, 2))",
    "items (`order` INT, line INT, sku CHAR(12), `count` INT, PRIMARY KEY (`order`, line))",
    "payments (id BINARY(16) PRIMARY KEY, `order` INT, amount DECIMAL(12,2), made TIMESTAMP(6))",
    "sessions (id CHAR(36) PRIMARY KEY, customer INT, data JSON, until DATETIME)",
)
_WRITERS = 2
_JAVA = "spark.driver.extraJavaOptions"
# The first merges load and compile what the later ones use.
_WARM_SECONDS = 60.0
_SETTLE_SECONDS = 40.0
_SAMPLE_SECONDS = 5.0
_PERIOD_SECONDS = 600
_MIB = 1 << 20
# Tests are given what suits jobs that end soon.
_AS_SUBMITTED = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.log.level": "ERROR",
}


def _transaction(random: Random, number: int) -> list[str]:
    """Return the statements of one transaction of a shop: an order, or its payment."""
    older = random.randrange(max(1, number)) + 1
    order = [
        f"INSERT INTO orders VALUES (DEFAULT, {older}, 'bestellt für Zoë', {number % 900}.99)",
        *(
            f"INSERT INTO items VALUES (LAST_INSERT_ID(), {line}, 'sku-{number % 999}', {line})"
            for line in range(random.randint(1, 3))
        ),
    ]
    data = json.dumps({"basket": [number] * random.randint(0, 5)})
    kinds = {
        tuple(order): 30,
        (f"UPDATE orders SET status = 'paid' WHERE id = {older}",): 20,
        (f"INSERT INTO payments VALUES (UUID_TO_BIN(UUID()), {older}, 9.99, NOW(6))",): 10,
        (f"INSERT INTO customers VALUES (DEFAULT, 'c{number}@example.com', NOW(3))",): 10,
        (f"UPDATE customers SET seen = NOW(3) WHERE id = {older}",): 10,
        (f"INSERT INTO sessions VALUES (UUID(), {older}, '{data}', NOW())",): 15,
        ("DELETE FROM sessions ORDER BY until LIMIT 3",): 5,
    }
    (statements,) = random.choices([*kinds], [*kinds.values()])
    return list(statements)


def _write(account: Account, seed: int, per_second: float, stop: Event) -> int:
    """Commit transactions at a rate until `stop` is set; return how many."""
    random, number, began = Random(seed), 0, time.monotonic()
    with closing(connect(account, database=NAME)) as connection, connection.cursor() as cursor:
        while not stop.is_set():
            cursor.execute("BEGIN")
            for statement in _transaction(random, number):
                cursor.execute(statement)
            connection.commit()
            number += 1
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
    return number


def _stage(dsn: str, staging: str, seconds: float, every: float) -> None:
    """Follow the log of a server from its first file on, as a task does."""
    settings, until = ConnectionSettings.from_dsn(dsn), time.monotonic() + seconds
    store = open_store(staging)
    with closing(ServerLog(settings, follows=True)) as log:
        state = log.read_state(None, start="earliest")
        request = a_request(
            log.first(),
            state.log_end,
            identity=state.identity,
            source_name=NAME,
            tables=TableFilter([f"{NAME}.*"]),
            read_server_tables=log.read_server_tables,
        )
        first = extract(request, log, store)
        schedule = Schedule(until, every)
        for _ in follow(request_next(request, first), log, store, schedule=schedule):
            pass


class _Tree:
    """A process and its children: what they use."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.sizes: list[int] = []

    def _sum(self, use: Callable[[psutil.Process], float]) -> float:
        """Return what all use, without those that have just ended."""
        total = 0.0
        for process in [self._process, *self._process.children(recursive=True)]:
            # Hadoop starts processes of a moment.
            with suppress(psutil.NoSuchProcess):
                total += use(process)
        return total

    def sample(self) -> None:
        """Note the resident bytes."""
        self.sizes.append(int(self._sum(lambda process: process.memory_info().rss)))

    def cpu(self) -> float:
        """Return the seconds of processor time that all have used."""
        return self._sum(lambda process: sum(process.cpu_times()[:2]))

    def growth(self) -> float:
        """Return the resident bytes of the last third of the samples over those of the second."""
        third = len(self.sizes) // 3
        second, last = self.sizes[third : 2 * third], self.sizes[-third:]
        return statistics.median(last) / statistics.median(second)


class _Records:
    """Publish records, read as they appear: a job deletes most of the older ones."""

    def __init__(self, workplace: Workplace) -> None:
        self._store = workplace.store
        self._found: dict[str, Progress] = {}

    def collect(self) -> list[Progress]:
        """Return what has been published until now, as it was found, the oldest first."""
        files = StoredFiles(self._store, NAME)
        for lake in self._store.folders(source_folder(NAME) + f"/{PROGRESS}"):
            new = [id_ for id_ in record_ids(files, f"{PROGRESS}/{lake}") if id_ not in self._found]
            self._found |= {
                record.id: record for record in read_records(files, f"{PROGRESS}/{lake}", new)
            }
        return [record for _, record in sorted(self._found.items())]


def _latencies(
    workplace: Workplace, records: Iterable[Progress], after: float
) -> np.ndarray[Any, Any]:
    """Return a row for each change that was committed after a time.

    It has the seconds from that time to the commit, from the commit until the change's table had
    it, and until the merge was published, when all tables had theirs.
    """
    files = StoredFiles(workplace.store, NAME)
    through, times = 0, _commit_times(workplace)
    rows = [np.empty((0, 3))]
    for record in records:
        end, versions = published_at(record.id).timestamp(), record.versions
        for sequence in range(through + 1, record.through + 1):
            for table in read_manifest(files, sequence).tables:
                seconds = _read_commits(workplace, table.parts)
                seconds = seconds[seconds >= after]
                visible = times[table.name, versions[table.name]]
                rows.append(np.stack([seconds - after, visible - seconds, end - seconds], axis=1))
        through = max(through, record.through)
    return np.concatenate(rows)


def _read_commits(workplace: Workplace, parts: Iterable[Part]) -> np.ndarray[Any, Any]:
    """Return the time of the commit of each change in parts."""
    times = [np.empty(0)]
    for part in parts:
        with workplace.store.open(part_key(NAME, part.path)) as file:
            commits = pq.read_table(file, columns=[COMMIT_TS])[COMMIT_TS]
        times.append(commits.cast(pa.int64()).to_numpy() / 1e6)
    return np.concatenate(times)


def _commit_times(workplace: Workplace) -> dict[tuple[TableName, int], float]:
    """Return when each version of each lake table was committed, by the table's own log."""
    times = {}
    for name in (words.partition(" ")[0] for words in _TABLES):
        target = workplace.lake.target(NAME, name)
        if workplace.format == "iceberg":
            versions = workplace.spark.table(f"{target}.snapshots")
            chosen = "snapshot_id", "unix_millis(committed_at)"
        else:
            versions = workplace.spark.sql(f"DESCRIBE HISTORY {target}")
            chosen = "version", "unix_millis(timestamp)"
        for row in versions.selectExpr(*chosen).collect():
            times[(NAME, name), row[0]] = row[1] / 1e3
    return times


def measure(
    format_: str,
    *,
    minutes: float,
    idle_minutes: float,
    per_second: float,
    every: float,
    java_options: str,
    properties: Sequence[str],
    folder: Path,
) -> dict[str, Any]:
    """Follow a server that is written to for these minutes; return what was measured."""
    folder.mkdir(parents=True)
    server = Server.create("mysql97", folder / "server")
    server.start()
    try:
        execute(server, f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
        database = Database(server, NAME)
        database.execute(*(f"CREATE TABLE {table}" for table in _TABLES))
        environment = find_environment(folder)
        workplace = local_workplace(shared_session(environment), format_, folder / "lake")
        workplace.source = NAME
        given = [word for one in properties for word in ("--table-property", one)]
        conf = _AS_SUBMITTED | {_JAVA: java_options}
        return _follow(
            database,
            workplace,
            SparkJob(workplace, environment, folder, conf=conf, arguments=given),
            busy=minutes * 60,
            idle=idle_minutes * 60,
            per_second=per_second,
            every=every,
        )
    finally:
        server.stop()


def _follow(
    database: Database,
    workplace: Workplace,
    job: SparkJob,
    *,
    busy: float,
    idle: float,
    per_second: float,
    every: float,
) -> dict[str, Any]:
    account, staging = database.server.account, f"{workplace.root}/staging"
    seconds = _WARM_SECONDS + busy + idle
    job.arguments = *job.arguments, "--follow", f"{seconds:.0f}"
    stage = multiprocessing.get_context("spawn").Process(
        target=_stage, args=(f"{account.dsn}?ssl_mode=disabled", staging, seconds, every)
    )
    stop, records = Event(), _Records(workplace)
    stage.start()
    _wait_for_manifest(workplace)
    merge = job.start()
    trees = {"stage": _Tree(stage.pid or 0), "merge": _Tree(merge.pid)}
    with ThreadPoolExecutor(_WRITERS) as pool:
        writing = [
            pool.submit(_write, account, seed, per_second / _WRITERS, stop)
            for seed in range(_WRITERS)
        ]
        try:
            time.sleep(_WARM_SECONDS)
            began = time.time()
            used = {name: tree.cpu() for name, tree in trees.items()}
            while time.time() < began + busy:
                time.sleep(_SAMPLE_SECONDS)
                records.collect()
                for tree in trees.values():
                    tree.sample()
            busy_cpu = {name: tree.cpu() - used[name] for name, tree in trees.items()}
        finally:
            stop.set()
        transactions = sum(writer.result() for writer in writing)
    # The last ranges are merged, too, before idling is measured.
    time.sleep(_SETTLE_SECONDS)
    collected = records.collect()
    idle_began = time.monotonic()
    used = {name: tree.cpu() for name, tree in trees.items()}
    time.sleep(max(1.0, idle - _SETTLE_SECONDS - 4 * every))
    idle_seconds = time.monotonic() - idle_began
    idle_cpu = {name: (tree.cpu() - used[name]) / idle_seconds for name, tree in trees.items()}
    stage.join()
    code = merge.wait()
    committed, visible, published = _latencies(workplace, collected, began).T
    return {
        "transactions": transactions,
        "changes": len(visible),
        "in_its_table": _percentiles(visible),
        "published": _percentiles(published),
        "in_its_table_by_ten_minutes": [
            _percentiles(visible[committed // _PERIOD_SECONDS == period])
            for period in np.unique(committed // _PERIOD_SECONDS)
        ],
        "cpu": {name: cpu / busy for name, cpu in busy_cpu.items()},
        "idle_cpu": idle_cpu,
        "memory_mib": {name: tree.sizes[-1] / _MIB for name, tree in trees.items()},
        "memory_mib_by_ten_minutes": {
            name: [size / _MIB for size in tree.sizes[:: int(_PERIOD_SECONDS / _SAMPLE_SECONDS)]]
            for name, tree in trees.items()
        },
        "memory_growth": {name: tree.growth() for name, tree in trees.items()},
        "exit_codes": [stage.exitcode, code],
        "differences": _compare(database, workplace),
    }


def _wait_for_manifest(workplace: Workplace) -> None:
    files = StoredFiles(workplace.store, NAME)
    while not files.list("manifests"):
        time.sleep(0.1)


def _percentiles(values: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return some percentiles of values."""
    shares = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    return {name: round(float(np.percentile(values, at)), 2) for name, at in shares.items()}


def _compare(database: Database, workplace: Workplace) -> list[str]:
    """Return how the lake differs from SELECT."""
    files = StoredFiles(workplace.store, NAME)
    manifests = [
        read_manifest(files, sequence) for sequence in range(1, len(files.list("manifests")) + 1)
    ]
    assert manifests[-1].stop.coordinates <= end_of(database.server).coordinates
    pipeline = SimpleNamespace(database=database, workplace=workplace, manifests=manifests)
    return list(find_differences(cast("Pipeline", pipeline), but=()))


def main(arguments: Sequence[str]) -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench freshness", description=__doc__)
    parser.add_argument("--format", choices=["delta", "iceberg"], action="append")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--idle-minutes", type=float, default=2)
    parser.add_argument("--per-second", type=float, default=200)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between manifests")
    parser.add_argument("--java-options", default="", help="of the driver: --java-options=-XX:…")
    parser.add_argument("--property", action="append", default=[], help="of new tables: name=value")
    chosen = parser.parse_args(arguments)
    wrong = False
    for format_ in chosen.format or ["delta", "iceberg"]:
        folder = RUN_FOLDER / "freshness" / format_
        shutil.rmtree(folder, ignore_errors=True)
        measured = measure(
            format_,
            minutes=chosen.minutes,
            idle_minutes=chosen.idle_minutes,
            per_second=chosen.per_second,
            every=chosen.every,
            java_options=chosen.java_options,
            properties=chosen.property,
            folder=folder,
        )
        print(json.dumps({"format": format_} | measured, indent=2), flush=True)
        wrong = wrong or bool(measured["differences"]) or any(measured["exit_codes"])
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
