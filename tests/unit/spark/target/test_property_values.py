"""Properties of a lake table: read as they were written, or refused by their names."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.mark import Mark
from airflow_provider_binlog.spark.target.property_values import read_fields, read_key

NAME = "binlog.any"


def test_what_a_merge_wrote() -> None:
    assert read_key('["id", "a b"]', NAME) == ("id", "a b")
    assert read_fields('{"1": ["c7", "3.2"], "2": [null, "0"]}', NAME) == {
        1: ("c7", Mark(3, 2)),
        2: (None, Mark()),
    }


@pytest.mark.parametrize("value", ["", "7", "null", "[7]", "[[]]", '["id"', "[" * 100_000])
def test_a_key_that_was_edited_is_refused(value: str) -> None:
    with pytest.raises(MergeError, match=r"edited.*property=binlog\.any"):
        read_key(value, NAME)


@pytest.mark.parametrize(
    "value",
    ["", "[]", '{"x": ["a", "1"]}', '{"1": ["a"]}', '{"1": ["a", 7]}', '{"1": [7, "1"]}'],
)
def test_fields_that_were_edited_are_refused(value: str) -> None:
    with pytest.raises(MergeError, match=r"edited.*property=binlog\.any"):
        read_fields(value, NAME)
