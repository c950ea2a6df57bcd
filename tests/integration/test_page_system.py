"""The page over a whole Airflow: a table is broken, the page shows it, and its button mends it."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.integration.test_page import browser
from tests.support.airflow_system import ACCOUNT, DAG_ID, SHOP_FILE, System, database, lake, system
from tests.support.shop_dag import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Page

    from tests.fixtures.mysql import Database

__all__ = ["browser", "database", "lake", "system"]

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(3600)]

_EVERY_MINUTE = """
from airflow_provider_binlog import binlog_to_lake_dag

binlog_to_lake_dag(
    "binlog_shop",
    SHOP,
    schedule="* * * * *",
    tables=os.environ["BINLOG_SHOP_TABLES"].split(","),
    staging_path=os.environ["BINLOG_SHOP_STAGING"],
    format=os.environ["BINLOG_SHOP_FORMAT"],
    lake=os.environ["BINLOG_SHOP_LAKE"],
    changes={"when_nothing_new": "wait", "deferrable": True, "poke_interval": 5},
    merge=json.loads(os.environ["BINLOG_SHOP_SPARK"]),
)
"""
# As the documentation has it, for the DAG of the demo.
_EXAMPLES = ROOT / "airflow_provider_binlog" / "example_dags"
_APPROVED = {
    "binlog_shop.py": (ROOT / "dags" / "binlog_shop.py").read_text(),
    "binlog_reload.py": (_EXAMPLES / "binlog_reload.py")
    .read_text()
    .replace('trigger_dag_id="binlog_to_lake"', f'trigger_dag_id="{DAG_ID}"'),
}
_MINUTES = int(os.environ.get("MINUTES", "10"))
_PAGE = f"/plugin/binlog/binlog/source?dag_id={DAG_ID}&name=shop"


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


def reload(frame: FrameLocator, *tables: str) -> str:
    """Reload tables by the page's button, and return the id of the run."""
    for table in tables:
        frame.get_by_role("checkbox", name=f"Choose {table}").check()
    frame.get_by_role("button", name="Reload the chosen tables…").click()
    frame.get_by_role("button", name="Reload", exact=True).click()
    return frame.locator(".notice.good").get_by_role("link").inner_text()


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
    "system", [{"binlog_shop.py": SHOP_FILE + _EVERY_MINUTE}], indirect=True, ids=["every minute"]
)
def test_a_database_that_is_written_is_followed_by_runs_every_minute(
    system: System, database: Database, browser: Browser
) -> None:
    with writing(database):
        system.await_task("tables_live", "success")
        begun, before = time.monotonic(), triggerer_memory(system)
        frame = open_page(system, browser).frame_locator("iframe")
        database.execute("ALTER TABLE visits TRUNCATE PARTITION p1")
        # The next run reads a stale table again by itself; a live one that is spoiled, none does.
        database.execute("SET sql_log_bin = 0", "UPDATE orders SET note = 'spoiled' WHERE id = 1")
        system.await_task("tables_live", "failed")
        frame.locator("tbody .state").filter(has_text="stale").wait_for(timeout=60_000)
        system.await_end(reload(frame, f"{database.name}.visits", f"{database.name}.orders"))
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
    # The sensor of the next run waits in the triggerer, and holds no session between two polls.
    system.await_task("changes", "deferred", 1)
    sessions = "SELECT * FROM information_schema.processlist WHERE user = %s"
    deadline = time.monotonic() + 120
    while left := database.query(sessions, ACCOUNT):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


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
    broken = system.begin(DAG_ID)
    system.await_end(broken, "failed")

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
    system.await_end(reload(frame, f"{database.name}.orders"))
    assert system.differences() == []

    # Each task links to the page.
    path = f"/api/v2/dags/{DAG_ID}/dagRuns/{run}/taskInstances/stage/links"
    links = system.server.request("GET", path, user="admin").json["extra_links"]
    assert links["Binlog page"] == f"{system.server.url}{_PAGE}"
    page.goto(links["Manifest"])
    frame.get_by_role("heading", name=re.compile("Manifest")).wait_for()

    # The one that failed links to what the docs say of its error.
    path = f"/api/v2/dags/{DAG_ID}/dagRuns/{broken}/taskInstances/tables_live/links"
    links = system.server.request("GET", path, user="admin").json["extra_links"]
    page.goto(links["What to do"])
    frame.get_by_role("heading", name="MergeError").wait_for()


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
    runs = system.server.request("GET", f"/api/v2/dags/{DAG_ID}/dagRuns", user="admin").json
    for run in runs["dag_runs"]:
        system.await_end(run["dag_run_id"])
    assert system.differences() == []
