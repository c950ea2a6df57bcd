"""Column changes: statements in an order in which no name is taken twice."""

from __future__ import annotations

import re

import pytest

from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.target.sql import alter_statements, order_renames

COLUMNS = ("id", "a", "b")


def statements(evolution: Evolution) -> list[str]:
    found = alter_statements("t", COLUMNS, evolution)
    return [each.removeprefix("ALTER TABLE t ").replace("`", "") for each in found]


def test_columns_are_added_before_others_are_dropped() -> None:
    evolution = Evolution(dropped=("id", "a"), added={"c": "int"}, widened={"b": "bigint"})

    assert statements(evolution) == [
        "ALTER COLUMN b TYPE bigint",
        "ADD COLUMNS (c int)",
        "DROP COLUMNS (id, a)",
    ]


def test_a_dropped_column_gives_its_name_away_first() -> None:
    assert statements(Evolution(dropped=("a",), added={"A": "int"})) == [
        "RENAME COLUMN a TO _column_1",
        "ADD COLUMNS (A int)",
        "DROP COLUMNS (_column_1)",
    ]
    assert statements(Evolution(dropped=("a",), renamed={"b": "a"})) == [
        "RENAME COLUMN a TO _column_1",
        "RENAME COLUMN b TO a",
        "DROP COLUMNS (_column_1)",
    ]


@pytest.mark.parametrize(
    ("renamed", "expected"),
    [
        ({"a": "b", "b": "c"}, ["b TO c", "a TO b"]),
        ({"a": "b", "b": "a"}, ["a TO _column_1", "b TO a", "_column_1 TO b"]),
        ({"a": "A"}, ["a TO _column_1", "_column_1 TO A"]),
    ],
    ids=["chain", "exchange", "case"],
)
def test_renames_never_meet(renamed: dict[str, str], expected: list[str]) -> None:
    found = statements(Evolution(renamed=renamed))

    assert [re.sub("RENAME COLUMN ", "", each) for each in found] == expected


def test_a_name_in_between_is_one_that_no_column_has() -> None:
    assert order_renames(["a", "b", "_Column_1"], {"a": "b", "b": "a"}) == [
        ("a", "_column_2"),
        ("b", "a"),
        ("_column_2", "b"),
    ]
