"""Renames: under which names a table's rows were logged, and whether all of them were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import Manifest, Statement
from airflow_provider_binlog.spark.plan.renames import History, Stretch, maybe_history
from airflow_provider_binlog.spark.plan.table_plan import TablePlan, plan_table
from tests.unit.spark.plans import NAME, manifest, statement

GHOST, OLD, OTHER = ("shop", "_orders_gho"), ("shop", "_orders_del"), ("shop", "other")
SWAP = (NAME, OLD, GHOST, NAME)


def make(row: int, name: TableName, text: str = "CREATE TABLE x LIKE orders") -> Statement:
    return statement(row, "CREATE TABLE", text, name)


def rename(row: int, *names: TableName) -> Statement:
    return statement(row, "RENAME TABLE", "RENAME TABLE ...", *names)


def history(name: TableName, *manifests: Manifest) -> History:
    found = maybe_history(name, manifests)
    assert found is not None
    return found


def test_a_table_that_is_not_renamed_has_none() -> None:
    assert maybe_history(NAME, [manifest(4, [], (make(10, NAME), rename(20, GHOST, OLD)))]) is None


def test_behind_a_swap_a_table_is_what_was_logged_of_the_other_one() -> None:
    first = manifest(4, [], (make(10, GHOST),))
    second = manifest(5, [], (rename(30, *SWAP), make(40, OTHER)))

    found = history(NAME, first, second)

    assert found.stretches == (Stretch(GHOST, (4, 10), (5, 30)), Stretch(NAME, (5, 30), None))
    assert (found.complete, found.gone) == (True, False)


def test_without_its_creation_the_other_one_is_not_complete() -> None:
    found = history(NAME, manifest(5, [], (rename(30, *SWAP),)))

    assert found.stretches[0] == Stretch(GHOST, None, (5, 30))
    assert not found.complete


def test_what_was_not_captured_is_not_complete() -> None:
    whole = manifest(4, [], (make(10, GHOST), rename(30, *SWAP)))

    found = history(NAME, replace(whole, exclude=("shop._*",)))

    assert (found.complete, found.lost) == (False, GHOST)


def test_create_if_not_exists_may_make_nothing() -> None:
    perhaps = make(10, GHOST, "CREATE TABLE IF NOT EXISTS x (...)")
    assert not history(NAME, manifest(4, [], (perhaps, rename(30, *SWAP)))).complete

    dropped = statement(5, "DROP TABLE", "", GHOST)
    found = history(NAME, manifest(4, [], (dropped, perhaps, rename(30, *SWAP))))

    assert found.complete
    assert found.stretches[0].since == (4, 5)


def test_two_swaps_follow_each_other() -> None:
    second = ("shop", "_orders_new")
    found = history(
        NAME,
        manifest(
            4,
            [],
            (
                make(10, GHOST),
                rename(20, *SWAP),
                make(30, second),
                rename(40, NAME, ("shop", "_orders_old"), second, NAME),
            ),
        ),
    )

    assert found.stretches == (Stretch(second, (4, 30), (4, 40)), Stretch(NAME, (4, 40), None))


def test_a_swap_by_way_of_a_third_name() -> None:
    away = ("shop", "away")
    swap = rename(30, NAME, away, OTHER, NAME, away, OTHER)
    made = manifest(4, [], (make(10, NAME), make(20, OTHER), swap))

    assert [each.name for each in history(NAME, made).stretches] == [OTHER, NAME]
    assert [each.name for each in history(OTHER, made).stretches] == [NAME, OTHER]


def test_a_name_that_was_given_up_is_gone() -> None:
    swapped = manifest(4, [], (make(10, GHOST), rename(30, *SWAP)))
    assert history(GHOST, swapped).gone

    again = make(40, GHOST, "CREATE TABLE IF NOT EXISTS x (...)")
    found = history(GHOST, swapped, manifest(5, [], (again,)))

    assert (found.gone, found.complete) == (False, True)
    assert found.stretches == (Stretch(GHOST, (4, 30), None),)


# ------------------------------------------------------------------- what a merge makes of them


def plan(
    name: TableName, *manifests: Manifest, earlier: tuple[Manifest, ...] = (), in_lake: bool = True
) -> TablePlan:
    return plan_table(
        name, manifests, keys={}, dropped_before=False, earlier=earlier, in_lake=in_lake
    )


def of(name: TableName, each: Manifest) -> Manifest:
    (table,) = each.tables
    return replace(each, tables=(replace(table, database=name[0], table=name[1]),))


def test_rows_of_both_names_are_read() -> None:
    first = of(GHOST, manifest(4, [(5, 20)], (make(10, GHOST),)))
    second = of(GHOST, manifest(5, [(10, 20), (25, 40)]))
    after = manifest(5, [(25, 40)])
    second = replace(
        second, tables=(*second.tables, *after.tables), statements=(rename(30, *SWAP),)
    )

    found = plan(NAME, second, earlier=(first,))

    assert found.fate.emptied_at == (4, 10)
    assert [(part.first_row, part.last_row) for part in found.parts] == [
        (5, 20),
        (10, 20),
        (25, 40),
        (25, 40),
    ]
    assert not found.exact
    assert [shape.within for shape in found.shapes] == [
        Stretch(GHOST, (4, 10), (5, 30)),
        Stretch(NAME, (5, 30), None),
    ]


def test_a_table_that_was_always_empty_takes_the_name() -> None:
    found = plan(NAME, manifest(5, [], (make(10, GHOST), rename(30, *SWAP))))

    assert (found.shapes, found.fate.emptied_at, found.needs_commit) == ((), (5, 10), True)


@pytest.mark.parametrize("dropped_before", [True, False])
def test_a_name_that_was_free_is_taken(dropped_before: bool) -> None:
    first = of(GHOST, manifest(4, [(15, 20)], (make(10, GHOST),)))
    dropped = () if dropped_before else (statement(5, "DROP TABLE"),)
    second = manifest(5, [], (*dropped, rename(30, GHOST, NAME)))

    found = plan_table(
        NAME, [second], keys={}, dropped_before=dropped_before, earlier=[first], in_lake=True
    )

    assert (found.fate.emptied_at, found.fate.dropped) == ((4, 10), False)
    assert [(part.first_row, part.last_row) for part in found.parts] == [(15, 20)]


def test_rows_that_are_not_staged_are_refused() -> None:
    swapped = manifest(5, [(40, 50)], (rename(30, *SWAP),))

    with pytest.raises(MergeError, match=r"called shop\._orders_gho before"):
        plan(NAME, swapped)
    with pytest.raises(MergeError, match=r"called shop\._orders_gho before"):
        plan(NAME, swapped, in_lake=False)
    with pytest.raises(MergeError, match=r"called shop\.orders before"):
        plan(OLD, swapped)


def test_a_table_that_the_lake_never_had_waits_for_rows() -> None:
    found = plan(OLD, manifest(5, [], (rename(30, *SWAP),)), in_lake=False)

    assert not found.needs_commit
    assert found.fate.alterations


@pytest.mark.parametrize(
    "last", [rename(30, *SWAP), statement(50, "DROP TABLE", "", GHOST)], ids=["renamed", "dropped"]
)
def test_a_table_that_is_not_there_at_the_end_is_left_as_it_is(last: Statement) -> None:
    begun = of(GHOST, manifest(4, [(15, 20)], (make(10, GHOST), rename(12, OTHER, GHOST), last)))

    found = plan(GHOST, begun)

    assert (found.shapes, found.fate.dropped, found.fate.emptied_at) == ((), True, None)
    assert found.needs_commit
