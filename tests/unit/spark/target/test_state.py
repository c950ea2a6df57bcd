"""The state of a lake table: what its properties say is read, ignored or refused."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.mark import Mark
from airflow_provider_binlog.spark.target.state import (
    LIVE,
    PROPERTY,
    LakeState,
    read_fields,
    read_key,
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


PROPERTY_NAME = "binlog.any"


def test_what_a_merge_wrote() -> None:
    assert read_key('["id", "a b"]', PROPERTY_NAME) == ("id", "a b")
    assert read_fields('{"1": ["c7", "3.2"], "2": [null, "0"]}', PROPERTY_NAME) == {
        1: ("c7", Mark(3, 2)),
        2: (None, Mark()),
    }


@pytest.mark.parametrize("value", ["", "7", "null", "[7]", "[[]]", '["id"', "[" * 100_000])
def test_a_key_that_was_edited_is_refused(value: str) -> None:
    with pytest.raises(MergeError, match=r"edited.*property=binlog\.any"):
        read_key(value, PROPERTY_NAME)


@pytest.mark.parametrize(
    "value",
    ["", "[]", '{"x": ["a", "1"]}', '{"1": ["a"]}', '{"1": ["a", 7]}', '{"1": [7, "1"]}'],
)
def test_fields_that_were_edited_are_refused(value: str) -> None:
    with pytest.raises(MergeError, match=r"edited.*property=binlog\.any"):
        read_fields(value, PROPERTY_NAME)
