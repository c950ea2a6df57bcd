"""The page over a whole Airflow: a table is broken, the page shows it, and its button mends it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.test_page import browser
from tests.support.api_server import ApiServer
from tests.support.lake import Lake
from tests.support.shop_dag import create_shop_airflow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server

__all__ = ["browser"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings(
        # Of the Spark session that reads the lake.
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

_DAG = "binlog_shop"
_RUN_SECONDS = 1200
_PAGE = f"/plugin/binlog/binlog/source?dag_id={_DAG}&name=shop"


class System:
    """An Airflow with scheduler, triggerer and api-server over a database and a lake."""

    def __init__(self, airflow: Airflow, server: ApiServer) -> None:
        self.airflow, self.server = airflow, server

    def trigger(self) -> None:
        """Trigger a run, as the UI does, and wait for its end."""
        path = f"/api/v2/dags/{_DAG}/dagRuns"
        answer = self.server.request("POST", path, user="admin", body={"logical_date": None})
        assert answer.status == 200, answer.text
        self.await_end(answer.json["dag_run_id"])

    def await_end(self, run_id: str) -> None:
        """Wait until a run has succeeded."""
        deadline = time.monotonic() + _RUN_SECONDS
        path = f"/api/v2/dags/{_DAG}/dagRuns/{run_id}"
        while True:
            state = self.server.request("GET", path, user="admin").json["state"]
            if state in ("success", "failed"):
                assert state == "success", self.states(run_id)
                return
            assert time.monotonic() < deadline, self.states(run_id)
            time.sleep(1)

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
    )
    return database


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.in_folder("delta", tmp_path)


@pytest.fixture
def system(
    database: Database,
    lake: Lake,
    create_airflow: Callable[..., Airflow],
    spark_environment: SparkEnvironment,
) -> Iterator[System]:
    airflow = create_shop_airflow(create_airflow, database, lake, spark_environment)
    variables = airflow.variables | {
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }
    server = ApiServer.start(airflow.home, variables, "standalone")
    try:
        server.await_health("scheduler", "dag_processor", "triggerer")
        deadline = time.monotonic() + 300
        while server.request("GET", f"/api/v2/dags/{_DAG}", user="admin").status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield System(airflow, server)
    finally:
        server.stop()


def open_page(system: System, browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    cookie: Any = {
        "name": "_token",
        "value": system.server.token("user"),
        "url": system.server.url,
    }
    page.context.add_cookies([cookie])
    page.goto(f"{system.server.url}{_PAGE}")
    return page


def test_the_page_shows_a_broken_table_and_its_button_mends_it(
    system: System,
    database: Database,
    lake: Lake,
    browser: Browser,
    spark_environment: SparkEnvironment,
) -> None:
    system.trigger()
    assert lake.differences(spark_environment, database) == []
    page = open_page(system, browser)
    frame = page.frame_locator("iframe")
    states = frame.locator("tbody .state")
    states.filter(has_text="live").nth(1).wait_for()

    # No log says which rows this removes.
    database.execute(
        "ALTER TABLE visits TRUNCATE PARTITION p1", "INSERT INTO orders VALUES (3, 'three')"
    )
    system.trigger()

    # The page refreshes itself.
    row = frame.get_by_role("row").filter(has=frame.get_by_text("stale", exact=True))
    row.filter(has_text=f"{database.name}.visits").wait_for(timeout=60_000)
    assert "TRUNCATE PARTITION" in row.inner_text()
    assert lake.differences(spark_environment, database) != []
    row.get_by_role("link", name="Reload…").click()
    frame.get_by_role("button", name="Reload").click()
    run = frame.locator(".notice.good").get_by_role("link").inner_text()
    system.await_end(run)

    states.filter(has_text="stale").wait_for(state="detached", timeout=60_000)
    assert lake.differences(spark_environment, database) == []
    assert system.airflow.query("SELECT owner FROM log WHERE event = 'trigger_dag_run'")[-1] == (
        "user",
    )

    # A live table whose lake lacks what no log has: nothing but a person finds it.
    database.execute("SET sql_log_bin = 0", "UPDATE orders SET note = 'spoiled' WHERE id = 1")
    assert len(lake.differences(spark_environment, database)) == 1
    page.reload()
    frame.get_by_role("checkbox", name=f"Choose {database.name}.orders").check()
    frame.get_by_role("button", name="Reload the chosen tables…").click()
    frame.get_by_role("button", name="Reload").click()
    system.await_end(frame.locator(".notice.good").get_by_role("link").inner_text())
    assert lake.differences(spark_environment, database) == []

    # Each task links to the page.
    path = f"/api/v2/dags/{_DAG}/dagRuns/{run}/taskInstances/stage/links"
    links = system.server.request("GET", path, user="admin").json["extra_links"]
    assert links["Binlog page"] == f"{system.server.url}{_PAGE}"
    page.goto(links["Manifest"])
    frame.get_by_role("heading", name=re.compile("Manifest")).wait_for()
