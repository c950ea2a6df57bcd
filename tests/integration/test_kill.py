"""A task that dies anywhere, or races with another, loses nothing and doubles nothing."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.transport.server import queries
from tests.services.progress import ServiceError
from tests.support import killed_merge
from tests.support.extract_worker import Extract
from tests.support.lake import Lake, aws_connection
from tests.support.shop_dag import DAG_ID
from tests.support.staged import apply_all
from tests.support.stores import open_store
from tests.support.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.fixtures.airflow import Shop
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.s3 import S3Server


# A dozen rows to a part.
LIMITS = Limits(part_bytes_max=200, pending_bytes_max=500)

_batches = count(1)


@dataclass(frozen=True)
class Stage:
    """One source of a test: its database, its staging area, and its tasks."""

    worker: Worker
    database: Database
    store: ObjectStore
    task: Extract

    @property
    def source(self) -> str:
        return str(self.task.arguments["source"]["name"])

    def named(self, source: str) -> Stage:
        """Return another source of the same database, of which nothing is staged yet."""
        arguments = {**self.task.arguments, "source": {"name": source}}
        variables = self.task.variables.with_name(source)
        return replace(self, task=replace(self.task, arguments=arguments, variables=variables))

    def until(self, stop: str, **changed: Any) -> Extract:
        """Return a task that stages up to a position."""
        arguments = {**self.task.arguments, "stop": stop}
        return replace(self.task, arguments=arguments, **changed)

    def run(self, task: Extract | None = None) -> tuple[str, Any]:
        answer: tuple[str, Any] = self.worker.call("run", task or self.task)
        return answer

    def save(self, staged: dict[str, Any]) -> None:
        self.worker.call("save", self.task.variables, staged)

    def log_end(self) -> str:
        with closing(self.database.connect()) as connection:
            return str(queries.log_end(connection)).split(" ")[0]

    def change(self) -> None:
        """Insert, update, delete and move some rows, in several transactions and two tables."""
        first = 100 * next(_batches)
        rows = [f"({first + index}, 'new', {index}.5)" for index in range(30)]
        self.database.execute(
            f"INSERT INTO orders VALUES {', '.join(rows[:15])}",
            f"INSERT INTO orders VALUES {', '.join(rows[15:])}",
            f"INSERT INTO log VALUES ({first}, 'one'), ({first + 1}, 'two')",
            "BEGIN",
            f"UPDATE orders SET note = 'changed' WHERE id BETWEEN {first} AND {first + 9}",
            f"UPDATE orders SET id = id + 50 WHERE id BETWEEN {first + 5} AND {first + 9}",
            f"UPDATE log SET text = 'changed' WHERE id = {first}",
            f"DELETE FROM orders WHERE id > {first + 20} AND id < {first + 25}",
            "COMMIT",
            f"INSERT INTO orders VALUES ({first + 5}, 'again', NULL)",
        )

    def check(self) -> list[Manifest]:
        """Compare what is staged with the tables; return the manifests."""
        manifests, tables = apply_all(self.store, self.source)
        assert [each.sequence for each in manifests] == list(range(1, len(manifests) + 1))
        for before, after in pairwise(manifests):
            assert before.stop == after.start
        for table, staged in tables.items():
            selected = self.database.query(f"SELECT * FROM {table} ORDER BY id")
            assert [tuple(row.values()) for _, row in sorted(staged.items())] == selected
        assert set(tables) == {"orders", "log"}
        return manifests


@pytest.fixture(params=[("mysql97", "file"), ("mariadb1011", "s3")], ids="-".join)
def stage(
    request: pytest.FixtureRequest,
    worker: Worker,
    create_database: Callable[..., Database],
    tmp_path: Path,
) -> Stage:
    """A source of two tables, with some changes already."""
    kind, store = request.param
    database = create_database(request.getfixturevalue(kind))
    server = database.server
    binlog = {
        "conn_type": "binlog",
        "host": server.host,
        "port": server.port,
        "login": "root",
        # Each of many short tasks would load the authorities.
        "extra": {"ssl_mode": "disabled"},
    }
    environment = {"AIRFLOW_CONN_BINLOG_DEFAULT": json.dumps(binlog)}
    staging, options = f"file://{tmp_path}/staging", {}
    if store == "s3":
        s3: S3Server = request.getfixturevalue("s3_server")
        environment["AIRFLOW_CONN_LAKE_S3"] = json.dumps(aws_connection(s3))
        staging = f"s3://lake/{tmp_path.name}"
        options = {
            "key": s3.access_key,
            "secret": s3.secret_key,
            "endpoint_url": s3.endpoint,
            "skip_instance_cache": True,
        }
    arguments = {
        "staging_path": staging.replace("s3://", "s3://lake_s3@"),
        "source": {"name": "shop"},
        "tables": [f"{database.name}.*"],
        "limits": LIMITS,
    }
    task = Extract(tmp_path / "variables" / "shop", environment, arguments)
    task.variables.parent.mkdir()
    made = Stage(worker, database, open_store(staging, **options), task)
    start = made.log_end()
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20), total DECIMAL(9,2))",
        "CREATE TABLE log (id INT PRIMARY KEY, text VARCHAR(20))",
    )
    made.change()
    task = replace(task, arguments={**arguments, "start": start})
    return replace(made, task=task)


@pytest.mark.fault("killed", servers="mysql97 mariadb1011", stores="file s3")
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_extract_killed_anywhere_is_made_good(stage: Stage, everywhere: bool) -> None:
    stop = stage.log_end()
    whole = stage.named("whole")
    assert whole.run(whole.until(stop))[0] == "done"
    writes = 1 + sum(len(table.parts) for table in _tables(whole.check()))
    assert writes > 5

    # Before and after the parts and the manifest; or after each of the parts as well.
    chosen = range(writes + 1) if everywhere else (0, 1, writes - 1, writes)
    for number, kill_after in enumerate(chosen):
        each = stage.named(f"killed-{kill_after}")
        assert each.run(each.until(stop, kill_after=kill_after)) == ("killed", signal.SIGKILL)
        # Time passes before the next try: the log grows.
        grows = bool(number % 2)
        if grows:
            stage.change()

        kind, staged = each.run()

        assert kind == "done", staged
        manifests = each.check()
        assert (staged["first_sequence"], staged["last_sequence"]) == (1, len(manifests))
        assert len(manifests) == (2 if kill_after == writes and grows else 1)
        counted = [part.rows for table in _tables(manifests) for part in table.parts]
        assert staged["rows"] == sum(counted) == sum(staged["changes"].values())
        each.save(staged)
        assert each.run()[0] == "skipped"
        assert each.check() == manifests


def _tables(manifests: list[Manifest]) -> list[Any]:
    return [table for manifest in manifests for table in manifest.tables]


@pytest.mark.fault("killed", servers="mysql97 mariadb1011", stores="file s3")
def test_a_committed_range_is_not_staged_again(stage: Stage) -> None:
    """Killed after the manifest, and nothing has happened since."""
    kind, staged = stage.run()
    assert kind == "done"
    before = stage.check()

    assert stage.run() == ("done", staged)
    assert stage.check() == before


@pytest.mark.fault("two-runs", servers="mysql97 mariadb1011", stores="file s3")
def test_of_two_extracts_with_different_stops_one_commits(stage: Stage) -> None:
    middle = stage.log_end()
    stage.change()
    stops = middle, stage.log_end()
    for number in range(2):
        each = stage.named(f"race-{number}")
        # Once, so that both find a checkpoint.
        assert each.run(each.until(middle, kill_after=0))[0] == "killed"

        tasks = [each.until(stop) for stop in stops]
        answers: list[tuple[str, Any]] = each.worker.call("race", tasks)

        assert [kind for kind, _ in answers] == ["done", "done"], answers
        manifests = each.check()
        assert len(manifests) <= len(stops)
        for _, staged in answers:
            assert staged["stop"] == manifests[staged["last_sequence"] - 1].stop.to_json()
        assert each.run(each.until(stops[-1]))[1]["last_sequence"] == len(manifests)
        each.save(max((staged for _, staged in answers), key=itemgetter("last_sequence")))
        assert each.run(each.until(stops[-1]))[0] == "skipped"


@pytest.mark.slow
@pytest.mark.fault(
    "airflow-killed", servers="mysql97 mariadb1011", lakes="delta iceberg", stores="file"
)
@pytest.mark.spark
@pytest.mark.timeout(900)  # Each of its Spark jobs is a process of its own.
@pytest.mark.parametrize(("kind", "format_"), [("mysql97", "delta"), ("mariadb1011", "iceberg")])
def test_a_dag_killed_in_extract_and_merge(
    *,
    kind: str,
    format_: str,
    create_shop: Callable[[str, str], Shop],
    spark_environment: SparkEnvironment,
) -> None:
    database, lake, airflow = create_shop(kind, format_)
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))",
        # What is appended would be there twice.
        "CREATE TABLE log (text VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO log VALUES ('one'), ('one'), (NULL)",
    )

    airflow.call("die_after_manifest")
    with pytest.raises(ServiceError):
        airflow.run_dag(DAG_ID)
    airflow.stop()

    assert airflow.checkpoint()["sequence"] == 0
    assert len(staged_manifests(lake)) == 1
    database.execute(
        "UPDATE orders SET id = 4 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "INSERT INTO log VALUES ('two')",
    )

    airflow.call("merge_by", str(Path(killed_merge.__file__)))
    states = airflow.run_dag(DAG_ID)
    airflow.stop()

    assert (states["stage"], states["merge"]) == ("success", "failed")
    assert airflow.checkpoint()["sequence"] == 0
    assert len(staged_manifests(lake)) == 2
    # The table was committed, so that there is something to double.
    assert lake.differences(spark_environment, database) == []
    database.execute(
        "UPDATE orders SET note = 'last' WHERE id = 4", "INSERT INTO log VALUES ('three')"
    )

    states = airflow.run_dag(DAG_ID)

    assert set(states.values()) == {"success"}, states
    assert lake.differences(spark_environment, database) == []
    staged = airflow.returned("stage")
    assert (staged["first_sequence"], staged["last_sequence"]) == (1, 3)
    assert staged["rows"] == 3 + 3 + 2 + 1 + 1 + 1 + 1
    assert airflow.checkpoint()["sequence"] == 3
    assert len(staged_manifests(lake)) == 3
    merged = {each["table"]: each for each in airflow.returned("merge")["tables"]}
    for table in ("orders", "log"):
        report = merged[f"{database.name}.{table}"]
        assert (report["applied_before"], report["applied_after"]) == (
            {"sequence": 2, "statements": 0},
            {"sequence": 3, "statements": 0},
        )


def staged_manifests(lake: Lake) -> list[Path]:
    return [each for each in lake.staged_files() if each.parent.name == "manifests"]
