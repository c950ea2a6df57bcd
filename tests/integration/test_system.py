"""A whole Airflow: what is logged starts a run, after which the lake equals the server.

`make system` runs one for longer, with the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.airflow_system import SHOP_FILE, System, database, lake, system

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

__all__ = ["database", "lake", "system"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

_WATCHED = """
from airflow.sdk import Asset, AssetWatcher

from airflow_provider_binlog import BinlogWatcherTrigger, binlog_to_lake_dag

trigger = BinlogWatcherTrigger(binlog_conn_id=SHOP.conn_id, poll_interval=2)
log = Asset("shop_log", watchers=[AssetWatcher(name="shop", trigger=trigger)])
binlog_to_lake_dag(
    "binlog_shop",
    SHOP,
    schedule=[log],
    tables=os.environ["BINLOG_SHOP_TABLES"].split(","),
    staging_path=os.environ["BINLOG_SHOP_STAGING"],
    format=os.environ["BINLOG_SHOP_FORMAT"],
    lake=os.environ["BINLOG_SHOP_LAKE"],
    merge=json.loads(os.environ["BINLOG_SHOP_SPARK"]),
)
"""
_WAITING = """
from airflow.sdk import DAG

from airflow_provider_binlog import BinlogPositionSensor

with DAG("binlog_waiting", schedule=None, max_active_runs=1):
    BinlogPositionSensor(task_id="logged", source=SHOP, start_from_trigger=True, poke_interval=2)
"""


@pytest.mark.parametrize(
    "system",
    [{"binlog_shop.py": SHOP_FILE + _WATCHED, "binlog_waiting.py": SHOP_FILE + _WAITING}],
    indirect=True,
    ids=["watched"],
)
def test_what_is_logged_starts_a_run_and_wakes_a_sensor(system: System, database: Database) -> None:
    # The first event of a watcher follows its start.
    system.await_task("tables_live", "success", 1)
    assert system.differences() == []

    before = system.begin("binlog_waiting")
    system.await_task("logged", "deferred", 1)
    # It can only start once the first one has ended, which therefore does not wait any longer.
    waiting = system.begin("binlog_waiting")
    system.await_end(before, dag_id="binlog_waiting")
    assert system.states(before) == [("logged", "skipped")]
    system.await_task("logged", "deferred", 1)
    database.execute(
        "BEGIN", "UPDATE orders SET note = 'paid' WHERE id = 1", "DELETE FROM visits", "COMMIT"
    )

    system.await_end(waiting, dag_id="binlog_waiting")
    assert system.states(waiting) == [("logged", "success")]
    system.await_task("tables_live", "success", 2)
    assert system.differences() == []
    assert system.airflow.query("SELECT task_id FROM task_instance WHERE state = 'failed'") == []
