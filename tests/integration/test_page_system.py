"""The page over a whole Airflow: a table is broken, the page shows it, and its button mends it."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.integration.test_page import browser
from tests.support.api_server import ApiServer
from tests.support.lake import Lake
from tests.support.shop_dag import ROOT, create_shop_airflow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server
    from tests.support.compare import Difference

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(3600)]

_DAG = "binlog_shop"
_EVERY_MINUTE = """
from airflow_provider_binlog import binlog_to_lake_dag
from dags import binlog_shop as shop

binlog_to_lake_dag(
    "binlog_shop",
    shop.SHOP,
    schedule="* * * * *",
    tables=shop.TABLES,
    staging_path=shop.STAGING_PATH,
    format=shop.FORMAT,
    lake=shop.LAKE,
    changes={"when_nothing_new": "wait", "deferrable": True, "poke_interval": 5},
    merge=shop.SPARK,
)
"""
# As the documentation has it, for the DAG of the demo.
_EXAMPLES = ROOT / "airflow_provider_binlog" / "example_dags"
_APPROVED = {
    "binlog_shop.py": (ROOT / "dags" / "binlog_shop.py").read_text(),
    "binlog_reload.py": (_EXAMPLES / "binlog_reload.py")
    .read_text()
    .replace('trigger_dag_id="binlog_to_lake"', f'trigger_dag_id="{_DAG}"'),
}
_MINUTES = int(os.environ.get("MINUTES", "10"))
_PARSE_SECONDS = 300
_RUN_SECONDS = 1200
_PAGE = f"/plugin/binlog/binlog/source?dag_id={_DAG}&name=shop"


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
        self.await_end(self.begin(_DAG), ends)

    def begin(self, dag_id: str, **conf: list[str]) -> str:
        """Trigger a run of a DAG, and return its id."""
        path, body = f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf}
        answer = self.server.request("POST", path, user="admin", body=body)
        assert answer.status == 200, answer.text
        return str(answer.json["dag_run_id"])

    def await_end(self, run_id: str, ends: str = "success", dag_id: str = _DAG) -> None:
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

    def await_task(self, task_id: str, state: str) -> None:
        """Wait until one more task of an id has a state."""
        self.airflow.await_task(task_id, state, seconds=_RUN_SECONDS)

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
    request: pytest.FixtureRequest,
    database: Database,
    lake: Lake,
    create_airflow: Callable[..., Airflow],
    spark_environment: SparkEnvironment,
) -> Iterator[System]:
    """A system with the DAG of the demo, or with other DAGs: the texts of their files."""
    airflow = create_shop_airflow(create_airflow, database, lake, spark_environment)
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
        system.await_dags(_DAG, *(Path(name).stem for name in files or ()))
        yield system
    finally:
        server.stop()


def open_page(system: System, browser: Browser, path: str = _PAGE) -> Page:
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    cookie: Any = {
        "name": "_token",
        "value": system.server.token("user"),
        "url": system.server.url,
    }
    page.context.add_cookies([cookie])
    page.goto(f"{system.server.url}{path}")
    return page


@contextmanager
def writing(database: Database) -> Iterator[None]:
    """Insert, update and delete orders, until the end of the body."""
    over = threading.Event()

    def write() -> None:
        with closing(database.connect()) as connection, connection.cursor() as cursor:
            for id_ in itertools.count(1000):
                cursor.execute("INSERT INTO orders VALUES (%s, 'new')", (id_,))
                cursor.execute("UPDATE orders SET note = 'old' WHERE id = %s", (id_ - 3,))
                cursor.execute("DELETE FROM orders WHERE id = %s", (id_ - 9,))
                connection.commit()
                if over.wait(0.2):
                    return

    with ThreadPoolExecutor() as pool:
        written = pool.submit(write)
        try:
            yield
        finally:
            over.set()
            written.result()


def triggerer_memory(system: System) -> int:
    """Return how many bytes the triggerer and its process of triggers hold."""
    standalone = psutil.Process(system.server.process.pid)
    total = 0
    for process in standalone.children(recursive=True):
        # Tasks of other components end meanwhile.
        with suppress(psutil.Error):
            if "triggerer" in process.cmdline():
                total += sum(own.memory_info().rss for own in (process, *process.children()))
    assert total > 0
    return total


@pytest.mark.parametrize(
    "system", [{"binlog_shop.py": _EVERY_MINUTE}], indirect=True, ids=["every minute"]
)
def test_a_database_that_is_written_is_followed_by_runs_every_minute(
    system: System, database: Database, browser: Browser
) -> None:
    with writing(database):
        system.await_task("tables_live", "success")
        begun, before = time.monotonic(), triggerer_memory(system)
        frame = open_page(system, browser).frame_locator("iframe")
        database.execute("ALTER TABLE visits TRUNCATE PARTITION p1")
        system.await_task("tables_live", "failed")
        frame.locator("tbody .state").filter(has_text="stale").wait_for(timeout=60_000)
        # The next run reads it again, whether somebody asks for that or not.
        system.await_task("tables_live", "success")
        while time.monotonic() - begun < _MINUTES * 60:
            system.await_task("tables_live", "success")
    # One of these has seen the last change.
    system.await_task("changes", "success")
    system.await_task("tables_live", "success")

    assert system.differences() == []
    # What is scheduled before the api-server answers fails before it starts.
    statement = "SELECT task_id FROM task_instance WHERE state = 'failed' AND start_date NOT NULL"
    assert system.airflow.query(statement) == [("tables_live",)]
    assert triggerer_memory(system) < before * 1.2
    # The sensor of a run waits in the triggerer, between two polls: it holds no connection.
    dumps = "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    assert database.query(dumps) == [(0,)]


def test_the_page_shows_a_broken_table_and_its_button_mends_it(
    system: System, database: Database, browser: Browser
) -> None:
    system.trigger()
    assert system.differences() == []
    page = open_page(system, browser)
    frame = page.frame_locator("iframe")
    states = frame.locator("tbody .state")
    states.filter(has_text="live").nth(1).wait_for()

    # No log says which rows this removes.
    database.execute(
        "ALTER TABLE visits TRUNCATE PARTITION p1", "INSERT INTO orders VALUES (3, 'three')"
    )
    # The task `tables_live` says so.
    system.trigger("failed")

    # The page refreshes itself.
    row = frame.get_by_role("row").filter(has=frame.get_by_text("stale", exact=True))
    row.filter(has_text=f"{database.name}.visits").wait_for(timeout=60_000)
    assert "TRUNCATE PARTITION" in row.inner_text()
    assert system.differences() != []
    row.get_by_role("link", name="Reload…").click()
    frame.get_by_role("button", name="Reload", exact=True).click()
    run = frame.locator(".notice.good").get_by_role("link").inner_text()
    system.await_end(run)

    states.filter(has_text="stale").wait_for(state="detached", timeout=60_000)
    assert system.differences() == []
    assert system.airflow.query("SELECT owner FROM log WHERE event = 'trigger_dag_run'")[-1] == (
        "user",
    )

    # A live table whose lake lacks what no log has: nothing but a person finds it.
    database.execute("SET sql_log_bin = 0", "UPDATE orders SET note = 'spoiled' WHERE id = 1")
    assert len(system.differences()) == 1
    page.reload()
    frame.get_by_role("checkbox", name=f"Choose {database.name}.orders").check()
    frame.get_by_role("button", name="Reload the chosen tables…").click()
    frame.get_by_role("button", name="Reload", exact=True).click()
    system.await_end(frame.locator(".notice.good").get_by_role("link").inner_text())
    assert system.differences() == []

    # Each task links to the page.
    path = f"/api/v2/dags/{_DAG}/dagRuns/{run}/taskInstances/stage/links"
    links = system.server.request("GET", path, user="admin").json["extra_links"]
    assert links["Binlog page"] == f"{system.server.url}{_PAGE}"
    page.goto(links["Manifest"])
    frame.get_by_role("heading", name=re.compile("Manifest")).wait_for()


@pytest.mark.parametrize("system", [_APPROVED], indirect=True, ids=["approved"])
def test_a_table_is_reloaded_once_a_person_approves_it(
    system: System, database: Database, browser: Browser
) -> None:
    system.trigger()
    database.execute("SET sql_log_bin = 0", "UPDATE orders SET note = 'spoiled' WHERE id = 1")
    asked = system.begin("binlog_reload", reload=[f"{database.name}.orders"])
    system.await_task("approve", "awaiting_input")
    # Nothing happens before the answer.
    system.trigger()
    assert len(system.differences()) == 1

    path = f"/dags/binlog_reload/runs/{asked}/tasks/approve/required_actions"
    page = open_page(system, browser, path)
    page.get_by_text(f"Reload {database.name}.orders?").first.wait_for()
    page.get_by_role("button", name="Approve").click()
    system.await_end(asked, dag_id="binlog_reload")
    runs = system.server.request("GET", f"/api/v2/dags/{_DAG}/dagRuns", user="admin").json
    for run in runs["dag_runs"]:
        system.await_end(run["dag_run_id"])
    assert system.differences() == []
