"""BinlogPositionSensor only assigns when it is constructed; the rest needs a server."""

from __future__ import annotations

from typing import Any

import pytest
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
