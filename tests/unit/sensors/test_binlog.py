"""BinlogPositionSensor only assigns when it is made; the rest needs a server."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor


def test_a_start_must_be_chosen() -> None:
    with pytest.raises(TypeError, match="start"):
        BinlogPositionSensor(task_id="changes", source="shop")  # type: ignore[call-arg]


def test_template_fields_are_attributes() -> None:
    sensor = BinlogPositionSensor(task_id="changes", source="shop", start="now")

    assert all(hasattr(sensor, name) for name in sensor.template_fields)


def test_a_word_it_does_not_know_fails_for_good() -> None:
    word: Any = "sleep"
    sensor = BinlogPositionSensor(
        task_id="changes", source="shop", start="now", when_nothing_new=word
    )

    with pytest.raises(AirflowFailException, match="wait, skip"):
        sensor.poke({})
