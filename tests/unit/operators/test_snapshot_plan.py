"""Which tables need a snapshot: by the server's tables, the lake's progress and what is staged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG

from airflow_provider_binlog import BinlogSource, binlog_to_lake
from airflow_provider_binlog.operators import snapshot_plan
from airflow_provider_binlog.operators.snapshot_plan import (
    BinlogSnapshotPlanOperator,
    find_tables_to_read,
    next_time,
)
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import new_snapshot_id, snapshot_path
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.spark.target.mark import Mark
from airflow_provider_binlog.spark.target.state import Hold
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.staging.schema_files import SchemaFiles
from airflow_provider_binlog.staging.snapshots import Snapshots
from airflow_provider_binlog.transport.server import information_schema
from tests.support.stores import open_store
from tests.unit.spark.history import Source, Table
from tests.unit.spark.made_snapshots import SnapshotMaker, take_snapshot
from tests.unit.spark.staged_changes import INT


@dataclass
class _Shop:
    """A server with one table, whose rows are partly from before its log."""

    source: Source
    orders: Table = field(init=False)
    progress: Progress | None = None

    def __post_init__(self) -> None:
        self.orders = self.source.create("shop", "orders", {"id": INT}, ("id",))

    def stage(self) -> None:
        """Stage what was logged."""
        manifest = self.source.commit()
        SchemaFiles(self.source.store, "shop").publish(manifest)

    def merge(self, hold: Hold | None = None, loaded: str = "", **other: object) -> None:
        """Merge what was logged; then the table has this hold, loaded from this snapshot."""
        self.orders.insert(id=len(self.orders.values) + 1)
        manifest = self.source.commit()
        known = TableProgress(Mark(manifest.sequence), hold=hold, loaded=loaded)
        progress = (self.progress or Progress()).read([manifest])
        tables = {self.orders.name: known}
        self.progress = replace(progress, tables=tables, **other)  # type: ignore[arg-type]

    def plan(self) -> list[TableName]:
        """Return the tables to read."""
        store = self.source.store
        snapshots = Snapshots(StoredFiles(store, "shop"))
        on_server = {self.orders.name}
        return find_tables_to_read(on_server, self.progress, snapshots, SchemaFiles(store, "shop"))


_STALE = Hold("stale", "rows were removed")
_LOADING = Hold("loading", "its rows are not staged")


@pytest.fixture
def shop(tmp_path: Path) -> _Shop:
    return _Shop(Source(open_store(f"file://{tmp_path}"), "shop"))


def test_a_table_that_nobody_has_seen_is_read(shop: _Shop) -> None:
    assert shop.plan() == [shop.orders.name]


def test_a_table_whose_creation_is_staged_is_not(shop: _Shop) -> None:
    shop.orders.insert(id=1)
    shop.stage()

    assert shop.plan() == []


def test_a_table_that_is_live_is_not(shop: _Shop) -> None:
    shop.merge()

    assert shop.plan() == []


@pytest.mark.parametrize("state", [_STALE, _LOADING])
def test_a_table_that_waits_for_a_reload_is_read_once(shop: _Shop, state: Hold) -> None:
    shop.merge(state)
    assert shop.plan() == [shop.orders.name]

    shop.orders.insert(id=1000)
    taken = take_snapshot(shop.orders)
    assert shop.plan() == []

    shop.merge(snapshots=frozenset({taken.id}))
    assert shop.plan() == []
    shop.merge(_STALE, snapshots=frozenset({taken.id}))
    assert shop.plan() == [shop.orders.name]


def test_a_table_whose_snapshot_was_refused_is_read_again(shop: _Shop) -> None:
    shop.merge(_STALE)
    maker = SnapshotMaker(shop.orders).read()
    maker.commit()
    assert shop.plan() == []

    shop.merge(_STALE)
    assert shop.plan() == [shop.orders.name]


def test_a_table_whose_snapshot_is_unreadable_is_read_again(shop: _Shop) -> None:
    shop.merge()
    shop.orders.insert(id=1000)
    id_ = take_snapshot(shop.orders).id
    assert shop.plan() == []

    shop.source.store.write(f"shop/{snapshot_path(id_)}", b"{")
    assert shop.plan() == [shop.orders.name]


def test_a_table_that_no_snapshot_helps_is_read_again_ever_later(shop: _Shop) -> None:
    start = datetime(2026, 11, 22, 9, tzinfo=UTC)

    def take(minutes: int) -> str:
        maker = SnapshotMaker(shop.orders)
        maker.id = new_snapshot_id(start + timedelta(minutes=minutes), shop.orders.name)
        return maker.read().commit().id

    def minutes() -> float:
        snapshots = Snapshots(StoredFiles(shop.source.store, "shop"))
        at = next_time(shop.orders.name, shop.progress, snapshots)
        return (at - start) / timedelta(minutes=1)

    shop.merge(_STALE, loaded=take(0))
    assert minutes() < 0
    for at, again in ((60, 60), (65, 70), (75, 90)):
        take(at)
        assert minutes() == again


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
    monkeypatch.setattr(snapshot_plan, "server_settings", lambda _: server)
    kinds = {("shop", "prices"): "SYSTEM VERSIONED", ("shop", "ids"): "SEQUENCE"}
    monkeypatch.setattr(information_schema, "list_tables", lambda _: kinds)
    plan = BinlogSnapshotPlanOperator(
        task_id="plan",
        source=BinlogSource("shop", start="now"),
        tables=["shop.*"],
        staging_path=f"file://{tmp_path}",
        format="delta",
        lake="/l",
    )

    assert plan.execute({"ti": Mock()}) == []
    printed = capsys.readouterr().out
    assert "GRANT SELECT on the tables to the account" in printed
    assert "leave them out with exclude (tables=shop.prices)" in printed


def test_the_first_snapshot_is_waited_for(shop: _Shop) -> None:
    take_snapshot(shop.orders)

    assert shop.plan() == []
