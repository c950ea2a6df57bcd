"""A whole Airflow over a database and a lake: scheduler, triggerer, api-server, and their DAGs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_server import ApiServer
from tests.support.lake import Lake
from tests.support.shop_dag import ROOT, create_shop_airflow

if TYPE_CHECKING:
    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server
    from tests.support.compare import Difference

DAG_ID = "binlog_shop"
ACCOUNT = "pipeline"
"""Of the DAGs alone at the server, without a password."""

# It does not import the DAG of the demo, which Airflow would take for one of each file.
SHOP_FILE = """
import json
import os

from airflow_provider_binlog import BinlogSource

SHOP = BinlogSource("shop", start=os.environ["BINLOG_SHOP_START"])
"""
"""What a file of DAGs over the database begins with."""

_PARSE_SECONDS = 300
_RUN_SECONDS = 1200


@dataclass(frozen=True)
class System:
    """An Airflow with scheduler, triggerer and api-server over a database and a lake."""

    airflow: Airflow
    server: ApiServer
    database: Database
    lake: Lake
    spark_environment: SparkEnvironment

    def differences(self) -> list[Difference]:
        """Compare the lake with the database; return what is not equal."""
        return self.lake.differences(self.spark_environment, self.database)

    def await_dags(self, *dag_ids: str) -> None:
        """Wait until DAGs are parsed."""
        deadline = time.monotonic() + _PARSE_SECONDS
        paths = [f"/api/v2/dags/{dag_id}" for dag_id in dag_ids]
        while any(self.server.request("GET", path, user="admin").status != 200 for path in paths):
            assert time.monotonic() < deadline
            time.sleep(0.5)

    def trigger(self, ends: str = "success") -> None:
        """Trigger a run, as the UI does, and wait for its end."""
        self.await_end(self.begin(DAG_ID), ends)

    def begin(self, dag_id: str, **conf: list[str]) -> str:
        """Trigger a run of a DAG, and return its id."""
        path, body = f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf}
        answer = self.server.request("POST", path, user="admin", body=body)
        assert answer.status == 200, answer.text
        return str(answer.json["dag_run_id"])

    def await_end(self, run_id: str, ends: str = "success", dag_id: str = DAG_ID) -> None:
        """Wait until a run has ended in a state."""
        deadline = time.monotonic() + _RUN_SECONDS
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        while True:
            state = self.server.request("GET", path, user="admin").json["state"]
            if state in ("success", "failed"):
                assert state == ends, self.states(run_id)
                return
            assert time.monotonic() < deadline, self.states(run_id)
            time.sleep(1)

    def await_task(self, task_id: str, state: str, count: int | None = None) -> None:
        """Wait until so many tasks of an id have a state; by default one more than now."""
        self.airflow.await_task(task_id, state, seconds=_RUN_SECONDS, count=count)

    def states(self, run_id: str) -> Any:
        statement = "SELECT task_id, state FROM task_instance WHERE run_id = ?"
        return self.airflow.query(statement, run_id)


@pytest.fixture
def database(mysql97: Server, create_database: Callable[[Server], Database]) -> Database:
    database = create_database(mysql97)
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40))",
        "CREATE TABLE visits (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
        "INSERT INTO orders VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO visits VALUES (1), (2), (3)",
        f"CREATE USER IF NOT EXISTS {ACCOUNT}",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES, SELECT ON *.* TO {ACCOUNT}",
    )
    return database


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.in_folder("delta", tmp_path)


@pytest.fixture
def system(
    request: pytest.FixtureRequest,
    database: Database,
    lake: Lake,
    create_airflow: Callable[..., Airflow],
    spark_environment: SparkEnvironment,
) -> Iterator[System]:
    """A system with the DAG of the demo, or with other DAGs: the texts of their files."""
    airflow = create_shop_airflow(create_airflow, database, lake, spark_environment, login=ACCOUNT)
    if files := getattr(request, "param", None):
        folder = airflow.home / "dags"
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        own = {"AIRFLOW__CORE__DAGS_FOLDER": str(folder), "PYTHONPATH": str(ROOT)}
        airflow.variables |= own
    variables = airflow.variables | {
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }
    server = ApiServer.start(airflow.home, variables, "standalone")
    try:
        server.await_health("scheduler", "dag_processor", "triggerer")
        system = System(airflow, server, database, lake, spark_environment)
        system.await_dags(DAG_ID, *(Path(name).stem for name in files or ()))
        yield system
    finally:
        server.stop()
