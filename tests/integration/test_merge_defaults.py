"""What older rows hold in a column that is added: its initial default, or the table is stale."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.spark.history import RowImage
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace, in_either_format

NTZ = ColumnType("datetime(6)", pa.timestamp("us"))


def decimal(precision: int, scale: int) -> ColumnType:
    return ColumnType(f"decimal({precision},{scale})", pa.decimal128(precision, scale))


@in_either_format
def test_old_rows_get_the_initial_default_of_a_new_column(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT}, ("id",))
    for id_ in range(3):
        table.insert(id=id_)
    source.commit()
    workplace.merge()
    table.insert(id=3)
    more = {"n": BIGINT, "a.b": TEXT, "at": NTZ, "d": decimal(5, 2), "null": BIGINT}
    at = datetime(2026, 11, 21, 1, 2, 3, 4)
    values: dict[str, Any] = {"n": 7, "a.b": "it's new", "at": at, "d": Decimal("1.50")}
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
    table.alter("ADD COLUMN n BIGINT DEFAULT 7", {"id": INT, "a": BIGINT, "n": BIGINT}, n=7)
    table.update(3, a=33)
    table.update(4, n=None)
    table.update(2, a=22)
    source.commit()

    workplace.merge()

    workplace.check(table)


@pytest.mark.parametrize(
    ("workplace", "dies"),
    [
        ("iceberg", "merge"),
        ("iceberg", "evolve"),
        pytest.param("delta", "merge", marks=pytest.mark.slow),
        pytest.param("delta", "evolve", marks=pytest.mark.slow),
    ],
    indirect=["workplace"],
)
def test_an_initial_default_is_filled_in_once(workplace: Workplace, dies: str) -> None:
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
    workplace.merge_killed(dies, done=True)
    table.insert(id=3)
    table.update(3, n=None)
    source.commit()

    workplace.merge()

    workplace.check(table)
    table.insert(id=4, n=4)
    workplace.follow(table)


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
