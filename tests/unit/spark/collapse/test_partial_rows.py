"""Collapse of parts: the last value that an image has, and what a row lacks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.collapse.partial_rows import (
    DEFAULT,
    END,
    MOVED,
    ROW,
    collapse_parts,
    mark_before_images,
)
from airflow_provider_binlog.spark.staged.changes import CHANGE, EVENT, ORDER
from airflow_provider_binlog.spark.target.protocol import LACKS, held
from tests.unit.spark.plain_collapse import Image, collapse_plainly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_POINT = "struct<sequence: bigint, row: bigint>"
_SCHEMA = (
    f"c0 int, c1 string, c2 string, {CHANGE} string, {ORDER} {_POINT}, held0 boolean, held1 boolean"
)
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


def collapsed(frame: DataFrame, deletes: str = "hard") -> dict[int | None, Any]:
    found = collapse_parts(frame, width=3, key=[0], groups=GROUPS, deletes=deletes).collect()
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


def marked(
    spark: SparkSession, *changes: tuple[int, Change], deletes: str = "hard"
) -> dict[int | None, Any]:
    """Return the rows of changes with the numbers of their events, by key."""
    plain = rows(*(change for _, change in changes))
    events = [(*row, event) for row, (event, _) in zip(plain, changes, strict=True)]
    frame = spark.createDataFrame(events, f"{_SCHEMA}, {EVENT} int")
    return collapsed(mark_before_images(frame, key=[0], groups=GROUPS), deletes)


def test_a_key_that_changes_is_followed_only_with_the_whole_row(spark: SparkSession) -> None:
    found = marked(
        spark,
        # Whole, and changed again after that.
        (1, ("update_preimage", 1, "-", "-")),
        (1, ("update_postimage", 2, "a", "b")),
        (2, ("update_preimage", 2, "-", "-")),
        (2, ("update_postimage", 2, "-", "c")),
        # Each row one further in one event, without the last column.
        (3, ("update_preimage", 6, "-", "-")),
        (3, ("update_postimage", 7, "d", "-")),
        (3, ("update_preimage", 5, "-", "-")),
        (3, ("update_postimage", 6, "e", "-")),
        # There and back again.
        (4, ("update_preimage", 8, "-", "-")),
        (4, ("update_postimage", 9, "f", "g")),
        (5, ("update_preimage", 9, "-", "-")),
        (5, ("update_postimage", 8, "-", "-")),
    )

    assert {key: (row.deleted, row[LACKS]) for key, row in found.items()} == {
        1: (True, None),
        2: (False, None),
        5: (True, MOVED),
        6: (False, MOVED),
        7: (False, ROW),
        8: (False, END),
        9: (True, MOVED),
    }
    assert (found[2].c1, found[2].c2, found[2].changes) == ("a", "c", 3)


def test_a_before_image_of_the_same_key_changes_nothing(spark: SparkSession) -> None:
    found = marked(
        spark,
        (1, ("update_preimage", 1, "-", "x")),
        (1, ("update_postimage", 1, "a", "-")),
        (2, ("insert", 2, "a", "b")),
        (3, ("update_preimage", 2, "a", "b")),
        (3, ("update_postimage", 2, "-", "c")),
    )

    assert {key: (row.c1, row.c2, row[LACKS]) for key, row in found.items()} == {
        1: ("a", None, ROW),
        2: ("a", "c", None),
    }


def test_random_changes_are_collapsed_as_one_by_one(spark: SparkSession) -> None:
    chance, names = Random(20), ("c1", "c2")
    changes: list[tuple[int, Change]] = []
    images: list[Image] = []
    for event in range(4000):
        # As many small tables in one: keys change within each.
        table = event % 400 * 10
        kind = chance.choice(["insert", "delete", "update_postimage", "update_preimage"])
        kinds = [kind, "update_postimage"] if kind == "update_preimage" else [kind]
        for kind in kinds:
            key, values = table + chance.randrange(3), (chance.choice("-ab"), chance.choice("-ab"))
            changes.append((event, (kind, key, *values)))
            image = {name: value for name, value in zip(names, values, strict=True) if value != "-"}
            images.append(Image(kind, (key,), image))

    found = marked(spark, *changes)

    expected = collapse_plainly(images, names)
    assert {row[LACKS] for row in found.values()} == {None, ROW, DEFAULT, END, MOVED}
    assert {(key,) for key in found} == expected.keys()
    for (key,), left in expected.items():
        row = found[key]
        assert (row.deleted, row[LACKS]) == (left.deleted, left.lacks(names)), key
        if not left.deleted:
            assert (row.c1, row.c2) == tuple(map(left.values.get, names)), key
            flags = row[held(0)], row[held(1)]
            assert flags == tuple(name in left.values for name in names), key


def random_images(chance: Random, key: int) -> Iterator[tuple[str, int, str, str]]:
    """Yield images of three rows, as a server may log them, some from before the first one."""
    rows = dict.fromkeys(range(key, key + 3), "")
    for _ in range(chance.randint(1, 12)):
        values = chance.choice("-ab"), chance.choice("-ab")
        here = [each for each, state in rows.items() if state != "deleted"]
        free = [each for each, state in rows.items() if state != "there"]
        kind = chance.choice(["insert", "delete", "update", "move"])
        if kind == "insert" and free:
            rows[at := chance.choice(free)] = "there"
            yield "insert", at, *values
        elif kind == "delete" and here:
            rows[at := chance.choice(here)] = "deleted"
            yield "delete", at, "-", "-"
        elif kind == "update" and here:
            yield "update_postimage", chance.choice(here), *values
        elif kind == "move" and here and {*free} - {*here}:
            old, new = chance.choice(here), chance.choice(sorted({*free} - {*here}))
            rows[old], rows[new] = "deleted", "there"
            yield "update_preimage", old, "-", "-"
            # Without the whole row the table is refused.
            yield "update_postimage", new, "a", "b"


@pytest.mark.parametrize("deletes", ["soft", "ignore"])
def test_rows_that_are_kept_have_what_they_had(spark: SparkSession, deletes: str) -> None:
    chance, names = Random(21), ("c1", "c2")
    changes: list[tuple[int, Change]] = []
    for history in range(400):
        for change in random_images(chance, history * 10):
            event = changes[-1][0] if changes and changes[-1][1][0] == "update_preimage" else 0
            changes.append((event or len(changes) + 1, change))
    images = [
        Image(kind, (key,), {n: v for n, v in zip(names, values, strict=True) if v != "-"})
        for _, (kind, key, *values) in changes
    ]

    found = marked(spark, *changes, deletes=deletes)

    expected = collapse_plainly(images, names, deletes)
    assert {row[LACKS] for row in found.values()} >= {None, ROW, DEFAULT}
    for (key,), left in expected.items():
        if left.deleted and deletes == "ignore":
            # It has not even a key.
            assert (found[None].deleted, found[None][LACKS]) == (True, None)
            continue
        row = found[key]
        assert row.deleted == left.deleted, key
        assert row[LACKS] == left.lacks(names, deletes), key
        assert (row.c1, row.c2) == tuple(map(left.values.get, names)), key
        flags = row[held(0)], row[held(1)]
        assert flags == tuple(name in left.values for name in names), key


def test_an_unknown_change_is_an_error(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows(("truncate", 1, "a", "b")), _SCHEMA)

    with pytest.raises(Exception, match=r"change type|USER_RAISED"):
        collapsed(frame)
