"""Links of the tasks that are looked at once something is wrong."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_binlog import (
    BinlogFollowOperator,
    BinlogRetentionSensor,
    BinlogSource,
    BinlogTablesLiveOperator,
)
from airflow_provider_binlog.errors import ConnectionLostError
from airflow_provider_binlog.hooks.tasks import AirflowVariableStore
from airflow_provider_binlog.sensors import retention
from tests.contract.checkpoint import checkpoint
from tests.unit.operators.test_merge import States

SHOP = BinlogSource("shop", start="now")


def links(operator: Any) -> dict[str, str]:
    key: Any = SimpleNamespace(dag_id="own")
    return {
        link.name: link.get_link(operator, ti_key=key).rpartition("/")[2]
        for link in operator.operator_extra_links
    }


def test_the_task_that_fails_for_a_table_leads_to_its_source() -> None:
    operator = BinlogTablesLiveOperator(task_id="live", merged={"source": "shop", "tables": []})

    assert links(operator)["Binlog page"] == "source?dag_id=own&name=shop"


def test_a_task_that_follows_leads_to_its_newest_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = BinlogFollowOperator(
        task_id="stage", source=SHOP, staging_path="/s", tables=["*.*"], follow=timedelta(hours=1)
    )
    staged = {"source": "shop", "last_sequence": 7}
    monkeypatch.setattr(operator, "_follow", lambda *_: staged)
    monkeypatch.setattr("airflow_provider_binlog.operators.follow.describe_for_asset", dict)
    run = SimpleNamespace(dag_id="own", run_id="r", task_id="stage", try_number=1)
    dag_run = SimpleNamespace(start_date=None)
    context: Any = {"ti": run, "dag_run": dag_run, "task_state_store": States()}

    operator.execute(context)

    assert links(operator)["Manifest"] == "manifest?dag_id=own&name=shop&sequence=7"


def test_a_sensor_in_a_dag_of_its_own_leads_to_the_dag_that_captures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved = checkpoint(1, saved_by="shop scheduled__2026 checkpoint").encode()
    monkeypatch.setattr(AirflowVariableStore, "get", lambda *_: saved)

    def refuse(*_: object) -> None:
        raise ConnectionLostError("no server")

    monkeypatch.setattr(retention, "server_settings", refuse)
    sensor = BinlogRetentionSensor(task_id="head_room", source=SHOP)

    assert links(sensor)["Binlog page"] == "source?dag_id=own&name=shop"
    with pytest.raises(ConnectionLostError):
        sensor.poke({})
    assert links(sensor)["Binlog page"] == "source?dag_id=shop&name=shop"
