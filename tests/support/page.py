"""A source for the tests of the page: captured by a real DAG from a real server, in every state.

What merges would note is noted without Spark; `tests/integration/test_page_system.py` has them run.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.transport.server import queries
from tests.support.api_server import ApiServer
from tests.support.stores import open_store
from tests.support.worker import Worker
from tests.unit.status.staged import LOADING, STALE, WRITE, merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database

HOSTILE = """<img src=x onerror=alert(1)>"'&{{ 7*7 }}"""
"""A name of a table that a page must not believe."""

DAG = """
import json, os
from airflow.sdk import DAG
from airflow_provider_binlog import (
    BinlogCheckpointOperator, BinlogExtractOperator, BinlogMergeOperator,
    BinlogSnapshotPlanOperator, BinlogSource,
)

SOURCE = BinlogSource("shop", start=os.environ["SHOP_START"])
STAGING = os.environ["SHOP_STAGING"]
TABLES = [os.environ["SHOP_TABLES"]]

with DAG("shop", schedule=None, catchup=False, max_active_runs=1):
    stage = BinlogExtractOperator(
        task_id="stage", source=SOURCE, staging_path=STAGING, tables=TABLES
    )
    merge = BinlogMergeOperator(
        task_id="merge", staged=stage.output, format="delta", lake="/lake", conn_id="no_spark"
    )
    checkpoint = BinlogCheckpointOperator(task_id="checkpoint", staged=stage.output)
    plan = BinlogSnapshotPlanOperator(
        task_id="plan", source=SOURCE, staging_path=STAGING, tables=TABLES, format="delta",
        lake="/lake",
    )
    stage >> plan

# Of the same source, at an address where nothing answers; and of a store that nothing reaches.
for name, source, staging in (
    ("moved", BinlogSource("shop", start=None, conn_id="binlog_moved"), STAGING),
    ("broken", BinlogSource("broken", start=None), "s3://no_such_connection@bucket/staging"),
):
    with DAG(name, schedule=None):
        BinlogExtractOperator(
            task_id="stage", source=source, staging_path=staging, tables=TABLES
        )
"""


@dataclass
class Shop:
    """A captured database, its Airflow and the api-server."""

    database: Database
    home: Path
    staging: Path
    variables: dict[str, str]
    server: ApiServer

    def run_dags(self, *dag_ids: str, between: Callable[[], None] = lambda: None) -> None:
        """Run DAGs, whether or not they fail, and do something between two runs."""
        env = os.environ | {"AIRFLOW_HOME": str(self.home)} | self.variables
        worker = Worker("tests.support.airflow_worker", folder=self.home, name="worker", env=env)
        try:
            for number, dag_id in enumerate(dag_ids):
                if number:
                    between()
                worker.call("run_dag", dag_id)
        finally:
            worker.stop()

    def names(self, *tables: str) -> list[str]:
        """Return the names of tables as a page shows them."""
        return [f"{self.database.name}.{table}" for table in tables]

    def query(self, statement: str) -> list[Any]:
        """Query Airflow's database."""
        import sqlite3

        with closing(sqlite3.connect(self.home / "airflow.db")) as connection:
            return connection.execute(statement).fetchall()

    def note_merge(self, through: int, *, more: int = 0) -> None:
        """Note that a merge has left tables in every state."""
        states: dict[tuple[str, str], Any] = {
            (self.database.name, "orders"): None,
            (self.database.name, "items"): STALE,
            (self.database.name, "visits"): WRITE,
            (self.database.name, HOSTILE): LOADING,
        }
        states |= {("many", f"table_{number:04}"): None for number in range(more)}
        source: Any = SimpleNamespace(name="shop", store=open_store(f"file://{self.staging}"))
        merge(source, through, states)


def create_shop(database: Database, airflow_database: Path, folder: Path, **more: str) -> Shop:
    """Capture two ranges of a database, and start the api-server."""
    home, staging, dags = (folder / name for name in ("home", "staging", "dags"))
    for each in (home, staging, dags):
        each.mkdir(parents=True)
    shutil.copy(airflow_database, home)
    (dags / "shop.py").write_text(DAG)
    account, ssl = database.server.account, {"ssl_mode": "disabled"}
    connection = {
        "conn_type": "binlog",
        "host": account.host,
        "port": account.port,
        "login": account.user,
        "password": account.password,
        "extra": ssl,
    }
    with closing(database.connect()) as opened:
        start = queries.log_end(opened)
    variables = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW_CONN_BINLOG_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_BINLOG_MOVED": json.dumps({**connection, "port": 1}),
        "SHOP_START": f"{start.file}:{start.offset}",
        "SHOP_STAGING": f"file://{staging}",
        "SHOP_TABLES": f"{database.name}.*",
        **more,
    }
    # In production connections are in Airflow's database, where the api-server finds this one.
    name = "AIRFLOW_CONN_BINLOG_DEFAULT"
    server = ApiServer.start(home, {k: v for k, v in variables.items() if k != name})
    shop = Shop(database, home, staging, variables, server)
    quoted = HOSTILE.replace("`", "``")
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(99))",
        "CREATE TABLE items (id INT PRIMARY KEY)",
        "CREATE TABLE visits (id INT PRIMARY KEY)",
        f"CREATE TABLE `{quoted}` (id INT PRIMARY KEY)",
        "INSERT INTO orders VALUES (1, '<script>alert(1)</script>')",
        "INSERT INTO items VALUES (1)",
        "INSERT INTO visits VALUES (1)",
        f"INSERT INTO `{quoted}` VALUES (1)",
    )
    later = "INSERT INTO orders VALUES (2, 'two'), (3, 'three')"
    shop.run_dags("shop", "shop", between=lambda: database.execute(later))
    server.await_health()
    body = connection | {
        "connection_id": "binlog_default",
        "extra": json.dumps(connection["extra"]),
    }
    answer = server.request("POST", "/api/v2/connections", user="admin", body=body)
    assert answer.status == 201, answer.text
    return shop
