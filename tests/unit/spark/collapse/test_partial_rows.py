"""Collapse of parts: the last value that an image has, and what a row lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.collapse.key_changes import LINEAGE, ROLE, Role
from airflow_provider_binlog.spark.collapse.partial_rows import (
    DEFAULT,
    END,
    ROOT,
    ROW,
    collapse_parts,
    complete_moved,
    count_lacking,
)
from airflow_provider_binlog.spark.staged.changes import CHANGE, ORDER
from airflow_provider_binlog.spark.target.protocol import LACKS, held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_POINT = "struct<sequence: bigint, row: bigint>"
_SCHEMA = (
    f"c0 int, c1 string, c2 string, {CHANGE} string, {ORDER} {_POINT}, held0 boolean, held1 boolean"
)
_LINEAGES = f"{_SCHEMA}, {LINEAGE} bigint, {ROLE} int"
GROUPS = [[1], [2]]

Change = tuple[str, int, str, str]


def rows(*changes: Change) -> list[tuple[Any, ...]]:
    """Return changes as (type, key, c1, c2); a column that is "-" is absent."""
    return [
        (
            key,
            *(None if each in ("-", "NULL") else each for each in values),
            kind,
            (1, point),
            *(each != "-" for each in values),
        )
        for point, (kind, key, *values) in enumerate(changes)
    ]


def collapsed(frame: DataFrame) -> dict[int, Any]:
    found = collapse_parts(frame, width=3, key=[0], groups=GROUPS).collect()
    return {row.c0: row for row in found}


def one(spark: SparkSession, *changes: Change) -> tuple[Any, ...]:
    """Return both columns, whether each is held, whether the row is deleted, and what it lacks."""
    (row,) = collapsed(spark.createDataFrame(rows(*changes), _SCHEMA)).values()
    assert row.changes == len(changes)
    return row.c1, row.c2, row[held(0)], row[held(1)], row.deleted, row[LACKS]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            [("update_postimage", 1, "a", "-"), ("update_postimage", 1, "NULL", "-")],
            (None, None, True, False, False, ROW),
        ),
        (
            [("update_postimage", 1, "a", "-"), ("update_postimage", 1, "-", "b")],
            ("a", "b", True, True, False, None),
        ),
        (
            [("insert", 1, "a", "b"), ("update_postimage", 1, "-", "-")],
            ("a", "b", True, True, False, None),
        ),
        ([("insert", 1, "a", "-")], ("a", None, True, False, False, DEFAULT)),
        (
            [("update_postimage", 1, "-", "old"), ("delete", 1, "-", "-"), ("insert", 1, "a", "-")],
            ("a", None, True, False, False, DEFAULT),
        ),
        (
            [("insert", 1, "a", "b"), ("delete", 1, "-", "b")],
            (None, None, False, False, True, None),
        ),
        (
            [("delete", 1, "a", "b"), ("update_postimage", 1, "c", "-")],
            ("c", None, True, False, False, END),
        ),
    ],
)
def test_what_is_left_of_a_row(
    spark: SparkSession, changes: list[Change], expected: tuple[Any, ...]
) -> None:
    assert one(spark, *changes) == expected


def test_a_row_that_changed_its_key_takes_the_rest_from_the_target(spark: SparkSession) -> None:
    changes = rows(
        ("update_preimage", 1, "-", "-"),
        ("update_postimage", 2, "a", "-"),
        ("update_preimage", 7, "-", "-"),
        ("update_postimage", 8, "-", "b"),
        ("update_postimage", 9, "-", "c"),
    )
    roles = [(1, Role.ROOT), (1, Role.IMAGE), (2, Role.ROOT), (2, Role.IMAGE), (None, None)]
    end = (*changes[0], 3, int(Role.END))
    lived = [
        (*change, lineage, None if role is None else int(role))
        for change, (lineage, role) in zip(changes, roles, strict=True)
    ]
    frame = spark.createDataFrame([*lived, end], _LINEAGES)
    found = collapse_parts(frame, width=3, key=[0], groups=GROUPS).localCheckpoint()
    assert {row.c0: row[LACKS] for row in found.collect()} == {1: None, 2: ROOT, 8: ROOT, 9: ROW}
    target = spark.createDataFrame([(1, "x", "y"), (2, "no", "no")], "c0 int, c1 string, c2 string")

    whole = complete_moved(found, target, width=3, key=[0], groups=GROUPS)

    lacking = {row.c0: (row.c1, row.c2, row.deleted, row[LACKS]) for row in whole.collect()}
    assert lacking == {
        1: (None, None, True, None),
        2: ("a", "y", False, None),
        8: (None, "b", False, ROOT),
        9: (None, "c", False, ROW),
    }
    counted = count_lacking(whole.where(f"{LACKS} = '{ROOT}'"), key=[0], groups=GROUPS)
    assert (counted.rows, counted.key, counted.columns) == (1, ("8",), (1,))


def test_an_unknown_change_is_an_error(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows(("truncate", 1, "a", "b")), _SCHEMA)

    with pytest.raises(Exception, match=r"change type|USER_RAISED"):
        collapsed(frame)
