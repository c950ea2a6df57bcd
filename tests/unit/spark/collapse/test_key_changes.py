"""Key changes: which change belongs to which row, whatever keys it had."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.collapse import key_changes
from airflow_provider_binlog.spark.collapse.key_changes import (
    LINEAGE,
    ROLE,
    Role,
    follow_key_changes,
    trace_lineages,
)
from airflow_provider_binlog.spark.staged.changes import CHANGE, EVENT, ORDER

WORDS = {
    "i": "insert",
    "d": "delete",
    "<": "update_preimage",
    ">": "update_postimage",
}


def lineages(changes: str) -> list[list[str]]:
    """Return the lineages of `i1 <1 >2`: each as its changes, R before a root, E of an end."""
    words = changes.split()
    rows = [(WORDS[word[0]], (word[1:],)) for word in words]
    marks = {Role.ROOT: "R", Role.END: "E", Role.IMAGE: ""}
    found: dict[int, list[str]] = {}
    for index, lineage, role in trace_lineages(rows):
        found.setdefault(lineage, []).append(marks[role] + words[index])
    return sorted(found.values())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("i1 >1", [["i1", ">1"]]),
        (">1 <1 >2", [["E<1"], [">1", ">2"]]),
        ("<1 >2 >2", [["E<1"], ["R<1", ">2", ">2"]]),
        ("<1 >2 <2 >3", [["E<1"], ["E<2"], ["R<1", ">2", ">3"]]),
        ("<1 >9 <2 >1 <9 >2", [["E<9"], ["R<1", ">9", ">2"], ["R<2", ">1"]]),
        ("<1 >2 d2", [["E<1"], ["Ed2"]]),
        ("<1 >2 i1 >1", [["R<1", ">2"], ["i1", ">1"]]),
        ("i1 <1 >2 i1 <2 >3 <1 >2", [["E<1"], ["i1", ">2"], ["i1", ">2", ">3"]]),
        ("<1 >1 >1", [[">1", ">1"]]),
        ("<1 >2 <2 >1", [["E<2"], ["R<1", ">2", ">1"]]),
    ],
)
def test_lineages(changes: str, expected: list[list[str]]) -> None:
    assert sorted(expected) == lineages(changes)


@pytest.mark.parametrize("changes", ["d1 >1", "<1 >2 <1 >3", "<1 >2 >1"])
def test_a_change_after_the_delete_is_refused(changes: str) -> None:
    with pytest.raises(MergeError, match="after its delete"):
        lineages(changes)


_SCHEMA = (
    f"c0 double, c1 int, {CHANGE} string, {ORDER} struct<sequence: bigint, row: bigint>,"
    f" {EVENT} struct<sequence: bigint, file: string, pos: bigint>"
)


def changes(*words: str) -> list[tuple[Any, ...]]:
    """Return rows for `<1`, `>2`, ...; images that follow a before-image are in its event."""
    rows, event = [], 0
    for row, word in enumerate(words):
        if row == 0 or words[row - 1][0] != "<":
            event += 1
        point = (1, row)
        rows.append((float(word[1:]), row, WORDS[word[0]], point, (1, "binlog.1", event)))
    return rows


@pytest.mark.spark
def test_only_keys_that_change_are_followed(spark: SparkSession) -> None:
    words = ("i0", "i5", "<0", ">1", "<5", ">5", "i-0.0", "<7", ">8", "d8")
    frame = spark.createDataFrame(changes(*words), _SCHEMA).repartition(3)

    rows = follow_key_changes(spark, frame, [0]).select("c1", LINEAGE, ROLE).collect()

    known = {(words[row.c1], row[ROLE]) for row in rows}
    expected = {("i0", 0), (">1", 0), ("i-0.0", 0), ("<7", 2), ("d8", 2)}
    assert known == expected | {("i5", None), (">5", None)}
    assert len({row[LINEAGE] for row in rows if row[LINEAGE] is not None}) == 4


@pytest.mark.spark
def test_without_a_key_change_before_images_are_left_out(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes("<1", ">1", "d2"), _SCHEMA)

    found = follow_key_changes(spark, frame, [0])

    assert LINEAGE not in found.columns
    assert {row.c1 for row in found.collect()} == {1, 2}


@pytest.mark.spark
def test_a_lonely_before_image_is_an_error(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes("<1", "d2"), _SCHEMA)

    with pytest.raises(Exception, match="without its after-image"):
        follow_key_changes(spark, frame, [0])


@pytest.mark.spark
def test_too_many_changes_are_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_changes, "CHANGES_MAX", 2)
    frame = spark.createDataFrame(changes("<1", ">2", "d2"), _SCHEMA)

    with pytest.raises(MergeError, match="binlog_row_image=FULL"):
        follow_key_changes(spark, frame, [0])
