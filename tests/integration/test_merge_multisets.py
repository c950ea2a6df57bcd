"""Tables without a key whose lake tables are SELECT, duplicates and all: `mode="multiset"`."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.history import RowImage, Table
from tests.unit.spark.made_snapshots import SnapshotMaker
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace, in_either_format, sorted_rows

if TYPE_CHECKING:
    from tests.unit.spark.staged_changes import ColumnType as Type


MULTISET = TableRules({"*": TableOptions(mode="multiset")})
INT_NULL = replace(BIGINT, mysql="int", arrow=INT.arrow)
DOUBLE = ColumnType("double", pa.float64())
SOURCES = {"from": TEXT, "found": DOUBLE, "copies": INT_NULL}
VALUES: dict[Type, list[Any]] = {
    TEXT: [None, "", "it's", "`x` \N{SNOWMAN}"],
    DOUBLE: [None, 0.0, -0.0, 1e300],
    INT_NULL: [None, 1, 1],
}


def change(table: Table, chance: Random, times: int) -> None:
    """Change rows, most of which have equals, in images of any kind."""
    for _ in range(times):
        table.source.row_image = chance.choice([*RowImage])
        values = {name: chance.choice(VALUES[type_]) for name, type_ in table.types.items()}
        action = chance.choice("iiuud") if table.rows else "i"
        if action == "i":
            table.insert(**values)
        elif action == "u":
            given = chance.sample([*values], chance.randint(0, len(values)))
            table.update(chance.choice([*table.rows]), **{name: values[name] for name in given})
        else:
            table.delete(chance.choice([*table.rows]))


@in_either_format
def test_random_changes_leave_the_rows_that_select_returns(workplace: Workplace) -> None:
    chance = Random(3)
    table = workplace.new_source().create(workplace.database, "t", dict(SOURCES), ())
    for times in (30, 20):
        change(table, chance, times)
        workplace.follow(table, table_options=MULTISET)
    table.alter("...", {**table.types, "more": INT_NULL}, more=1)
    change(table, chance, 20)
    workplace.follow(table, table_options=MULTISET)
    table.truncate()
    change(table, chance, 10)
    workplace.follow(table, table_options=MULTISET)
    # All of it at once: what does not change is not written.
    row = next(iter(table.values))
    table.insert(**row)
    table.delete([*table.rows][-1])
    table.source.commit()
    (report,) = workplace.merge(table_options=MULTISET).tables
    assert report.rows == {"inserted": 0, "updated": 0, "deleted": 0}
    workplace.check(table)


@in_either_format
def test_a_reload_replaces_a_changelog_and_repairs_a_multiset(workplace: Workplace) -> None:
    chance = Random(4)
    table = workplace.new_source().create(workplace.database, "t", dict(SOURCES), (), logged=False)
    for found in (0.0, -0.0, 0.0, None):
        table.load(**{"from": "old", "found": found})
    change(table, chance, 5)
    table.source.commit()
    workplace.merge()
    change(table, chance, 1)
    table.source.commit()
    held = workplace.held(table_options=MULTISET)
    assert "its options say a multiset" in held.reason

    maker = SnapshotMaker(table, is_exact=True).read()
    change(table, chance, 10)
    maker.commit()
    workplace.follow(table, in_order=False, table_options=MULTISET)
    change(table, chance, 10)
    workplace.follow(table, in_order=False, table_options=MULTISET)

    # Somebody removes a row, which is then deleted: that is no guess.
    table.insert(**{"from": "theirs"})
    number = [*table.rows][-1]
    workplace.follow(table, in_order=False, table_options=MULTISET)
    workplace.spark.sql(f"DELETE FROM {workplace.target(table)} WHERE `from` = 'theirs'")
    table.delete(number)
    table.source.commit()
    held = workplace.held(table_options=MULTISET)
    assert "rows were deleted that the lake table does not have" in held.reason
    maker = SnapshotMaker(table, is_exact=True).read()
    maker.commit()
    change(table, chance, 5)
    workplace.follow(table, in_order=False, table_options=MULTISET)


def test_a_row_that_was_never_loaded_is_not_deleted(quick_workplace: Workplace) -> None:
    table = quick_workplace.old_table(key=())
    table.insert(id=50, note="new")
    table.delete(1)
    table.source.commit()

    held = quick_workplace.held(table_options=MULTISET)

    assert "rows were deleted that the log does not have" in held.reason
    maker = SnapshotMaker(table, is_exact=True).read()
    maker.commit()
    table.insert(id=50, note="new")
    table.source.commit()
    quick_workplace.merge(table_options=MULTISET)
    assert sorted_rows(quick_workplace.found(table)) == sorted_rows(table.values)


@pytest.mark.fault("both-merges", lakes="delta iceberg", stores="file")
@pytest.mark.parametrize("removes", [False, True])
@in_either_format
def test_two_merges_at_once_count_no_row_twice_that_nobody_names(
    workplace: Workplace, removes: bool
) -> None:
    """Another merge commits the same changes after this one has read the state of the table."""
    table = workplace.new_source().create(workplace.database, "t", dict(SOURCES), ())
    for _ in range(3):
        table.insert(**{"from": "x"})
    workplace.follow(table, table_options=MULTISET)
    table.insert(**{"from": "x"})
    if removes:
        table.insert(**{"from": "y"})
        table.delete(1)
        table.delete(2)
    table.source.commit()
    (second,) = workplace.merge_overtaken(table_options=MULTISET).tables

    assert not second.is_merged
    assert second.retryable or second.error is None
    if workplace.format == "iceberg":
        # It checks what a commit was built on once that is done.
        held = workplace.held(table_options=MULTISET)
        assert "two merges committed to it at once" in held.reason
        SnapshotMaker(table, is_exact=True).read().commit()
    table.insert(**{"from": "z"})
    workplace.follow(table, in_order=False, table_options=MULTISET)
