"""BinlogPositionSensor only assigns when it is constructed; the rest needs a server."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogPositionSensor, BinlogSource

SHOP = BinlogSource("shop", start="now")


def test_template_fields_are_attributes() -> None:
    sensor = BinlogPositionSensor(task_id="changes", source=SHOP)

    assert all(hasattr(sensor, name) for name in sensor.template_fields)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"when_nothing_new": "sleep"}, "when_nothing_new is one of wait, skip"),
        ({"source": "shop"}, "source is a BinlogSource"),
        ({"source": BinlogSource("shop", start="now", files="/backup/")}, "not files"),
    ],
)
def test_bad_arguments_fail_without_a_retry(arguments: dict[str, Any], says: str) -> None:
    given = {"source": SHOP, **arguments}
    sensor = BinlogPositionSensor(task_id="changes", **given)

    with pytest.raises(AirflowFailException, match=says):
        sensor.poke({})


@pytest.mark.parametrize("start_from_trigger", [False, True])
@pytest.mark.parametrize(
    ("runs", "idle", "dag_id"), [(1, "wait", "shop"), (2, "wait", None), (1, "proceed", None)]
)
def test_it_makes_room_for_a_queued_run_where_it_waits_and_only_one_may_run(
    runs: int, idle: Any, dag_id: str | None, *, start_from_trigger: bool
) -> None:
    with DAG("shop", schedule=None, max_active_runs=runs):
        sensor = BinlogPositionSensor(
            task_id="changes",
            source=SHOP,
            when_nothing_new=idle,
            start_from_trigger=start_from_trigger,
        )

    arguments = sensor.start_trigger_args.trigger_kwargs
    if not start_from_trigger:
        arguments = sensor._trigger(None).serialize()[1]
    assert arguments is not None
    assert arguments["dag_id"] == dag_id
