"""BinlogPositionTrigger is made again from what it serialises to."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from airflow._shared.module_loading import import_string

from airflow_provider_binlog.triggers.binlog import BinlogPositionTrigger


def test_it_is_made_again_from_plain_values() -> None:
    trigger = BinlogPositionTrigger(
        binlog_conn_id="shop", after="binlog.000002:157", poll_interval=3.5
    )

    path, arguments = trigger.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))

    assert again.serialize() == (path, arguments)
    assert arguments == {
        "binlog_conn_id": "shop",
        "after": "binlog.000002:157",
        "poll_interval": 3.5,
    }


def test_it_wakes_the_sensor_where_airflow_has_no_connection() -> None:
    """Which it says as well where its API server is away: the sensor has retries."""
    trigger = BinlogPositionTrigger(binlog_conn_id="no_such_source", after="binlog.000002:157")

    async def first_event() -> Any:
        async with asyncio.timeout(30):
            return (await anext(trigger.run())).payload

    assert "no_such_source" in asyncio.run(first_event())["error"]
