"""Collapse: what is left of many changes is what the table holds after them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.spark.collapse.kept_rows import KeyColumn, checkpoint, count_actions
from airflow_provider_binlog.spark.collapse.source_rows import collapse
from airflow_provider_binlog.spark.job.session import fixed_partitions
from airflow_provider_binlog.spark.staged.changes import CHANGE, ORDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_HISTORIES = 300
_CHANGE = f"{CHANGE} string, {ORDER} struct<sequence: bigint, row: bigint>"
_SCHEMA = f"c0 int, c1 int, c2 string, {_CHANGE}"
_KEY = KeyColumn("c1", "int")

Row = tuple[int, int, str]


class Simulation:
    """A table with the key (history, id): changes go in, rows and change rows come out."""

    def __init__(self, history: int, chance: random.Random) -> None:
        self.history, self.chance = history, chance
        self.rows: dict[int, Row] = {}
        self.changes: list[tuple[Any, ...]] = []
        self.sequence, self.row = 1, 0
        self.all_before_images = chance.random() < 0.3

    def log(self, change: ChangeType, row: Row) -> None:
        self.row += self.chance.randint(1, 9)
        self.changes.append((*row, change.value, (self.sequence, self.row)))

    def make(self, id_: int) -> Row:
        return (self.history, id_, f"{self.sequence}.{self.row}")

    def update(self, before: int, after: int) -> None:
        row = self.rows.pop(before)
        if before != after or self.all_before_images:
            self.log(ChangeType.UPDATE_PREIMAGE, row)
        self.rows[after] = self.make(after)
        self.log(ChangeType.UPDATE_POSTIMAGE, self.rows[after])

    def step(self) -> None:
        ids, used = range(6), list(self.rows)
        free = [id_ for id_ in ids if id_ not in self.rows]
        action = self.chance.choice("iiuukkdsn")
        if action == "i" and free:
            id_ = self.chance.choice(free)
            self.rows[id_] = self.make(id_)
            self.log(ChangeType.INSERT, self.rows[id_])
        elif action == "u" and used:
            id_ = self.chance.choice(used)
            self.update(id_, id_)
        elif action == "k" and used and free:
            self.update(self.chance.choice(used), self.chance.choice(free))
        elif action == "d" and used:
            self.log(ChangeType.DELETE, self.rows.pop(self.chance.choice(used)))
        elif action == "s" and len(used) > 1:
            one, other = self.chance.sample(used, 2)
            self.update(one, 99)
            self.update(other, one)
            self.update(99, other)
        elif action == "n":
            self.sequence, self.row = self.sequence + 1, 0


def test_random_histories_leave_what_the_table_holds(spark: SparkSession) -> None:
    chance = random.Random(20261121)
    changes: list[tuple[Any, ...]] = []
    expected: set[Row] = set()
    before: set[Row] = set()
    for history in range(_HISTORIES):
        table = Simulation(history, chance)
        for _ in range(chance.randint(0, 6)):
            table.step()
        before.update(table.rows.values())
        table.changes.clear()
        for _ in range(chance.randint(1, 30)):
            table.step()
        changes += table.changes
        expected.update(table.rows.values())
    chance.shuffle(changes)
    frame = spark.createDataFrame(changes, _SCHEMA).repartition(3)

    actions = collapse(frame, width=3, key=(0, 1)).collect()

    assert len(actions) == len({change[:2] for change in changes})
    assert sum(row["changes"] for row in actions) == len(changes)
    after = {row[:2]: row for row in before}
    for action in actions:
        after.pop((action.c0, action.c1), None)
        if not action.deleted:
            after[action.c0, action.c1] = (action.c0, action.c1, action.c2)
    assert set(after.values()) == expected


def test_many_rows_are_shuffled_once_for_the_collapse_and_the_join(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session.conf.set("spark.sql.adaptive.enabled", "true")
    rows = [(id_ % 7, id_, "a", "insert", (1, id_)) for id_ in range(50)]
    changes = session.createDataFrame(rows, _SCHEMA).repartition("c0")
    target = session.createDataFrame([(5,), (9,)], "id int")

    with fixed_partitions(session):
        kept = checkpoint(collapse(changes, width=3, key=(0,)))
    joined = kept.join(target, F.expr("c0 = id"), "left")

    assert sorted(joined.select("c0", "c1", "id").collect()) == [
        (key, 49 - (49 - key) % 7, 5 if key == 5 else None) for key in range(7)
    ]
    plan: Any = joined._jdf.queryExecution().executedPlan()
    assert plan.initialPlan().toString().count("Exchange hashpartitioning(id") == 1
    assert "Exchange hashpartitioning(c0" not in plan.initialPlan().toString()


def test_actions_are_counted(spark: SparkSession) -> None:
    rows = [
        (1, 7, "a", "insert", (1, 10)),
        (1, 7, "a", "update_preimage", (1, 20)),
        (1, 9, "a", "update_postimage", (1, 30)),
        (1, 8, "b", "delete", (2, 5)),
    ]
    frame = spark.createDataFrame(rows, _SCHEMA)

    counted = count_actions(collapse(frame, width=3, key=(1,)), _KEY)

    assert (counted.changes, counted.deletes, counted.upserts) == (4, 2, 1)
    assert counted.intervals == (("7", "9"),)


def test_a_key_that_is_null_lies_in_no_range(spark: SparkSession) -> None:
    rows = [(1, 7, "a", "insert", (1, 10)), (1, None, "a", "delete", (1, 20))]
    frame = spark.createDataFrame(rows, _SCHEMA)

    counted = count_actions(collapse(frame, width=3, key=(1,)), _KEY)

    assert (counted.deletes, counted.upserts) == (1, 1)
    assert counted.intervals == ()


def test_no_changes_are_no_actions(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], _SCHEMA)

    counted = count_actions(collapse(frame, width=3, key=(1,)), _KEY)

    assert (counted.changes, counted.deletes, counted.upserts) == (0, 0, 0)
    assert counted.intervals == ()


@pytest.mark.parametrize("change", ["truncate", None])
def test_an_unknown_change_is_an_error(spark: SparkSession, change: str | None) -> None:
    frame = spark.createDataFrame([(1, 1, "a", change, (1, 1))], _SCHEMA)

    with pytest.raises(Exception, match=r"change type|USER_RAISED"):
        collapse(frame, width=3, key=(1,)).collect()


def test_float_keys_group_as_mysql_compares_them(spark: SparkSession) -> None:
    schema = f"c0 double, c1 int, {_CHANGE}"
    rows = [
        (0.0, 1, "insert", (1, 1)),
        (0.0, 1, "update_preimage", (1, 2)),
        (-0.0, 2, "update_postimage", (1, 3)),
    ]

    (row,) = collapse(spark.createDataFrame(rows, schema), width=2, key=(0,)).collect()

    assert str(row.c0) == "-0.0"
    assert (row.c1, row.deleted, row.changes) == (2, False, 3)


def test_string_keys_differ_by_their_bytes(spark: SparkSession) -> None:
    schema = f"c0 string, {_CHANGE}"
    keys = ["a", "A", "a ", "\u00e4", "a\u0308", ""]
    rows = [(key, "insert", (1, point)) for point, key in enumerate(keys)]

    found = collapse(spark.createDataFrame(rows, schema), width=1, key=(0,)).collect()

    assert sorted(row.c0 for row in found) == sorted(keys)
