"""Lifecycles: which table a name stands for after a range, and whether all its rows are staged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.schema import CreateTable, DropTable, RenameTable
from airflow_provider_binlog.spark.plan.lifecycle import (
    Lifecycle,
    find_lifecycle,
    find_replacement,
)
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.state import Contents, Mark, TargetState
from tests.unit.spark.plan.table_plans import ID_N, lake
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from airflow_provider_binlog.schema import TableId, TableName

GHOST: TableName = ("shop", "_orders_gho")
OLD: TableName = ("shop", "_orders_del")
NEW = "00000000000000bb"
FOLLOWS_ORDERS = lake(ID_N)
FOLLOWS_NEW = replace(FOLLOWS_ORDERS, contents=Contents(Mark(3), NEW))
ENDED = lake(ID_N, ended="3")


def swap(row: int) -> Statement:
    """As gh-ost ends: RENAME TABLE orders TO _orders_del, _orders_gho TO orders."""
    away, into = RenameTable(ORDERS, NAME, OLD), RenameTable(NEW, GHOST, NAME)
    return statement(row, away, into, text="RENAME TABLE orders TO _orders_del, ...")


def find(
    *manifests: Manifest,
    first: int = 5,
    name: TableName = NAME,
    state: TargetState | None = FOLLOWS_ORDERS,
) -> Lifecycle | None:
    return find_lifecycle(name, TableLog(manifests), first, state)


def stop(found: Lifecycle | None) -> tuple[TableId | None, Mark, str | None]:
    """Return which table is read up to the stop, where it is, and what it says."""
    assert found is not None
    assert found.stop is not None
    phrases = "called shop.* before|another table than the lake table has"
    says = re.search(phrases, found.stop.reason)
    return found.table, found.stop.mark, says[0] if says else None


CREATED = manifest(
    4,
    table([(15, 20)], id_=NEW, name=GHOST, created=4),
    statements=[statement(10, CreateTable(NEW, GHOST))],
)
SWAPPED = manifest(
    5,
    table(name=OLD),
    table([(10, 20)], id_=NEW, created=4),
    statements=[swap(30)],
)


def test_a_table_that_is_not_mentioned_has_none() -> None:
    assert find(manifest(5, table(name=("shop", "other")))) is None
    assert find(CREATED, manifest(5), name=GHOST) is None


def test_a_table_that_keeps_its_name_is_read_from_the_first_new_manifest() -> None:
    assert find(manifest(5, table([(10, 20)]))) == Lifecycle(ORDERS, 5)
    assert find(manifest(5, table([(10, 20)])), state=None) == Lifecycle(ORDERS, 5)


def test_after_a_swap_a_name_stands_for_the_other_table() -> None:
    assert find(CREATED, SWAPPED) == Lifecycle(NEW, 4, replaces=True)


def test_the_lake_may_follow_the_other_table_already() -> None:
    assert find(SWAPPED, state=FOLLOWS_NEW) == Lifecycle(NEW, 5)


def test_a_replacement_is_read_from_its_creation_on() -> None:
    log = TableLog([SWAPPED])

    assert find_replacement(NAME, log, 5, FOLLOWS_ORDERS) == 4
    assert find_replacement(NAME, log, 5, None) == 4
    assert find_replacement(NAME, log, 5, FOLLOWS_NEW) is None
    assert find_replacement(OLD, log, 5, None) is None


def test_without_its_creation_the_other_table_is_refused() -> None:
    unknown = manifest(5, table([(40, 50)], id_=NEW), statements=[swap(30)])

    for missing in ([unknown], [SWAPPED]):
        assert stop(find(*missing)) == (ORDERS, Mark(4, 1), "called shop._orders_gho before")
    none = find(unknown, state=None)
    assert stop(none) == (None, Mark(4, 1), "called shop._orders_gho before")


def test_another_table_under_the_name_is_refused_without_its_creation() -> None:
    dropped = manifest(4, table(dropped=True), statements=[statement(10, DropTable(ORDERS, NAME))])

    found = find(dropped, manifest(5, table([(10, 20)], id_=NEW)), state=ENDED)

    assert stop(found) == (None, Mark(4), "another table than the lake table has")


def test_what_was_not_captured_under_its_old_name_is_refused() -> None:
    hidden = manifest(4, *CREATED.tables, statements=CREATED.statements, exclude=("shop._*",))

    assert stop(find(hidden, SWAPPED))[0] == ORDERS


def test_a_renamed_table_that_the_lake_never_had_is_refused() -> None:
    found = stop(find(SWAPPED, name=OLD, state=None))

    assert found == (None, Mark(4, 1), "called shop.orders before")


def test_a_name_that_lost_its_table_by_rename_has_ended() -> None:
    found = find(CREATED, SWAPPED, name=GHOST, state=FOLLOWS_NEW)

    assert found is not None
    assert (found.table, found.replaces) == (None, False)
    assert found.ended


def test_a_dropped_table_is_read_to_its_end() -> None:
    dropped = statement(25, DropTable(ORDERS, NAME))
    found = find(manifest(5, table([(10, 20)], dropped=True), statements=[dropped]))

    assert found is not None
    assert found.table == ORDERS
    assert found.ended


def test_a_dropped_table_whose_rows_are_not_staged_is_left_as_it_is() -> None:
    dropped = statement(40, DropTable(NEW, NAME))
    swapped = manifest(
        5, table(name=OLD), table(id_=NEW, dropped=True), statements=[swap(30), dropped]
    )
    found = find(swapped)

    assert found is not None
    assert (found.table, found.ended) == (None, True)


@pytest.mark.parametrize("state", [FOLLOWS_ORDERS, ENDED], ids=["followed", "ended"])
def test_a_table_created_under_the_name_replaces_the_dropped_one(state: TargetState) -> None:
    created = statement(30, CreateTable(NEW, NAME))
    dropped = statement(25, DropTable(ORDERS, NAME))
    statements = [created] if state.ended else [dropped, created]
    found = find(manifest(5, table(id_=NEW, created=5), statements=statements), state=state)

    assert found == Lifecycle(NEW, 5, replaces=True)


def test_a_table_that_gets_its_name_back_is_the_same() -> None:
    away, back = RenameTable(ORDERS, NAME, OLD), RenameTable(ORDERS, OLD, NAME)
    both = manifest(5, table([(5, 9)]), statements=[statement(10, away), statement(20, back)])

    assert find(both) == Lifecycle(ORDERS, 5)
    hidden = manifest(5, *both.tables, statements=both.statements, exclude=("shop._*",))
    assert stop(find(hidden)) == (ORDERS, Mark(4, 1), "called shop._orders_del before")


def test_exchanged_names_are_exchanged_tables() -> None:
    away, temporary = ("shop", "away"), ("shop", "temporary")
    exchanged = statement(
        30,
        RenameTable(ORDERS, NAME, temporary),
        RenameTable(NEW, away, NAME),
        RenameTable(ORDERS, temporary, away),
    )
    both = manifest(
        5,
        table(name=away, created=4),
        table(id_=NEW, created=4),
        statements=[exchanged],
    )
    begun = manifest(4, table(created=4), table(id_=NEW, name=away, created=4))

    assert find(begun, both) == Lifecycle(NEW, 4, replaces=True)
    assert find(begun, both, name=away, state=FOLLOWS_NEW) == Lifecycle(ORDERS, 4, replaces=True)
    assert find(begun, both, name=temporary, state=None) is not None
