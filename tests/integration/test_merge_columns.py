"""Columns of the lake follow those of the table: added, dropped, renamed, retyped, another key."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.properties import Owner, key_property
from airflow_provider_binlog.spark.target.sql import alter_statements
from airflow_provider_binlog.spark.target.state import Mark
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace, in_either_format, sorted_rows

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
    workplace.follow(table, in_order=False)


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
    workplace.follow(table, in_order=False)
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
            {
                "delta": "airflow_provider_binlog.spark.target.delta.table.alter_statements",
                "iceberg": "airflow_provider_binlog.spark.target.iceberg.catalog.alter_statements",
            }[workplace.format],
            alter,
        )
        assert workplace.try_merge().failed
    assert len(statements) == 6

    workplace.merge()

    workplace.check(table, in_order=False)


@in_either_format
def test_rows_that_are_known_by_another_key_are_reloaded(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "code": BIGINT}, ("id",))
    table.insert(id=1, code=10)
    table.insert(id=2, code=20)
    source.commit()
    workplace.merge()
    table.update(1, code=11)
    table.alter("DROP PRIMARY KEY, ADD PRIMARY KEY (code)", table.types, key=("code",))
    table.update(11, id=2)
    source.commit()

    held = workplace.held()

    assert (held.status, held.applied_after) == ("stale", Mark(1, 1))
    assert "the table's primary key changed" in held.reason
    take_snapshot(table)
    table.update(20, code=30)
    workplace.follow(table)
    assert workplace.state(table).key == ("code",)


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
    before = sorted_rows(table.values)
    unsigned = ColumnType("bigint unsigned", pa.decimal128(20, 0))
    new = {"id": unsigned, "b": unsigned, "a": decimal(24, 4), "c": decimal(6, 4)}
    # a and b exchange their names as well.
    table.alter("...", new, renamed={"b": "a", "a": "b"})
    table.update(2, a=Decimal("22.2222"))
    table.insert(id=2**63, a=None, b=2**64 - 1, c=Decimal("9.9999"))
    source.commit()

    if workplace.format == "iceberg":
        assert "a from bigint to decimal(24,4)" in workplace.held().reason
        assert sorted_rows(workplace.found(table)) == before
        take_snapshot(table)
        source.commit()
    workplace.merge()

    workplace.check(table, in_order=False)
    digits = {"delta": "decimal(7,4)", "iceberg": "decimal(6,4)"}
    assert workplace.state(table).columns["c"] == digits[workplace.format]
    # A narrower type changes nothing: the lake table's holds its values.
    table.alter("...", new | {"b": INT})
    table.update(3, b=33)
    workplace.follow(table, in_order=False)


@pytest.mark.parametrize("workplace", ["delta"], indirect=True)
def test_a_delta_table_without_column_mapping_is_upgraded_or_stale(workplace: Workplace) -> None:
    source = workplace.new_source()
    old = {"id": INT, "n": BIGINT, "m": BIGINT}
    table = source.create(workplace.database, "t", old, ("id",), logged=False)
    table.rows = {1: (1, 1, 1)}
    target, session = workplace.target(table), workplace.spark.newSession()
    properties = Owner(workplace.source, IDENTITY, table.name).properties | key_property(("id",))
    columns = {"id": "int", "n": "bigint", "m": "bigint"}
    session.sql(
        merge_sql.create_table(target, provider="delta", columns=columns, properties=properties)
    )
    session.sql(f"INSERT INTO {target} VALUES (1, 1, 1)")
    table.update(1, n=11)
    source.commit()
    workplace.merge()
    table.update(1, n=12)
    before = table.values
    table.alter("...", {"id": INT, "k": BIGINT}, renamed={"k": "n"})
    table.insert(id=2, k=2)
    source.commit()

    held = workplace.held(upgrade=False)

    assert (held.status, "need column mapping" in held.reason) == ("stale", True)
    assert (workplace.found(table), workplace.state(table).applied) == (before, Mark(1, 1))
    assert "delta.columnMapping.mode" not in workplace.state(table).properties
    take_snapshot(table)
    source.commit()
    assert "need column mapping" in str(workplace.held(upgrade=False).snapshot)
    assert workplace.found(table) == before

    workplace.merge()

    workplace.check(table)
    table.update(2, k=3)
    table.alter("...", {"id": INT, "j": BIGINT}, renamed={"j": "k"})
    source.commit()
    workplace.merge(upgrade=False)
    workplace.check(table)


def test_a_column_that_something_in_the_lake_depends_on_cannot_be_dropped(
    workplace: Workplace,
) -> None:
    """Iceberg itself would drop one that it was partitioned by, and then write no row any more."""
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "n": INT}, ("id",))
    table.insert(id=1, n=1)
    source.commit()
    workplace.merge()
    session, target = workplace.spark, workplace.target(table)
    if workplace.format == "iceberg":
        session.sql(f"ALTER TABLE {target} WRITE ORDERED BY n")
    else:
        session.sql(f"ALTER TABLE {target} CLUSTER BY (n)")
    table.update(1, n=2)
    source.commit()
    workplace.merge()
    table.alter("DROP COLUMN n", {"id": INT})
    table.insert(id=2)
    source.commit()

    failed = workplace.failure()

    assert re.search("remove there|change that, or drop", str(failed.error))
    assert not failed.retryable
    if workplace.format == "iceberg":
        session.sql(f"ALTER TABLE {target} WRITE UNORDERED")
        session.sql(f"ALTER TABLE {target} ADD PARTITION FIELD n")
        session.sql(f"ALTER TABLE {target} DROP PARTITION FIELD n")
        assert "drop the lake table, and load it" in str(workplace.failure().error)
        session.sql(f"DROP TABLE {target}")
        table.insert(id=3)
        source.commit()
    else:
        session.sql(f"ALTER TABLE {target} CLUSTER BY NONE")
    workplace.merge()
    workplace.check(table)
