"""BinlogSnapshotOperator: what it refuses before it reads anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.observability import stats

from airflow_provider_binlog import BinlogSnapshotOperator, BinlogSource
from airflow_provider_binlog.errors import (
    ConfigurationError,
    ManifestError,
    ServerChangedError,
    SourceError,
    TableAlteredError,
)
from airflow_provider_binlog.executors.job import ChunkWork
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.operators.arguments import read_chunk_range
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.sources.settings import ConnectionSettings
from tests.support.stores import open_store
from tests.unit.snapshot.test_plan import REQUEST, plan
from tests.unit.spark.history import Source
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import INT

SHOP = BinlogSource("shop", start="now")


@pytest.mark.parametrize("mapped", [TableAlteredError("altered"), ServerChangedError("another")])
def test_a_task_that_shares_a_plan_says_which_one_to_clear(
    mapped: SourceError, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise mapped

    monkeypatch.setattr(SnapshotFiles, "read_plan", refuse)
    monkeypatch.setattr(BinlogHook, "settings", ConnectionSettings("a-server"))
    chunks = {"snapshot": "an id", "first": 0, "stop": 1}
    operator = BinlogSnapshotOperator(
        task_id="read", source=SHOP, staging_path=f"file://{tmp_path}", table="shop.orders"
    )

    with pytest.raises(type(mapped), match="clear the task that shared the chunks") as raised:
        operator._read_chunks(chunks)
    # No other try finds the table as it was.
    assert raised.value.retryable == isinstance(mapped, ServerChangedError)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"lock": "always"}, "lock is one of none, brief"),
        ({"chunk_bytes": "much"}, "a limit is a positive number"),
        ({"limits": 5}, "limits are given as"),
        ({"source": BinlogSource("shop", start="now", files="/logs")}, "a snapshot reads a server"),
        ({"table": "orders"}, "table is the name"),
        ({"max_rows_per_second": 0}, "a limit is a positive number"),
        ({"max_threads_running": "20"}, "a limit is a positive number"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(
    arguments: dict[str, Any], refusal: str
) -> None:
    defaults: dict[str, Any] = {"source": SHOP, "staging_path": "/s", "table": "shop.orders"}
    operator = BinlogSnapshotOperator(task_id="orders", **defaults | arguments)

    with pytest.raises(ConfigurationError, match=refusal):
        operator._take("a run")


@pytest.mark.parametrize("chunks", [{}, {"snapshot": "id", "first": "0", "stop": 1}, 5, None])
def test_chunks_are_those_that_were_shared(chunks: object) -> None:
    with pytest.raises(ConfigurationError, match="that a BinlogSnapshotPlanOperator returned"):
        read_chunk_range(chunks)


@pytest.mark.parametrize("table", ["crm.users", "mysql.user", "shop.Orders", "shop.tmp_1"])
def test_a_table_that_is_not_captured_is_not_read(table: str) -> None:
    operator = BinlogSnapshotOperator(
        task_id="read",
        source=SHOP,
        staging_path="/s",
        table=table,
        tables=["shop.[a-z]*", "*.user"],
        exclude=["*.tmp_*"],
    )

    with pytest.raises(ConfigurationError, match="a table that is not captured"):
        operator._take("a run")
    with pytest.raises(ConfigurationError, match="a table that is not captured"):
        operator._read_chunks({"snapshot": "an id", "first": 0, "stop": 1})


def test_a_stored_plan_chooses_no_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who can write to the staging area cannot let a task read what the DAG does not name."""
    settings = ConnectionSettings("nowhere", 3306, "root")
    monkeypatch.setattr(BinlogHook, "settings", settings)
    store = open_store(f"file://{tmp_path}")
    planned = plan()
    SnapshotFiles(store, "shop").write_plan(replace(planned, database="crm", table="users"))
    operator = BinlogSnapshotOperator(
        task_id="read", source=SHOP, staging_path=f"file://{tmp_path}", table="shop.orders"
    )
    work = ChunkWork(
        server=settings,
        snapshot=planned.id,
        database="shop",
        table="orders",
        where=None,
        numbers=(0,),
        limits={},
        rows_per_second_max=None,
        threads_running_max=None,
        replica_lag_max=None,
        replicas=(),
    )

    with pytest.raises(ManifestError, match="no plan of a snapshot of this table"):
        operator._read_chunks({"snapshot": planned.id, "first": 0, "stop": 1})
    with pytest.raises(ManifestError, match="no plan of a snapshot of this table"):
        work.run("shop", 0, store)
    # A task that begins a snapshot makes a plan of its own.
    assert SnapshotFiles(store, "shop").find_plan(REQUEST) is None


def test_a_complete_snapshot_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent: dict[tuple[str, str], int] = {}
    monkeypatch.setattr(
        stats, "incr", lambda name, count, tags: sent.update({(name, tags["source"]): count})
    )
    table = Source(open_store(f"file://{tmp_path}"), "shop").create(
        "shop", "orders", {"id": INT}, ("id",)
    )
    table.insert(id=1)
    table.insert(id=2)
    operator = BinlogSnapshotOperator(
        task_id="read", source=SHOP, staging_path=f"file://{tmp_path}", table="shop.orders"
    )

    operator._describe(take_snapshot(table), "shop")

    files = [*tmp_path.rglob("*.parquet")]
    assert sent == {
        ("binlog.snapshot_rows", "shop"): 2,
        ("binlog.snapshot_bytes", "shop"): sum(file.stat().st_size for file in files),
    }
