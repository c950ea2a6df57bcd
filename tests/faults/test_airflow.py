"""Runs of old intervals, deleted runs and XComs, and a task whose Spark job still runs."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

import pytest

from tests.faults.tasks import wait_until
from tests.fixtures.airflow import Shop
from tests.fixtures.spark import SparkEnvironment
from tests.support.lake import Lake
from tests.support.shop_dag import DAG_ID


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)  # Each of its Spark jobs is a process of its own.
@pytest.mark.fault("backfill", servers="mysql97 mariadb1011", lakes="delta iceberg", stores="file")
def test_a_backfill_and_a_deleted_run(
    *,
    kind: str,
    format_: str,
    create_shop: Callable[[str, str], Shop],
    spark_environment: SparkEnvironment,
) -> None:
    database, lake, airflow = create_shop(kind, format_)
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    )
    for number, year in enumerate((None, 2020, 2019), start=1):
        if number == 3:
            airflow.stop()
            with sqlite3.connect(airflow.home / "airflow.db") as connection:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("DELETE FROM dag_run")
        states = airflow.run_dag(DAG_ID, year)

        assert set(states.values()) == {"success"}, states
        assert airflow.checkpoint()["sequence"] == number
        assert lake.differences(spark_environment, database) == []
        database.execute(
            f"UPDATE orders SET note = 'run {number}' WHERE id = {number}",
            f"INSERT INTO orders VALUES ({number + 10}, 'new')",
        )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)  # Each of its Spark jobs is a process of its own.
@pytest.mark.fault("xcom-lost", servers="mysql97 mariadb1011", lakes="delta iceberg", stores="file")
def test_an_xcom_that_is_lost_before_the_merge(
    *,
    kind: str,
    format_: str,
    create_shop: Callable[[str, str], Shop],
    spark_environment: SparkEnvironment,
) -> None:
    database, lake, airflow = create_shop(kind, format_)
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    )
    assert set(airflow.run_dag(DAG_ID).values()) == {"success"}
    database.execute("UPDATE orders SET note = 'changed' WHERE id = 2")
    with closing(sqlite3.connect(airflow.home / "airflow.db")) as connection, connection:
        connection.execute(
            "CREATE TRIGGER lost AFTER INSERT ON xcom WHEN NEW.task_id LIKE '%stage'"
            " BEGIN DELETE FROM xcom WHERE task_id = NEW.task_id; END"
        )

    states = airflow.run_dag(DAG_ID)

    assert (states["stage"], states["merge"]) == ("success", "failed"), states
    printed = "".join(path.read_text() for path in airflow.home.rglob("*.log") if path.is_file())
    assert "what the extract task returned is not in its XCom: clear that task" in printed
    assert airflow.checkpoint()["sequence"] == 1
    with closing(sqlite3.connect(airflow.home / "airflow.db")) as connection, connection:
        connection.execute("DROP TRIGGER lost")
    states = airflow.run_dag(DAG_ID)
    assert set(states.values()) == {"success"}, states
    assert lake.differences(spark_environment, database) == []


SUBMIT = """#!/bin/sh
# Whoever ends this program does not end the first job, as that of a driver on a cluster.
if mv {folder}/armed {folder}/first 2>/dev/null; then
    # It has said who it is before it runs.
    run='echo $$ > {folder}/pid.new && mv {folder}/pid.new {folder}/pid && exec {submit} "$@"'
    setsid sh -c "$run" spark-submit "$@" > {folder}/first.log 2>&1 &
    wait
    exit
fi
touch {folder}/next
exec {submit} "$@"
"""


class RunningJob(threading.Thread):
    """Stops the first job in the middle of its merge, and lets it continue beside the next one.

    At the end of the context the job is killed, wherever it is.
    """

    def __init__(self, folder: Path, lake: Lake) -> None:
        super().__init__(daemon=True)
        self._folder, self._lake = folder, lake
        self._before = self._commits()
        self._over = threading.Event()
        self.stopped = self.continued = self.ended = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        (self._folder / "armed").unlink(missing_ok=True)
        if (self._folder / "first").exists() and not self.ended:
            wait_until((self._folder / "pid").exists)
            with suppress(ProcessLookupError):
                os.killpg(int((self._folder / "pid").read_text()), signal.SIGKILL)

    def run(self) -> None:
        """Stop and continue it."""
        self._await((self._folder / "pid").exists)
        pid = int((self._folder / "pid").read_text())
        self._await(lambda: self._commits() > self._before)
        os.killpg(pid, signal.SIGSTOP)
        self.stopped = True
        self._await((self._folder / "next").exists)
        os.killpg(pid, signal.SIGCONT)
        self.continued = True
        self._await(lambda: not Path(f"/proc/{pid}").exists())
        self.ended = True

    def _commits(self) -> int:
        name = "*.metadata.json" if self._lake.format == "iceberg" else "_delta_log/*.json"
        return sum(1 for _ in (self._lake.files / self._lake.folder).rglob(name))

    def _await(self, done: Callable[[], bool]) -> None:
        while not done():
            if self._over.wait(0.01):
                sys.exit()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)  # Each of its Spark jobs is a process of its own.
@pytest.mark.fault(
    "merge-still-runs", servers="mysql97 mariadb1011", lakes="delta iceberg", stores="file"
)
def test_a_timeout_whose_spark_job_still_runs(
    *,
    kind: str,
    format_: str,
    create_shop: Callable[[str, str], Shop],
    spark_environment: SparkEnvironment,
    tmp_path: Path,
) -> None:
    database, lake, airflow = create_shop(kind, format_)
    submit = tmp_path / "spark-submit"
    submit.write_text(SUBMIT.format(folder=tmp_path, submit=spark_environment.submit))
    submit.chmod(0o755)
    merge = {"spark_binary": str(submit), "retries": 3, "retry_delay": 1}
    spark = json.loads(airflow.variables["BINLOG_SHOP_SPARK"])
    airflow.variables["BINLOG_SHOP_SPARK"] = json.dumps(spark | merge)
    database.execute(
        *(f"CREATE TABLE t{number} (id INT PRIMARY KEY, note VARCHAR(20))" for number in range(3)),
        *(f"INSERT INTO t{number} VALUES (1, 'one'), (2, 'two')" for number in range(3)),
        # What is appended would be there twice.
        "CREATE TABLE log (text VARCHAR(20))",
        "INSERT INTO log VALUES ('one'), (NULL)",
    )
    begun = time.monotonic()
    assert set(airflow.run_dag(DAG_ID).values()) == {"success"}
    usual = time.monotonic() - begun
    airflow.stop()
    airflow.variables["AIRFLOW__CORE__DEFAULT_TASK_EXECUTION_TIMEOUT"] = str(int(20 + 3 * usual))
    database.execute(
        *(f"UPDATE t{number} SET id = id + 10" for number in range(3)),
        *(f"DELETE FROM t{number} WHERE id = 12" for number in range(3)),
        "INSERT INTO log VALUES ('two'), ('three')",
    )
    (tmp_path / "next").unlink()
    (tmp_path / "armed").touch()

    with RunningJob(tmp_path, lake) as job:
        states = airflow.run_dag(DAG_ID)
        job.join(timeout=usual * 5)

    assert set(states.values()) == {"success"}, states
    assert job.stopped
    assert job.continued
    assert job.ended
    tries = airflow.query("SELECT try_number FROM task_instance WHERE task_id = 'merge'")
    assert max(tries) > (1,)
    assert lake.differences(spark_environment, database) == []
    database.execute("UPDATE t0 SET note = 'last'", "INSERT INTO log VALUES ('four')")
    states = airflow.run_dag(DAG_ID)
    assert set(states.values()) == {"success"}, states
    assert lake.differences(spark_environment, database) == []
