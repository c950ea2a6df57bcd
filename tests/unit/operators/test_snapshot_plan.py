"""BinlogSnapshotPlanOperator: its arguments from the one-call DAG, and its warnings."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogSource, binlog_to_lake
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators import needed_tables
from airflow_provider_binlog.operators.arguments import read_reload
from airflow_provider_binlog.operators.needed_tables import NeededTables
from airflow_provider_binlog.operators.snapshot import BinlogSnapshotPlanOperator
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.snapshot_manifest import new_snapshot_id, planned_at
from airflow_provider_binlog.spark.merge.progress import (
    Progress,
    TableProgress,
    load_progress,
    save_progress,
)
from airflow_provider_binlog.spark.target.state import Hold, Mark
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.transport.server import information_schema
from tests.support.stores import open_store
from tests.unit.operators.test_idle_merge import FOLDER
from tests.unit.spark.history import Source
from tests.unit.spark.made_snapshots import SnapshotMaker, take_snapshot
from tests.unit.spark.staged_changes import INT


def test_tables_that_are_not_merged_are_not_read() -> None:
    with DAG("shop", schedule=None) as dag:
        binlog_to_lake(
            BinlogSource("shop", start="now"),
            tables=["shop.*"],
            staging_path="/s",
            format="delta",
            lake="/l",
            merge={"tables": ["!shop._*"], "exclude": ["shop.log"]},
            prefix_group_id=False,
        )

    plan = dag.get_task("plan")
    assert isinstance(plan, BinlogSnapshotPlanOperator)
    assert (plan.merge_tables, plan.merge_exclude) == (["!shop._*"], ["shop.log"])


def test_tables_that_are_not_seen_and_those_never_loaded_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Mock()
    monkeypatch.setattr(needed_tables, "server_settings", lambda _: server)
    kinds = {("shop", "prices"): "SYSTEM VERSIONED", ("shop", "ids"): "SEQUENCE"}
    monkeypatch.setattr(information_schema, "list_tables", lambda _: kinds)
    plan = BinlogSnapshotPlanOperator(
        task_id="plan",
        source=BinlogSource("shop", start="now"),
        tables=["shop.*"],
        staging_path=f"file://{tmp_path}",
        format="delta",
        lake="/l",
        reload=(),
    )

    assert plan.execute({"ti": Mock()}) == []
    printed = capsys.readouterr().out
    assert "GRANT SELECT on the tables to the account" in printed
    assert "leave them out with exclude (tables=shop.ids, shop.prices)" in printed


class _Shop:
    """A source whose one manifest is merged into a lake, by the progress beside it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = f"file://{folder}"
        source = Source(open_store(self.folder), "shop")
        self.orders = source.create("shop", "orders", {"id": INT}, ("id",))
        self.orders.insert(id=1)
        self.progress = Progress().read([source.commit()])
        self.kinds = {self.orders.name: "BASE TABLE"}
        monkeypatch.setattr(needed_tables, "server_settings", lambda _: Mock())
        monkeypatch.setattr(information_schema, "list_tables", lambda _: self.kinds)

    def merge(self, hold: Hold | None, *snapshots: str) -> None:
        """Note that the table was merged, or why it was not."""
        known = TableProgress(Mark(1), pending=hold is not None, hold=hold)
        self.progress = replace(
            self.progress, tables={self.orders.name: known}, snapshots=frozenset(snapshots)
        )
        files = StoredFiles(self.orders.source.store, "shop")
        loaded = load_progress(files, FOLDER)
        save_progress(files, FOLDER, self.progress, loaded=loaded, merged=[self.orders.name])

    def tables(self, **arguments: object) -> NeededTables:
        given: dict[str, Any] = {"tables": ["shop.*"], "lake": "/lake"} | arguments
        source = BinlogSource("shop", start="now")
        return NeededTables(source=source, staging_path=self.folder, format="delta", **given)

    def find_unmerged(self, sequence: int = 1, **arguments: object) -> str:
        identity = self.orders.source.identity
        saved = Checkpoint(identity, Position("binlog.000001", 4), sequence, "", "")
        return self.tables(**arguments).find_unmerged(saved)


_STALE = Hold("stale", "rows were removed")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Shop:
    return _Shop(tmp_path, monkeypatch)


def test_live_tables_need_no_run(shop: _Shop) -> None:
    assert shop.find_unmerged() == ""
    shop.merge(None)
    assert shop.find_unmerged() == ""


def test_a_stale_table_that_a_snapshot_reloads_needs_a_run(shop: _Shop) -> None:
    shop.merge(_STALE)
    assert shop.find_unmerged() == "tables need a snapshot: shop.orders"

    assert shop.find_unmerged(exclude=["shop.orders"]) == ""
    assert shop.find_unmerged(lake=None) == ""
    shop.kinds = {shop.orders.name: "SYSTEM VERSIONED"}
    assert shop.find_unmerged() == ""
    shop.kinds = {}
    assert shop.find_unmerged() == ""


@pytest.mark.parametrize(("days", "is_needed"), [((1,), True), ((3, 2), True), ((3, 1), False)])
def test_a_table_that_snapshots_do_not_help_needs_runs_ever_later(
    days: tuple[int, ...], is_needed: bool, shop: _Shop
) -> None:
    tried, now = [], datetime.now(UTC)
    for ago in days:
        maker = SnapshotMaker(shop.orders)
        maker.id = new_snapshot_id(now - timedelta(days=ago), shop.orders.name)
        tried.append(maker.read().commit().id)
    manifest = replace(shop.orders.source.make_manifest(), created_at=now.isoformat())
    shop.orders.source.log.commit(manifest)
    shop.merge(_STALE, *tried)

    assert bool(shop.find_unmerged(2)) == is_needed


def test_what_is_staged_and_not_merged_needs_a_run(shop: _Shop) -> None:
    assert shop.find_unmerged(0) == "manifest 1 was staged, and is not merged"

    taken = take_snapshot(shop.orders)
    assert shop.find_unmerged() == "a snapshot was taken, and is not loaded"
    same = planned_at(taken.id).isoformat(timespec="seconds")
    shop.orders.source.log.commit(replace(shop.orders.source.make_manifest(), created_at=same))
    assert shop.find_unmerged(2) == "a snapshot was taken, and is not loaded"
    later = replace(shop.orders.source.make_manifest(), created_at="2100-01-01T00:00:00Z")
    shop.orders.source.log.commit(later)
    assert shop.find_unmerged(3) == ""


# ------------------------------------------------------------------- tables that a run reloads


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        (None, ()),
        ({}, ()),
        ({"reload": []}, ()),
        ({"reload": ["shop.orders", "shop.orders"]}, (("shop", "orders"),)),
        ({"reload": ["`my.shop`.a/b", "shop.<'&\"{{ 1 }}"]},
         (("my.shop", "a/b"), ("shop", "<'&\"{{ 1 }}"))),
    ],
)  # fmt: skip
def test_a_run_names_tables_to_reload_in_its_conf(conf: Any, expected: object) -> None:
    plan = BinlogSnapshotPlanOperator(
        task_id="plan", source={"name": "shop"}, staging_path="/s", tables=["*.*"]
    )

    plan.render_template_fields({"dag_run": Mock(conf=conf)})

    assert read_reload(plan.reload) == expected


@pytest.mark.parametrize("given", ['"shop.orders"', "shop.orders", "[1]", '["orders"]', "{}"])
def test_what_names_no_tables_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError):
        read_reload(given)


def test_the_sensor_and_the_plan_of_the_one_call_agree_on_what_a_run_reloads() -> None:
    with DAG("shop", schedule=None) as dag:
        binlog_to_lake(
            BinlogSource("shop", start="now"),
            tables=["shop.*"],
            staging_path="/s",
            format="delta",
            lake="/l",
            prefix_group_id=False,
        )

    changes: Any = dag.get_task("changes")
    plan: Any = dag.get_task("plan")
    assert changes.plan["reload"] == plan.reload
    assert "reload" in plan.reload


def test_a_live_table_that_a_run_is_to_reload_is_read_first(shop: _Shop) -> None:
    shop.merge(None)
    reload = '["shop.orders"]'
    other = ("shop", "baskets")
    shop.kinds[other] = "BASE TABLE"

    assert shop.find_unmerged(reload=reload) == "the run is to reload shop.orders"
    names = [other, shop.orders.name]
    assert shop.tables(reload="[]").find_needed(names) == ([other], {})
    assert shop.tables(reload=reload).find_needed(names) == ([shop.orders.name, other], {})
    # Whatever was tried before.
    taken = take_snapshot(shop.orders)
    shop.merge(_STALE, taken.id)
    assert shop.tables(reload=reload).find_needed([shop.orders.name])[0] == [shop.orders.name]


def test_a_table_that_a_run_cannot_reload_fails_it(shop: _Shop) -> None:
    shop.merge(None)

    with pytest.raises(ConfigurationError, match="not captured and merged") as raised:
        shop.tables(reload=["shop.Orders"]).find_needed([shop.orders.name])
    assert raised.value.context["tables"] == "shop.Orders"


@pytest.mark.parametrize("has_other", [True, False])
def test_a_run_of_two_pipelines_reloads_a_table_of_one(
    shop: _Shop, capsys: pytest.CaptureFixture[str], *, has_other: bool
) -> None:
    shop.merge(None)
    source = BinlogSource("shop", start="now")
    given: dict[str, Any] = {"source": source, "staging_path": shop.folder}
    with DAG("both", schedule=None):
        plan = BinlogSnapshotPlanOperator(
            task_id="shop", tables=["shop.*"], lake="/lake", reload=["crm.users"], **given
        )
        if has_other:
            BinlogSnapshotPlanOperator(task_id="crm", tables=["crm.*"], **given)

    refused: Any = pytest.raises(AirflowFailException, match=r"crm\.users")
    with nullcontext() if has_other else refused:
        assert plan.execute({"ti": Mock()}) == []
    assert ("unless another plan" in capsys.readouterr().out) is has_other
    # One of its own that the server does not have fails the task.
    plan.reload = ["shop.Orders"]
    with pytest.raises(AirflowFailException, match="not captured and merged"):
        plan.execute({"ti": Mock()})
