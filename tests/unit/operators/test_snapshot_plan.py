"""BinlogSnapshotPlanOperator: its arguments from the one-call DAG, and its warnings."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG

from airflow_provider_binlog import BinlogSource, binlog_to_lake
from airflow_provider_binlog.operators import snapshot_plan
from airflow_provider_binlog.operators.snapshot_plan import BinlogSnapshotPlanOperator
from airflow_provider_binlog.transport.server import information_schema


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
    assert "leave them out with exclude (tables=shop.ids, shop.prices)" in printed
