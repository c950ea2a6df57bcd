"""What Spark's executors stage is what a worker stages; passwords are in none of its files."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_binlog import BinlogSnapshotOperator, BinlogSource, BinlogSubRangeOperator
from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.sub_ranges import BacklogPlan
from airflow_provider_binlog.changes import COMMIT_TS
from airflow_provider_binlog.errors import SparkJobError
from airflow_provider_binlog.executors import application
from airflow_provider_binlog.protected_columns import ColumnRules, HashSecret
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.table_options import ColumnOptions
from tests.fixtures.mysql import Database, flush_log
from tests.integration.test_archive import archive, logs_of
from tests.integration.test_backlog import plan, run_history, tables_reader
from tests.support.lake import Lake
from tests.support.protected import Protected, find_planted
from tests.support.ranges import Range, end_of, live
from tests.support.secrets import files_with, watched_processes
from tests.support.snapshots import fill, read_parts
from tests.support.stores import open_store
from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.s3 import S3Server
    from tests.services.servers import Server

pytestmark = [pytest.mark.server, pytest.mark.spark]

USER, PASSWORD = "captures", f"planted-{uuid4().hex}"
HASH_SECRET = f"planted-{uuid4().hex}"
SHOP = BinlogSource("shop", start="now", conn_id="read_on_spark")
CHUNK_BYTES = 4096


def a_context(run: str = "run") -> Any:
    instance = SimpleNamespace(dag_id="dag", run_id=run, task_id="task")
    return {"ti": instance, "outlet_events": {}}


def connect_airflow(monkeypatch: pytest.MonkeyPatch, server: Server, master: str) -> None:
    """Let the operators find the server, with an account of a planted password, and a Spark."""
    extra = {
        "ssl_mode": "disabled",
        "get_server_public_key": True,
        "hash_secret": HASH_SECRET,
    }
    address = {"host": server.host, "port": server.port, "extra": extra}
    binlog = {"conn_type": "binlog", "login": USER, "password": PASSWORD, **address}
    monkeypatch.setenv("AIRFLOW_CONN_READ_ON_SPARK", json.dumps(binlog))
    spark = json.dumps({"conn_type": "spark", "host": master})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", spark)


def create_account(database: Database) -> None:
    database.execute(
        f"DROP USER IF EXISTS '{USER}'@'%'",
        f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES, SELECT ON *.* TO '{USER}'@'%'",
    )


def nothing_is_left_on(database: Database) -> bool:
    """Whether the account has no connection any more; a server notices the end of one late."""
    statement = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s"
    for _ in range(100):
        if database.query(statement, USER) == [(0,)]:
            return True
        sleep(0.1)
    return False


@pytest.fixture
def create_source(
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str], Database]:
    """Make a database on a kind of server, which Airflow's connections lead to."""

    def create(kind: str) -> Database:
        database = create_database(request.getfixturevalue(kind))
        create_account(database)
        connect_airflow(monkeypatch, database.server, "local[2]")
        return database

    return create


@pytest.fixture
def with_history(create_source: Callable[[str], Database]) -> Iterator[Callable[[str], Range]]:
    """Make a history over several files on a kind of server, of which the last one is ended."""
    databases: list[Database] = []

    def create(kind: str) -> Range:
        database = create_source(kind)
        flush_log(database.server)
        start = end_of(database.server)
        run_history(database)
        databases.append(database)
        happened = Range(database, start, end_of(database.server))
        flush_log(database.server)
        return happened

    yield create
    for each in databases:
        # Its locks would keep the database from being dropped.
        each.execute("XA ROLLBACK 'in doubt'")


@pytest.fixture
def spark_here(spark_environment: SparkEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Spark that all tests share run what would be submitted."""
    context = shared_session(spark_environment).sparkContext

    def submit(self: SparkSubmitHook, path: str) -> None:
        assert path == application.__file__
        if application.main(self._application_args):
            raise AirflowException("it failed")

    monkeypatch.setattr(application, "_start_spark", lambda _: context)
    monkeypatch.setattr(SparkSubmitHook, "submit", submit)


# ------------------------------------------------------------------- snapshots


@pytest.fixture
def lake(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A folder on S3, which a connection of Airflow's leads to, and nothing else."""
    found = Lake.on_s3("delta", s3_server)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_S3", found.connections["AIRFLOW_CONN_LAKE_S3"])
    return found


def test_executors_stage_what_a_worker_stages_and_no_secret(
    create_source: Callable[[str], Database],
    spark_variables: SparkEnvironment,
    lake: Lake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database, s3_server = create_source("mysql97"), lake.s3
    assert s3_server is not None
    fill(database)
    (tmp_path / "events").mkdir()
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{tmp_path}/events"}
    folders = {"spark.local.dir": f"{tmp_path}/local", "spark.sql.warehouse.dir": f"{tmp_path}/w"}
    conf = {**spark_variables.conf, **events, **folders}
    del conf["spark.jars"]
    shared: dict[str, Any] = {"source": SHOP, "chunk_bytes": CHUNK_BYTES}
    shared |= {"table": f"{database.name}.numbers", "staging_path": lake.staging}
    shared["options"] = {shared["table"]: {"hash_columns": ["text"], "exclude_columns": ["n"]}}
    secrets = PASSWORD, HASH_SECRET, s3_server.secret_key

    operator = BinlogSnapshotOperator(
        task_id="a", engine="spark", parallelism=2, spark={"conf": conf}, **shared
    )
    with watched_processes(*secrets) as shown:
        taken = operator.execute(a_context("on Spark"))
    expected = BinlogSnapshotOperator(task_id="b", **shared).execute(a_context("on a worker"))

    assert (taken["rows"], taken["chunks"]) == (expected["rows"], expected["chunks"])
    assert taken["chunks"] > 2
    store = open_store(
        f"{lake.root}/staging",
        key=s3_server.access_key,
        secret=s3_server.secret_key,
        endpoint_url=s3_server.endpoint,
    )
    on_spark, rows = read_snapshot(store, taken)
    assert (on_spark, rows) == read_snapshot(store, expected)
    columns = [field.name for field in on_spark.schema.fields]
    assert columns == ["id", "text"]
    hashed = {row["id"]: row["text"] for part in rows for row in part.to_pylist()}
    protected = Protected(("n",), ("text",), HASH_SECRET)
    assert hashed == {number: protected.hash(f"row {number}") for number in range(400)}
    assert nothing_is_left_on(database)
    assert any((tmp_path / "events").iterdir())
    printed = capsys.readouterr().out
    assert f"{database.name}.numbers: chunk 0: " in printed
    assert shown == []
    for secret in secrets:
        assert secret not in printed
    assert files_with(tmp_path, *secrets) == []
    assert files_with(lake.files, *secrets) == []


def read_snapshot(store: ObjectStore, taken: dict[str, Any]) -> Any:
    """Return the manifest and the rows of a snapshot, without the times and the names of files."""
    manifest = SnapshotManifest.decode(store.read(taken["manifest"].partition("/staging/")[2]))
    tables = [table.drop_columns([COMMIT_TS]) for table in read_parts(store, manifest.parts)]
    parts = tuple(
        replace(part, path="part", sha256="", bytes=0, first_commit=0, last_commit=0)
        for part in manifest.parts
    )
    return replace(manifest, id="", parts=parts, created_at="", created_by=""), tables


@pytest.mark.usefixtures("spark_here")
def test_a_task_fails_as_its_chunk_does_and_a_retry_reads_what_is_missing(
    create_source: Callable[[str], Database], tmp_path: Path
) -> None:
    database = create_source("mysql97")
    fill(database)
    database.execute(
        "CREATE TABLE days (id INT PRIMARY KEY, day DATE)",
        "SET SESSION sql_mode = ''",
        "INSERT INTO days VALUES (1, '0000-00-00')",
    )
    shared: dict[str, Any] = {"task_id": "a", "chunk_bytes": CHUNK_BYTES, "engine": "spark"}
    shared["parallelism"] = 2
    days: dict[str, Any] = {"source": replace(SHOP, zero_dates="fail"), **shared}
    days |= {"table": f"{database.name}.days", "staging_path": f"file://{tmp_path}/days"}

    with pytest.raises(AirflowFailException, match=r"UnsupportedError: .*day"):
        BinlogSnapshotOperator(**days).execute(a_context())

    # A chunk is recorded once its task has read the next one: each task reads four.
    shared["chunk_bytes"] //= 2
    numbers = {"source": SHOP, "table": f"{database.name}.numbers", **shared}
    numbers["staging_path"] = f"file://{tmp_path}"
    slowly = BinlogSnapshotOperator(max_rows_per_second=100, **numbers)
    records = tmp_path / "shop" / "snapshots"

    def is_half_read() -> bool:
        open_ones = "SELECT COUNT(*) FROM information_schema.innodb_trx"
        if not any(records.glob("*/chunk-*.json")):
            return False
        # InnoDB answers from a cache until nobody has asked for 0.1 seconds.
        time.sleep(0.15)
        return bool(database.query(open_ones) != [(0,)])

    with (
        killed_workers(when=is_half_read) as killed,
        pytest.raises(SparkJobError, match="an executor was lost") as raised,
    ):
        slowly.execute(a_context())
    assert killed
    assert raised.value.retryable
    before = {each: each.read_bytes() for each in records.glob("*/chunk-*.json")}
    taken = BinlogSnapshotOperator(**numbers).execute(a_context())

    assert 0 < len(before) < taken["chunks"]
    assert {each: each.read_bytes() for each in before} == before
    store = open_store(f"file://{tmp_path}")
    manifest = SnapshotManifest.decode(store.read(taken["manifest"].partition(f"{tmp_path}/")[2]))
    ids = [row["id"] for part in read_parts(store, manifest.parts) for row in part.to_pylist()]
    assert ids == list(range(400))
    assert nothing_is_left_on(database)


@contextmanager
def killed_workers(*, when: Callable[[], bool]) -> Iterator[list[int]]:
    """Kill the Python workers of this process's Spark once something is so."""
    killed: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            if when():
                killed.extend(python_workers())
                for each in killed:
                    os.kill(each, signal.SIGKILL)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def python_workers() -> list[int]:
    """Return what the daemon of PySpark has forked: descendants of this process alone."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                daemons.add(number)
    return [each for each in daemons if parents[each] in daemons and is_ours(each, parents)]


def is_ours(number: int, parents: dict[int, int]) -> bool:
    while number > 1 and number != os.getpid():
        number = parents.get(number, 0)
    return number == os.getpid()


# ------------------------------------------------------------------- backlogs


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("mysql97", "server"),
        ("mariadb1011", "files"),
        pytest.param("mysql97", "files", marks=pytest.mark.slow),
        pytest.param("mariadb1011", "server", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("spark_here")
def test_sub_ranges_on_executors_are_those_of_workers_byte_for_byte(
    kind: str, reads: str, with_history: Callable[[str], Range], tmp_path: Path
) -> None:
    happened = with_history(kind)
    server = happened.server
    source, log = SHOP, live(server)
    if reads == "files":
        archive(server, logs_of(server, happened.start), tmp_path / "archive")
        source = replace(SHOP, files=f"file://{tmp_path}/archive/")
    hashed = ColumnOptions(f"{happened.database.name}.t", exclude=("b",), hash=("a",))
    columns = ColumnRules((hashed,), HashSecret(HASH_SECRET))

    def stage(engine: str) -> tuple[ObjectStore, BacklogPlan]:
        store = open_store(f"file://{tmp_path}/{engine}")
        planned = plan(
            happened, log, store, read_server_tables=tables_reader(server), columns=columns
        )
        numbers = range(len(planned.sub_ranges))
        ranges = [{"plan": planned.id, "number": number} for number in numbers]
        shared: dict[str, Any] = {"task_id": "a", "source": source}
        shared["staging_path"] = f"file://{tmp_path}/{engine}"
        if engine == "spark":
            operator = BinlogSubRangeOperator(
                sub_range=ranges, engine="spark", parallelism=3, **shared
            )
            done: Any = operator.execute(a_context())
        else:
            done = [
                BinlogSubRangeOperator(sub_range=each, **shared).execute(a_context())
                for each in ranges
            ]
        assert [each["number"] for each in done] == list(range(len(ranges)))
        assert sum(each["rows"] for each in done) > 0
        return store, planned

    (by_workers, planned), (on_spark, same) = stage("worker"), stage("spark")

    assert planned.id == same.id
    assert len(planned.sub_ranges) > 3
    expected = commit_backlog(planned, by_workers, created_by="a test")
    found = commit_backlog(planned, on_spark, created_by="a test")
    assert replace(found, created_at="") == replace(expected, created_at="")
    paths = {part.path for table in found.tables for part in table.parts}
    assert len(paths) > 4
    for path in paths:
        assert on_spark.read(f"shop/{path}") == by_workers.read(f"shop/{path}")
    for engine in ("worker", "spark"):
        planted = [HASH_SECRET, "two again", "between"]
        assert find_planted(tmp_path / engine, planted) == []
    assert nothing_is_left_on(happened.database)
