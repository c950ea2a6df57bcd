"""The state of a lake table: what its properties say is read, ignored or refused."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import FormatError, MergeError
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    PROPERTY,
    Hold,
    Mark,
    hold_property,
    live_property,
    read_fields,
    read_hold,
    read_key,
)

STALE = Hold("stale", "a conversion", "log.000001:4", since="2026-11-23")
IN_ORDER = [NOTHING, Mark(0, 1), Mark(7), Mark(7, 1), Mark(7, 12), Mark(8), Mark(10)]


def test_a_hold_is_effective_at_its_mark_alone() -> None:
    properties = hold_property(STALE, Mark(7, 2))
    found = read_hold(properties, Mark(7, 2))

    assert found == STALE
    assert found is not None
    assert found.since == STALE.since
    assert read_hold(properties, Mark(7)) is None
    assert read_hold(properties, Mark(7, 2), "20261122") is None
    assert read_hold(hold_property(STALE, None), Mark(7)) == STALE
    assert read_hold(live_property(), Mark(7)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": "x", "applied": null}'])
def test_a_property_that_is_not_ours_says_nothing(text: str) -> None:
    assert read_hold({PROPERTY: text}, Mark(7)) is None
    assert read_hold({}, Mark(7)) is None


def test_what_a_merge_wrote() -> None:
    assert read_key('["id", "a b"]') == ("id", "a b")
    assert read_fields('{"1": ["c7", "3.2"], "2": [null, "0"]}') == {
        1: ("c7", Mark(3, 2)),
        2: (None, Mark()),
    }


@pytest.mark.parametrize("value", ["", "7", "null", "[7]", "[[]]", '["id"', "[" * 100_000])
def test_a_key_that_was_edited_is_refused(value: str) -> None:
    with pytest.raises(MergeError, match=r"edited.*property=binlog\.key"):
        read_key(value)


@pytest.mark.parametrize(
    "value",
    ["", "[]", '{"x": ["a", "1"]}', '{"1": ["a"]}', '{"1": ["a", 7]}', '{"1": [7, "1"]}'],
)
def test_fields_that_were_edited_are_refused(value: str) -> None:
    with pytest.raises(MergeError, match=r"edited.*property=binlog\.fields"):
        read_fields(value)


def test_marks_are_ordered_as_the_log() -> None:
    shuffled = [*IN_ORDER[3:], *IN_ORDER[:3]]

    assert sorted(shuffled) == IN_ORDER


@pytest.mark.parametrize("mark", IN_ORDER)
def test_text_is_parsed_again(mark: Mark) -> None:
    assert Mark.parse(str(mark)) == mark


@pytest.mark.parametrize("text", ["", "-1", "7.", ".7", "7.1.1", " 7", "\u0667", "x", "1e3"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="applied mark"):
        Mark.parse(text)
