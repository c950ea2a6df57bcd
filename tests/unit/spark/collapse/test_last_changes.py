"""Last changes: what is found by the keys alone is what the collapse of whole rows leaves."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.spark.collapse import source_rows
from airflow_provider_binlog.spark.collapse.kept_rows import (
    CHANGES,
    Collapsed,
    KeyColumn,
    count_actions,
)
from airflow_provider_binlog.spark.collapse.source_rows import (
    collapse,
    find_last,
    keep_last,
    number_changes,
    number_parts,
)
from airflow_provider_binlog.spark.staged.changes import CHANGE, INDEX, ORDER, PART
from tests.unit.spark.collapse.test_whole_rows import Simulation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCATED = (
    f"{CHANGE} string, {ORDER} struct<sequence: bigint, row: bigint>, {PART} string, {INDEX} bigint"
)
_PART = Part(
    path="shop/orders/0000000000000042-000000-9f86d081884c.parquet",
    schema=1,
    rows=10,
    bytes=1,
    sha256="",
    first_row=100,
    last_row=180,
    first_commit=0,
    last_commit=0,
    changes={},
)


def _part(sequence: int, ordinal: int, first_row: int, last_row: int) -> Part:
    path = f"shop/orders/{sequence:016}-{ordinal:06}-9f86d081884c.parquet"
    return replace(_PART, path=path, first_row=first_row, last_row=last_row)


def test_rows_count_in_the_order_of_the_log() -> None:
    parts = [_part(43, 0, 5, 90), _part(42, 1, 200, 250), _part(42, 0, 100, 180)]

    numbers = number_parts(parts)

    assert numbers == {
        "0000000000000042-000000-9f86d081884c.parquet": 0,
        "0000000000000042-000001-9f86d081884c.parquet": 10,
        "0000000000000043-000000-9f86d081884c.parquet": 20,
    }


def test_rows_of_parts_that_overlap_have_no_number() -> None:
    assert number_parts([_part(42, 0, 100, 180), _part(42, 1, 150, 250)]) is None


@pytest.mark.spark
def test_random_histories_leave_the_rows_of_a_collapse(spark: SparkSession) -> None:
    chance = random.Random(20261123)
    changes: list[tuple[Any, ...]] = []
    for history in range(100):
        table = Simulation(history, chance)
        for _ in range(chance.randint(1, 30)):
            table.step()
        changes += table.changes
    # Rows of a history stay in their order; each has a number of its own.
    changes.sort(key=lambda change: change[4])
    half = len(changes) // 2
    rows = [
        (*change, f"part{number // half}", number % half) for number, change in enumerate(changes)
    ]
    chance.shuffle(rows)
    frame = spark.createDataFrame(rows, f"c0 int, c1 int, c2 string, {_LOCATED}").repartition(3)
    numbered = number_changes(frame, {f"part{each}": each * half for each in range(3)})
    range_of = KeyColumn("c1", "int")

    bits, counted = find_last(numbered, (0, 1), range_of, most=len(changes))
    found = keep_last(numbered, bits, width=3)

    folded = collapse(frame, width=3, key=(0, 1))
    assert counted == count_actions(folded, range_of)
    assert counted.changes == len(changes)
    assert sorted(found.collect()) == sorted(folded.drop(CHANGES).collect())


@pytest.mark.spark
def test_keys_are_those_of_a_group(spark: SparkSession) -> None:
    rows = [
        (0.0, 1, "insert", (1, 1), "a", 0),
        (0.0, 1, "update_preimage", (1, 2), "a", 1),
        (-0.0, 2, "update_postimage", (1, 3), "a", 2),
        (None, 3, "insert", (1, 4), "a", 63),
        (None, 4, "delete", (1, 5), "b", 0),
    ]
    frame = spark.createDataFrame(rows, f"c0 double, c1 int, {_LOCATED}")
    numbered = number_changes(frame, {"a": 0, "b": 64})

    bits, counted = find_last(numbered, (0,), None, most=5)
    found = keep_last(numbered, bits, width=2).collect()

    assert (counted.changes, counted.deletes, counted.upserts) == (5, 1, 1)
    assert sorted(map(str, found)) == [
        "Row(c0=-0.0, c1=2, deleted=False)",
        "Row(c0=None, c1=4, deleted=True)",
    ]


@pytest.mark.spark
def test_what_spark_counts_twice_is_counted_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As it does where a task ran twice, since its executor was lost with what it had written.
    monkeypatch.setattr(source_rows, "counted", lambda _: Collapsed(4, 1, 3))
    rows = [(1, "insert", (1, 1), "a", 0), (2, "delete", (1, 2), "a", 1)]
    frame = number_changes(spark.createDataFrame(rows, f"c0 int, {_LOCATED}"), {"a": 0})

    _, found = find_last(frame, (0,), None, most=2)

    assert found == Collapsed(2, 1, 1)


@pytest.mark.spark
def test_an_unknown_change_is_an_error(spark: SparkSession) -> None:
    rows = [(1, "truncate", (1, 1), "a", 0)]
    frame = number_changes(spark.createDataFrame(rows, f"c0 int, {_LOCATED}"), {"a": 0})

    with pytest.raises(Exception, match=r"change type|USER_RAISED"):
        find_last(frame, (0,), None, most=1)
