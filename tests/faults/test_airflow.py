"""Runs of old intervals, and deleted runs and XComs: the checkpoint alone says what is next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.fixtures.airflow import Shop
from tests.fixtures.spark import SparkEnvironment
from tests.support.shop_dag import DAG_ID

pytestmark = pytest.mark.filterwarnings(
    # Of the Spark session that reads the lake.
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


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
