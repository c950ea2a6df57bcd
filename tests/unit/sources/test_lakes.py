"""Which tables need a snapshot, by the lake's progress and what is staged; who reads them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import new_snapshot_id, snapshot_path
from airflow_provider_binlog.sources.lakes import (
    choose_tables,
    find_needed,
    limit_tables,
    next_time,
)
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.spark.target.state import Hold, Mark
from airflow_provider_binlog.staging.manifest_log import SchemaFiles
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles
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
        return self.find(datetime.max.replace(tzinfo=UTC))[0]

    def find(self, now: datetime) -> tuple[list[TableName], dict[TableName, datetime]]:
        """Return the tables to read, and those to read later."""
        store, on_server = self.source.store, {self.orders.name}
        return find_needed(store, "shop", on_server, self.progress, now=now)

    def next_time(self, loaded: str = "") -> datetime:
        """Return when the table is read again, once it was loaded from a snapshot."""
        snapshots = Snapshots(StoredFiles(self.source.store, "shop"))
        return next_time(self.orders.name, loaded, snapshots)


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


def test_a_table_whose_creation_was_removed_is_read_for_a_lake_that_does_not_have_it(
    shop: _Shop,
) -> None:
    shop.stage()
    shop.source.commit()
    shop.source.store.delete([shop.source.log.key(1)])

    assert shop.plan() == [shop.orders.name]
    shop.merge()
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

    loaded = take(0)

    def minutes() -> float:
        return (shop.next_time(loaded) - start) / timedelta(minutes=1)

    shop.merge(_STALE, loaded=loaded)
    assert minutes() < 0
    for at, again in ((60, 60), (65, 70), (75, 90)):
        take(at)
        assert minutes() == again


def test_the_first_snapshot_is_waited_for(shop: _Shop) -> None:
    take_snapshot(shop.orders)

    assert shop.plan() == []


def test_a_table_whose_snapshots_do_not_help_is_read_later(shop: _Shop) -> None:
    shop.merge(_STALE)
    for _ in range(2):
        maker = SnapshotMaker(shop.orders).read()
        shop.merge(_STALE, snapshots=frozenset({maker.commit().id}))
    again = shop.next_time()

    needed = shop.find(again - timedelta(microseconds=1))

    assert needed == ([], {shop.orders.name: again})


def test_only_base_tables_are_read() -> None:
    kinds = {
        ("shop", "orders"): "BASE TABLE",
        ("shop", "totals"): "VIEW",
        ("shop", "ids"): "SEQUENCE",
        ("shop", "prices"): "SYSTEM VERSIONED",
        ("crm", "users"): "BASE TABLE",
    }

    tables = choose_tables(kinds, lambda name: name[0] == "shop")

    assert tables == ([("shop", "orders")], [("shop", "ids"), ("shop", "prices")])


def test_more_tables_than_tasks_wait_for_the_next_run_or_are_refused() -> None:
    names = [("shop", "a"), ("shop", "b")]

    assert limit_tables(names, 1, has_next_run=True) == [("shop", "a")]
    with pytest.raises(ConfigurationError, match="more tables than tasks"):
        limit_tables(names, 1, has_next_run=False)
