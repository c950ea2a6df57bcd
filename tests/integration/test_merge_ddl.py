"""DDL followed in the lake: columns by their ids, tables by theirs; and what is refused."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.lake import iceberg
from airflow_provider_binlog.spark.lake.column_changes import alter_statements
from airflow_provider_binlog.spark.lake.column_copy import copy_column
from airflow_provider_binlog.spark.lake.table_format import key_property, owner_properties
from airflow_provider_binlog.spark.mark import Mark
from tests.unit.spark.history import BIGINT, IDENTITY, INT, TEXT, ColumnType, RowImage
from tests.unit.spark.workplace import Workplace, in_either_format

pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


NTZ = ColumnType("datetime(6)", pa.timestamp("us"))
FLOAT = ColumnType("float", pa.float32())
DOUBLE = ColumnType("double", pa.float64())


def decimal(precision: int, scale: int) -> ColumnType:
    return ColumnType(f"decimal({precision},{scale})", pa.decimal128(precision, scale))


def test_columns_are_added_and_widened(workplace: Workplace) -> None:
    source = workplace.new_source()
    old = {"id": INT, "f": FLOAT, "d": decimal(5, 2)}
    table = source.create(workplace.database, "t", old, ("id",))
    for id_ in range(4):
        table.insert(id=id_, f=0.5, d=Decimal(1))
    source.commit()
    workplace.merge()
    table.update(1, f=0.25)
    wide = {"id": BIGINT, "f": DOUBLE, "d": decimal(9, 2)}
    table.alter("...", wide | {"at": NTZ, "a note": TEXT})
    table.update(2, **{"a note": "here"})
    table.insert(id=2**40, f=0.1, d=Decimal(9_999_999))
    source.commit()

    workplace.merge()

    workplace.check(table)
    assert workplace.state(table).columns["id"] == "bigint"


@in_either_format
def test_old_rows_get_the_initial_default_of_a_new_column(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT}, ("id",))
    for id_ in range(3):
        table.insert(id=id_)
    source.commit()
    workplace.merge()
    table.insert(id=3)
    more = {"n": BIGINT, "note": TEXT, "at": NTZ, "d": decimal(5, 2), "null": BIGINT}
    at = datetime(2026, 11, 21, 1, 2, 3, 4)
    values: dict[str, Any] = {"n": 7, "note": "it's new", "at": at, "d": Decimal("1.50")}
    table.alter("ADD COLUMN ...", {"id": INT} | more, **values)
    source.commit()
    assert workplace.merge().tables[0].status == "merged"
    workplace.check(table)
    table.update(1, n=None, null=9)
    table.insert(id=4, n=9)
    table.delete(2)
    source.commit()

    workplace.merge()

    workplace.check(table)


def test_rows_of_an_iceberg_table_of_version_3_read_the_initial_default(
    quick_workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is written for it, also if the merge is killed between the column and the commit."""
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT}, ("id",))
    for id_ in range(3):
        table.insert(id=id_)
    source.commit()
    quick_workplace.merge(properties={"format-version": "3"})
    files = quick_workplace.state(table).files
    more = {"n": BIGINT, "note": TEXT, "at": NTZ, "d": decimal(5, 2), "null": BIGINT}
    at = datetime(2026, 11, 21, 1, 2, 3, 4)
    values: dict[str, Any] = {"n": 7, "note": "it's new", "at": at, "d": Decimal("1.50")}
    table.alter("ADD COLUMN ...", {"id": INT} | more, **values)
    source.commit()
    quick_workplace.merge()
    quick_workplace.check(table, in_order=False)
    assert quick_workplace.state(table).files == files

    table.update(1, n=None, null=9)
    table.alter("ADD COLUMN k ...", {"id": INT} | more | {"k": BIGINT}, k=8)
    table.insert(id=4, n=9)
    source.commit()
    lake: Any = type(quick_workplace.lake)

    def die(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(lake, "merge", die)
        assert quick_workplace.try_merge().failed
    quick_workplace.merge()
    quick_workplace.check(table, in_order=False)


@in_either_format
def test_old_rows_get_the_initial_default_also_in_partial_images(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "a": BIGINT}, ("id",))
    for id_ in range(6):
        table.insert(id=id_, a=id_)
    source.commit()
    workplace.merge()
    source.row_image = RowImage.MINIMAL
    table.update(1, a=11)
    table.update(2, id=20)
    table.alter("ADD COLUMN n BIGINT DEFAULT 7", {"id": INT, "a": BIGINT, "n": BIGINT}, n=7)
    table.update(3, a=33)
    table.update(4, n=None)
    table.update(5, id=50)
    table.update(20, a=22)
    source.commit()

    workplace.merge()

    workplace.check(table)


@pytest.mark.parametrize(
    ("workplace", "dies"),
    [
        ("delta", "merge"),
        ("iceberg", "merge"),
        ("iceberg", "evolve"),
        pytest.param("delta", "evolve", marks=pytest.mark.slow),
    ],
    indirect=["workplace"],
)
def test_an_initial_default_is_filled_in_once(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """Also by the merge after one that was killed, which has more to merge."""
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT}, ("id",))
    table.insert(id=1)
    table.insert(id=2)
    source.commit()
    workplace.merge()
    table.alter("ADD COLUMN n BIGINT DEFAULT 7", {"id": INT, "n": BIGINT}, n=7)
    table.update(2, n=None)
    source.commit()
    lake = type(workplace.lake)
    work = getattr(lake, dies)

    def die(*arguments: Any) -> None:
        work(*arguments)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(lake, dies, die)
        assert workplace.try_merge().failed
    table.insert(id=3)
    table.update(3, n=None)
    source.commit()

    workplace.merge()

    workplace.check(table)
    table.insert(id=4, n=4)
    source.commit()
    workplace.merge()
    workplace.check(table)


def test_an_unknown_initial_default_makes_a_table_stale(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    types = {"id": INT, "n": BIGINT}
    table = source.create(quick_workplace.database, "t", {"id": INT}, ("id",))
    by_hand = source.create(quick_workplace.database, "by_hand", {"id": INT}, ("id",))
    for each in (table, by_hand):
        each.insert(id=1)
    source.commit()
    quick_workplace.merge()
    for each in (table, by_hand):
        each.alter("ADD COLUMN n BIGINT DEFAULT (id)", types, unknown=["n"], n=7)
        each.insert(id=2, n=2)
    source.commit()
    target = quick_workplace.target(by_hand)
    quick_workplace.spark.sql(f"ALTER TABLE {target} ADD COLUMNS (n bigint)")
    quick_workplace.spark.sql(f"UPDATE {target} SET n = 7")

    held = quick_workplace.held()

    assert held.table == f"{quick_workplace.database}.t"
    assert "the value that older rows have in the new column n is not known" in held.reason
    assert held.position.startswith("binlog.000001:")
    quick_workplace.check(by_hand)


def test_a_new_column_of_an_empty_table_needs_no_initial_default(
    quick_workplace: Workplace,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT}, ("id",))
    table.insert(id=1)
    source.commit()
    quick_workplace.merge()
    table.truncate()
    table.alter("ADD COLUMN n ...", {"id": INT, "n": BIGINT}, unknown=["n"])
    source.commit()
    quick_workplace.merge()
    table.insert(id=2, n=3)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


@pytest.mark.parametrize(
    ("workplace", "rows"),
    [
        ("delta", True),
        ("iceberg", True),
        ("iceberg", False),
        pytest.param("delta", False, marks=pytest.mark.slow),
    ],
    indirect=["workplace"],
)
def test_columns_are_dropped_and_renamed(workplace: Workplace, rows: bool) -> None:
    source = workplace.new_source()
    old = {"id": INT, "a": BIGINT, "b": BIGINT, "c": TEXT, "d": TEXT, "a note": TEXT}
    table = source.create(workplace.database, "t", old, ("id",))
    for id_ in range(4):
        table.insert(id=id_, a=1, b=2, c="c", d="d")
    source.commit()
    workplace.merge()
    table.update(1, a=11)
    # a and b exchange their names, c only its case; d gives its name to another one.
    new = {"id": INT, "b": BIGINT, "a": BIGINT, "C": TEXT, "d": TEXT}
    renamed = {"b": "a", "a": "b", "C": "c", "d": "a note"}
    table.alter("RENAME COLUMN ...", new, renamed=renamed)
    if rows:
        table.update(2, a=22)
        table.insert(id=9, C="new")
    source.commit()

    workplace.merge()

    workplace.check(table, in_order=False)
    table.update(3, b=33)
    source.commit()
    workplace.merge()
    workplace.check(table, in_order=False)


@in_either_format
def test_a_column_that_is_dropped_and_added_again_is_another_one(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "n": BIGINT, "m": BIGINT}, ("id",))
    for id_ in range(3):
        table.insert(id=id_, n=1, m=2)
    source.commit()
    workplace.merge()
    table.update(1, n=11)
    types = {"id": INT, "n": TEXT, "m": BIGINT}
    table.alter("DROP n, DROP m, ADD n ..., ADD m ...", types, again=["n", "m"], m=7)
    source.commit()
    workplace.merge()
    workplace.check(table, in_order=False)
    table.update(2, n="new")
    source.commit()

    workplace.merge()

    workplace.check(table)


@pytest.mark.parametrize(
    ("workplace", "dies"),
    [
        # Between the two renames of an exchange, and before the last statement.
        ("iceberg", 2),
        ("iceberg", 5),
        ("delta", 2),
        *(pytest.param("iceberg", dies, marks=pytest.mark.slow) for dies in (0, 1, 3, 4)),
        *(pytest.param("delta", dies, marks=pytest.mark.slow) for dies in (0, 1, 3, 4, 5)),
    ],
    indirect=["workplace"],
)
def test_an_evolution_that_was_killed_is_finished(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, dies: int
) -> None:
    source = workplace.new_source()
    old = {"id": INT, "a": BIGINT, "b": BIGINT, "c": BIGINT}
    table = source.create(workplace.database, "t", old, ("id",))
    table.insert(id=1, a=1, b=2, c=3)
    source.commit()
    workplace.merge()
    types = {"key": INT, "b": BIGINT, "a": BIGINT, "n": BIGINT}
    renamed = {"key": "id", "a": "b", "b": "a"}
    table.alter("...", types, renamed=renamed, n=7)
    table.insert(key=2, a=3)
    source.commit()
    statements = []

    def alter(*arguments: Any) -> list[str]:
        found = alter_statements(*arguments)
        statements.extend(found)
        return [*found[:dies], "SELECT no_such_function()"]

    with monkeypatch.context() as patch:
        patch.setattr(
            f"airflow_provider_binlog.spark.lake.{workplace.format}.alter_statements", alter
        )
        assert workplace.try_merge().failed
    assert len(statements) == 6

    workplace.merge()

    workplace.check(table, in_order=False)


@in_either_format
def test_the_same_rows_get_another_key(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "code": BIGINT}, ("id",))
    table.insert(id=1, code=10)
    table.insert(id=2, code=20)
    source.commit()
    workplace.merge()
    table.alter("DROP PRIMARY KEY, ADD PRIMARY KEY (code)", table.types, key=("code",))
    table.update(10, id=2)
    table.update(20, code=30)
    source.commit()

    workplace.merge()

    workplace.check(table)


@in_either_format
def test_rows_on_both_sides_of_a_new_key_are_merged(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each merge is killed after its first commit."""
    source = workplace.new_source()
    types = {"id": INT, "code": BIGINT, "n": BIGINT}
    table = source.create(workplace.database, "t", types, ("id",))
    other = source.create(workplace.database, "other", {"id": INT}, ("id",))
    for id_ in range(1, 5):
        table.insert(id=id_, code=10 * id_)
    source.commit()
    workplace.merge()
    table.update(1, code=11)
    other.insert(id=1)
    table.alter("DROP PRIMARY KEY, ADD PRIMARY KEY (code)", types, key=("code",))
    table.update(11, id=2)
    table.delete(20)
    source.commit()
    table.update(30, code=20)
    table.alter(
        "ADD PRIMARY KEY (id, code), ADD m ...", types | {"m": BIGINT}, key=("id", "code"), m=7
    )
    table.insert(id=3, code=30)
    table.update((2, 11), m=None)
    other.insert(id=2)
    source.commit()
    lake = type(workplace.lake)
    merge = lake.merge

    def die(*arguments: Any) -> Any:
        found = merge(*arguments)
        if "other" not in arguments[2]:
            raise RuntimeError("killed")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(lake, "merge", die)
        for mark in (Mark(1, 1), Mark(2, 1)):
            assert workplace.failure().table.endswith(".t")
            assert workplace.state(table).applied == mark

    workplace.merge()

    workplace.check(table, other, in_order=False)
    assert workplace.state(table).applied == Mark(3)
    assert workplace.state(table).key == ("id", "code")


@in_either_format
def test_a_column_gets_a_type_that_holds_the_values_of_both(workplace: Workplace) -> None:
    source = workplace.new_source()
    old = {"id": INT, "a": BIGINT, "b": BIGINT, "c": decimal(5, 2)}
    table = source.create(workplace.database, "t", old, ("id",))
    for id_ in range(4):
        table.insert(id=id_, a=2**40 + id_, b=-id_, c=Decimal("-1.25"))
    source.commit()
    workplace.merge()
    table.update(1, a=11)
    unsigned = ColumnType("bigint unsigned", pa.decimal128(20, 0))
    new = {"id": unsigned, "b": unsigned, "a": decimal(24, 4), "c": decimal(6, 4)}
    # a and b exchange their names as well.
    table.alter("...", new, renamed={"b": "a", "a": "b"})
    table.update(2, a=Decimal("22.2222"))
    table.insert(id=2**63, a=None, b=2**64 - 1, c=Decimal("9.9999"))
    source.commit()

    workplace.merge()

    workplace.check(table, in_order=False)
    assert workplace.state(table).columns["c"] == "decimal(7,4)"
    # A narrower type changes nothing: the lake table's holds its values.
    table.alter("...", new | {"b": INT})
    table.update(3, b=33)
    source.commit()
    workplace.merge()
    workplace.check(table, in_order=False)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_copy_of_a_column_is_finished_after_a_kill(
    quick_workplace: Workplace, monkeypatch: pytest.MonkeyPatch, swapped: bool
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "a": BIGINT}, ("id",))
    table.insert(id=1, a=1)
    source.commit()
    quick_workplace.merge()
    table.alter("...", {"id": INT, "a": decimal(20, 2)})
    table.insert(id=2, a=Decimal("2.5"))
    source.commit()

    def die(*arguments: Any) -> None:
        if swapped:
            copy_column(*arguments)
        raise RuntimeError("killed")

    where = (iceberg, "copy_column") if swapped else (merge_sql, "set_column")
    with monkeypatch.context() as patch:
        patch.setattr(*where, die)
        assert quick_workplace.try_merge().failed
    assert quick_workplace.found(table)[0]["a"] == 1
    table.alter("...", {"id": INT, "b": decimal(20, 2)}, renamed={"b": "a"})
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table, in_order=False)


@pytest.mark.parametrize(
    ("types", "key", "says"),
    [
        ({"id": INT, "n": TEXT}, None, "n was bigint in the lake, and is string now"),
        ({"id": INT, "n": BIGINT}, (), "primary key was dropped"),
    ],
    ids=["other values", "no key"],
)
def test_what_the_lake_cannot_follow_is_a_stop(
    quick_workplace: Workplace,
    types: dict[str, ColumnType],
    key: tuple[str, ...] | None,
    says: str,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    other = source.create(quick_workplace.database, "other", {"id": INT}, ("id",))
    table.insert(id=1, n=1)
    source.commit()
    quick_workplace.merge()
    table.update(1, n=2)
    before = table.values
    table.alter("...", types, key=key)
    table.insert(id=3, n="3" if key is None else 3)
    other.insert(id=1)
    source.commit()

    held = quick_workplace.held()

    assert says in held.reason
    assert held.table == f"{quick_workplace.database}.t"
    assert quick_workplace.found(table) == before
    assert quick_workplace.state(table).applied == Mark(1, 1)
    quick_workplace.check(other)
    other.insert(id=2)
    table.insert(id=4)
    source.commit()
    assert quick_workplace.held().reason == held.reason
    quick_workplace.check(other)
    assert quick_workplace.found(table) == before


def test_rows_that_a_statement_rewrote_make_a_table_stale(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    empty = source.create(quick_workplace.database, "empty", {"id": INT, "n": BIGINT}, ("id",))
    empty.rewrite("shortened the values", "n")
    table.insert(id=1, n=1)
    source.commit()
    quick_workplace.merge()
    table.rewrite("dropped a partition")
    empty.insert(id=1)
    source.commit()

    held = quick_workplace.held()

    assert "because the statement dropped a partition (ALTER TABLE t ...)" in held.reason
    quick_workplace.check(empty)


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
    properties = owner_properties(workplace.source, IDENTITY, table.name) | key_property(("id",))
    columns = {"id": "int", "note": "string", "n": "bigint"}
    workplace.lake.create(session, target, columns, properties)
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
        patch.setattr(lake, "overwrite", fail)
        assert workplace.try_merge().failed

    workplace.merge()

    workplace.check(table)
    table.delete(1)
    source.commit()
    workplace.merge()
    workplace.check(table)


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
    source.commit()
    workplace.merge(tables=tables)
    workplace.check(ghost)


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
    source.commit()
    workplace.merge()
    workplace.check(table)

    # It exists: the statement is logged, and does nothing.
    table.create_again()
    table.insert(id=3, note="new")
    source.commit()
    workplace.merge()
    workplace.check(table)


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
    properties = owner_properties(workplace.source, IDENTITY, table.name) | key_property(("id",))
    workplace.lake.create(session, target, {"id": "int", "n": "bigint"}, properties)
    session.sql(f"INSERT INTO {target} VALUES (1, 1), (2, 2)")

    workplace.merge()

    workplace.check(table)
    table.update(2, id=20)
    source.commit()
    workplace.merge()
    workplace.check(table)


@pytest.mark.parametrize("workplace", ["delta"], indirect=True)
def test_a_delta_table_without_column_mapping_is_upgraded(workplace: Workplace) -> None:
    source = workplace.new_source()
    old = {"id": INT, "n": BIGINT, "m": BIGINT}
    table = source.create(workplace.database, "t", old, ("id",), logged=False)
    table.rows = {1: (1, 1, 1)}
    target, session = workplace.target(table), workplace.spark.newSession()
    properties = owner_properties(workplace.source, IDENTITY, table.name) | key_property(("id",))
    columns = {"id": "int", "n": "bigint", "m": "bigint"}
    session.sql(
        merge_sql.create_table(target, provider="delta", columns=columns, properties=properties)
    )
    session.sql(f"INSERT INTO {target} VALUES (1, 1, 1)")
    table.update(1, n=11)
    source.commit()
    workplace.merge()
    table.alter("...", {"id": INT, "k": BIGINT}, renamed={"k": "n"})
    table.insert(id=2, k=2)
    source.commit()

    workplace.merge()

    workplace.check(table)
