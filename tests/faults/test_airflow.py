"""Runs of old intervals, and runs that somebody deleted: the checkpoint alone says what is next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

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
