"""The state of a lake table holds at its mark, and says nothing at another one."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.spark.target.mark import Mark
from airflow_provider_binlog.spark.target.state import (
    LIVE,
    PROPERTY,
    LakeState,
    read_state,
    state_property,
)

STALE = LakeState("stale", "a conversion", "log.000001:4", Mark(7, 2))


def test_a_state_is_believed_at_its_mark_alone() -> None:
    properties = state_property(STALE)

    assert read_state(properties, Mark(7, 2)) == STALE
    assert read_state(properties, Mark(7)) == LIVE
    assert read_state(state_property(LIVE), Mark(7)) == LIVE
    assert read_state(properties, Mark(7, 2), "20261122") == LIVE
    assert not STALE.is_merged


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": "x", "applied": null}'])
def test_a_property_that_is_not_ours_says_nothing(text: str) -> None:
    assert read_state({PROPERTY: text}, Mark(7)) == LIVE
    assert read_state({}, Mark(7)) == LIVE
