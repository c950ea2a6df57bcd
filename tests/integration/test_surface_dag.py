"""The DAG of the demo, run by Airflow from the sensor to the checkpoint, three times."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from airflow_provider_binlog.spark.session_conf import delta_conf
from tests.fixtures import mysql

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment

ROOT = Path(__file__).parents[2]
DAG_ID = "binlog_shop"

RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag
run = DagBag(sys.argv[1]).dags[sys.argv[2]].test()
sys.exit(run.state != "success")
"""


@dataclass(frozen=True)
class Airflow:
    """An Airflow on SQLite in a folder of its own."""

    home: Path
    environment: dict[str, str]

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run Python under it, and show what it printed if it fails."""
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | self.environment,
            cwd=self.home,
        )
        assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]

    def run_dag(self) -> dict[str, str]:
        """Run the DAG once; return the state of each task."""
        self.run(RUN, ROOT / "dags", DAG_ID)
        return dict(
            self.query(
                "SELECT task_id, state FROM task_instance WHERE run_id ="
                " (SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1)"
            )
        )

    def returned(self, task_id: str) -> Any:
        """Return what a task of the last run returned."""
        ((value,),) = self.query(
            "SELECT value FROM xcom WHERE key = 'return_value' AND task_id = ?"
            " ORDER BY dag_run_id DESC LIMIT 1",
            task_id,
        )
        return json.loads(value)

    def checkpoint(self) -> Any:
        """Return the source's checkpoint."""
        ((value,),) = self.query("SELECT val FROM variable WHERE key = 'binlog_checkpoint_shop'")
        return json.loads(value)

    def query(self, statement: str, *arguments: str) -> list[Any]:
        """Ask Airflow's database."""
        with sqlite3.connect(self.home / "airflow.db") as connection:
            return connection.execute(statement, arguments).fetchall()


@pytest.fixture
def airflow(database: Database, spark_environment: SparkEnvironment, tmp_path: Path) -> Airflow:
    """An Airflow whose DAG captures the test's database into Delta tables in `tmp_path`."""
    server = database.server
    binlog = {"conn_type": "binlog", "host": server.host, "port": server.port, "login": "root"}
    home = tmp_path / "airflow"
    home.mkdir()
    environment = {
        **spark_environment.variables,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW_CONN_BINLOG_DEFAULT": json.dumps(binlog),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        # The log of a server that tests share holds what no capture may pass over.
        "BINLOG_SHOP_START": "{}:{}".format(*mysql.query(server, "SHOW BINARY LOG STATUS")[0]),
        "BINLOG_SHOP_TABLES": f"{database.name}.*",
        "BINLOG_SHOP_STAGING": f"file://{tmp_path}/staging",
        "BINLOG_SHOP_LAKE": f"file://{tmp_path}/lake",
        "BINLOG_SHOP_SPARK": json.dumps({"conf": spark_environment.conf | delta_conf()}),
    }
    made = Airflow(home, environment)
    made.run("from airflow.utils.db import initdb; initdb()")
    return made


@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_three_runs(airflow: Airflow, database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2), note VARCHAR(40))",
        "INSERT INTO orders VALUES (1, 1.50, 'é漢😀'), (2, 20, NULL), (3, -3, '')",
    )

    states = airflow.run_dag()

    assert set(states.values()) == {"success"}
    assert read_lake(tmp_path, database, "orders") == select(database, "orders")
    staged = airflow.returned("stage")
    assert staged["changes"] == {"insert": 3}
    assert staged["tables"] == {f"{database.name}.orders": 3}
    (merged,) = airflow.returned("merge")["tables"]
    assert merged["rows"]["inserted"] == 3
    assert airflow.checkpoint()["position"]["offset"] == staged["stop"]["offset"]

    database.execute(
        "BEGIN",
        "UPDATE orders SET id = 4 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "COMMIT",
        "BEGIN",
        "INSERT INTO orders VALUES (9, 9, 'rolled back')",
        "ROLLBACK",
        "CREATE TABLE visits (id BIGINT UNSIGNED PRIMARY KEY)",
        "INSERT INTO visits VALUES (18446744073709551615)",
    )

    states = airflow.run_dag()

    assert set(states.values()) == {"success"}
    for table in ("orders", "visits"):
        assert read_lake(tmp_path, database, table) == select(database, table)
    assert airflow.checkpoint()["sequence"] == airflow.returned("stage")["last_sequence"]

    before = airflow.checkpoint()
    states = airflow.run_dag()

    assert set(states.values()) == {"skipped"}
    assert airflow.checkpoint() == before


def select(database: Database, table: str) -> list[tuple[Any, ...]]:
    return sorted(database.query(f"SELECT * FROM {table}"))


def read_lake(folder: Path, database: Database, table: str) -> list[tuple[Any, ...]]:
    rows = DeltaTable(f"{folder}/lake/{database.name}/{table}").to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)
