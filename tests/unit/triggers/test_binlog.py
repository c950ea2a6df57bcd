"""BinlogPositionTrigger is made again from what it serialises to."""

from __future__ import annotations

import json

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
