"""Triggers are made again from what they serialise to, and load nothing heavy."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import BaseTrigger

from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.server.queries import BinaryLog
from airflow_provider_binlog.triggers.binlog import (
    BinlogPositionTrigger,
    BinlogWatcherTrigger,
    Growth,
)

SINCE = {
    "position": {"file": "binlog.000002", "offset": 157, "gtid": None},
    "identity": {"flavor": "mysql", "server": "a", "log_name": "binlog"},
}
POSITION: dict[str, Any] = {
    "binlog_conn_id": "shop",
    "source": "shop",
    "since": SINCE,
    "dag_id": "shop",
    "poll_interval": 3.5,
}
WATCHER: dict[str, Any] = {
    "binlog_conn_id": "shop",
    "min_bytes": 7,
    "max_lag": 9.5,
    "poll_interval": 3.5,
}


@pytest.mark.parametrize(
    ("trigger", "given"),
    [
        (
            BinlogPositionTrigger(**POSITION, min_bytes=7),
            {**POSITION, "min_bytes": 7, "min_transactions": None, "max_lag": None},
        ),
        (BinlogWatcherTrigger(**WATCHER), WATCHER),
    ],
)
def test_it_is_made_again_from_plain_values(trigger: BaseTrigger, given: dict[str, Any]) -> None:
    path, arguments = trigger.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))

    assert again.serialize() == (path, arguments)
    assert arguments == given
    # Airflow 3.4 gives every trigger one.
    assert "queue" not in type(trigger).__init__.__code__.co_names


def test_it_wakes_the_sensor_where_airflow_has_no_connection() -> None:
    """Which it says as well where its API server is away: the sensor has retries."""
    trigger = BinlogPositionTrigger(binlog_conn_id="no_such_source", source="shop", since=SINCE)

    assert "no_such_source" in asyncio.run(first_event(trigger))["error"]


async def first_event(trigger: BaseTrigger) -> Any:
    async with asyncio.timeout(30):
        return (await anext(trigger.run())).payload


@pytest.mark.parametrize("queued", [0, 1])
def test_a_run_that_is_queued_wakes_the_sensor(
    queued: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def count(dag_id: str, states: list[str]) -> int:
        asked.append((dag_id, states))
        return queued

    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", count)
    trigger = BinlogPositionTrigger(**POSITION | {"binlog_conn_id": "no_such_source"})
    without = BinlogPositionTrigger(**POSITION | {"binlog_conn_id": "none", "dag_id": None})

    assert asyncio.run(first_event(trigger)).get("reason") == (
        "another run is queued" if queued else None
    )
    assert "none" in asyncio.run(first_event(without))["error"]
    assert asked == [("shop", ["queued"])]


def at(number: int, offset: int) -> tuple[Position, list[BinaryLog]]:
    logs = [BinaryLog(f"binlog.{file:06}", 1_000) for file in range(2, number)]
    name = f"binlog.{number:06}"
    return Position(name, offset), [*logs, BinaryLog(name, offset)]


def test_little_growth_makes_an_event_once_it_has_waited() -> None:
    growth = Growth(min_bytes=500, max_lag=60.0)

    def find(number: int, offset: int, now: float) -> str:
        return growth.find_reason(*at(number, offset), now)

    assert find(2, 100, 0) == "the watcher has started"
    assert [find(2, 100, 100), find(2, 200, 110), find(2, 300, 160)] == ["", "", ""]
    assert find(2, 300, 170) == "a change has waited for 60 s"
    assert find(2, 300, 900) == ""
    # 700 bytes of the file, and 50 of the next.
    assert find(3, 54, 901) == "754 bytes were logged"
    assert find(2, 4, 902) == "the log was reset"
