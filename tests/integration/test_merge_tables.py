"""Lake tables follow table ids: renamed, swapped, truncated, dropped and created again."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.spark.target.properties import Owner, key_property
from airflow_provider_binlog.spark.target.state import Mark
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format


def test_a_table_takes_its_rows_along_to_its_new_name(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    quick_workplace.merge()
    kept = quick_workplace.found(table)
    old = quick_workplace.target(table)
    table.update(1, note="new")
    source.rename((table, "u"))
    table.insert(id=2, note="new")
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)
    rows = quick_workplace.spark.newSession().table(old).collect()
    assert [row.asDict() for row in rows] == kept


def test_every_merge_names_the_globs_that_match_nothing_staged(
    quick_workplace: Workplace,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT}, ("id",))
    table.insert(id=1)
    source.exclude = ("*._*",)
    source.commit()
    globs = {"tables": ["*.t", "*.T", "!*._*"], "exclude": ["*._gho", "*.u"]}

    first, second = quick_workplace.merge(**globs), quick_workplace.merge(**globs)

    assert first.unmatched == second.unmatched == ["*.T", "*.u"]
    quick_workplace.check(table)


@in_either_format
def test_a_table_that_is_older_than_the_log_takes_its_rows_along(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a merge that could not copy them."""
    source = workplace.new_source()
    types = {"id": INT, "note": TEXT, "n": BIGINT}
    table = source.create(workplace.database, "t", types, ("id",), logged=False)
    table.rows = {1: (1, "old", 1), 2: (2, "old", 2)}
    target, session = workplace.target(table), workplace.spark.newSession()
    properties = Owner(workplace.source, IDENTITY, table.name).properties | key_property(("id",))
    columns = {"id": "int", "note": "string", "n": "bigint"}
    workplace.make_empty(target, columns, properties)
    session.sql(f"INSERT INTO {target} VALUES (1, 'old', 1), (2, 'old', 2)")
    table.update(1, note="new")
    source.commit()
    workplace.merge()
    table.update(2, note="newer")
    source.rename((table, "v"))
    source.rename((table, "u"))
    table.alter("...", {"id": INT, "text": TEXT}, renamed={"text": "note"})
    table.insert(id=3, text="new")
    source.commit()
    lake = type(workplace.lake)

    def fail(*_: Any) -> None:
        raise RuntimeError("failed")

    with monkeypatch.context() as patch:
        patch.setattr(lake, "create_as", fail)
        assert workplace.try_merge().failed

    workplace.merge()

    workplace.check(table)
    table.delete(1)
    workplace.follow(table)


def test_a_name_of_which_rows_are_not_staged_makes_a_table_stale(
    quick_workplace: Workplace,
) -> None:
    source = quick_workplace.new_source()
    source.exclude = ("*._*",)
    table = source.create(quick_workplace.database, "t", {"id": INT}, ("id",))
    ghost = source.create(quick_workplace.database, "_t_gho", {"id": INT}, ("id",))
    table.insert(id=1)
    source.commit()
    quick_workplace.merge()
    source.rename((table, "_t_del"), (ghost, "t"))
    source.commit()

    report = quick_workplace.try_merge()

    assert not report.failed
    (held,) = [each for each in report.held if each.table == f"{quick_workplace.database}.t"]
    assert held.status == "stale"
    assert "_t_gho before it was renamed" in held.reason
    assert "RENAME TABLE t TO _t_del, _t_gho TO t" in held.reason


@in_either_format
def test_a_table_is_swapped_for_its_ghost(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    table.insert(id=2, note="old")
    source.commit()
    workplace.merge()
    ghost = source.create(
        workplace.database, "_t_gho", {"id": INT, "note": TEXT, "state": BIGINT}, ("id",)
    )
    ghost.insert(id=1, note="old", state=7)
    source.commit()
    source.commit()
    # Merged without the ghost: what is before the lake's applied sequence is read again.
    tables = [f"{workplace.database}.[!_]*"]
    workplace.merge(tables=tables)
    table.update(2, note="changed")
    table.insert(id=3, note="new")
    ghost.insert(id=2, note="changed", state=7)
    ghost.insert(id=3, note="new", state=7)
    source.rename((table, "_t_del"), (ghost, "t"))
    ghost.update(3, id=4)
    table.drop()
    source.commit()

    workplace.merge(tables=tables)

    workplace.check(ghost)
    ghost.delete(1)
    workplace.follow(ghost, tables=tables)


def test_truncate_and_the_rows_after_it_are_one_commit(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    workplace.merge()
    before = workplace.state(table)
    table.insert(id=2, note="old")
    table.truncate()
    table.insert(id=1, note="new")
    table.insert(id=3, note="new")
    table.delete(3)
    source.commit()

    workplace.merge()

    workplace.check(table)
    if workplace.format == "delta":
        assert workplace.state(table).snapshot == (before.snapshot or 0) + 1


@in_either_format
def test_truncate_alone_leaves_an_empty_table(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    workplace.merge()
    table.truncate()
    source.commit()

    workplace.merge()

    assert workplace.found(table) == []
    assert workplace.state(table).applied == Mark(2)


@in_either_format
def test_a_dropped_table_is_kept_until_its_name_is_used_again(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    workplace.merge()
    kept = workplace.found(table)
    table.drop()
    source.commit()
    workplace.merge()
    assert workplace.found(table) == kept

    table.create_again()
    table.insert(id=2, note="new")
    workplace.follow(table)

    # It exists: the statement is logged, and does nothing.
    table.create_again()
    table.insert(id=3, note="new")
    workplace.follow(table)


@pytest.mark.parametrize("kind", ["DROP TABLE", "DROP DATABASE"])
def test_drop_and_create_in_one_range(quick_workplace: Workplace, kind: str) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    quick_workplace.merge()
    table.update(1, note="older")
    table.drop(kind)
    table.create_again()
    table.insert(id=2, note="new")
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


@in_either_format
def test_a_table_is_created_again_with_other_columns_and_another_key(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    table.insert(id=1, n=1)
    source.commit()
    workplace.merge()
    table.update(1, n=2)
    table.drop()
    table.types, table.key = {"code": TEXT, "n": TEXT, "m": BIGINT}, ("code",)
    table.create_again()
    source.commit()
    workplace.merge()
    assert workplace.found(table) == []
    table.insert(code="a", n="one")
    table.alter("ADD COLUMN k BIGINT DEFAULT 7", table.types | {"k": BIGINT}, k=7)
    table.insert(code="b", n="two", m=1)
    source.commit()

    workplace.merge()

    workplace.check(table, in_order=False)


@in_either_format
def test_a_lake_table_that_was_loaded_by_hand_is_continued(workplace: Workplace) -> None:
    source = workplace.new_source()
    old = {"id": INT, "N": BIGINT}
    table = source.create(workplace.database, "t", old, ("id",), logged=False)
    table.rows = {1: (1, 1), 2: (2, 2)}
    table.update(1, N=11)
    table.alter("ADD COLUMN m BIGINT DEFAULT 7", old | {"m": BIGINT}, m=7)
    table.insert(id=3, N=3, m=3)
    source.commit()
    target, session = workplace.target(table), workplace.spark.newSession()
    properties = Owner(workplace.source, IDENTITY, table.name).properties | key_property(("id",))
    workplace.make_empty(target, {"id": "int", "n": "bigint"}, properties)
    session.sql(f"INSERT INTO {target} VALUES (1, 1), (2, 2)")

    workplace.merge()

    workplace.check(table)
    table.update(2, id=20)
    workplace.follow(table)
