"""Tables that change as a whole: new columns, wider types, TRUNCATE, DROP; and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.unit.spark.history import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


NTZ = ColumnType("datetime(6)", pa.timestamp("us"))
FLOAT = ColumnType("float", pa.float32())
DOUBLE = ColumnType("double", pa.float64())


def decimal(precision: int, scale: int) -> ColumnType:
    return ColumnType(f"decimal({precision},{scale})", pa.decimal128(precision, scale))


def test_columns_are_added_and_widened(place: Workplace) -> None:
    source = place.new_source()
    old = {"id": INT, "f": FLOAT, "d": decimal(5, 2)}
    table = source.create(place.database, "t", old, ("id",))
    for id_ in range(4):
        table.insert(id=id_, f=0.5, d=Decimal(1))
    source.commit()
    place.merge()
    table.update(1, f=0.25)
    wide = {"id": BIGINT, "f": DOUBLE, "d": decimal(9, 2)}
    table.alter("...", wide | {"at": NTZ, "a note": TEXT})
    table.update(2, **{"a note": "here"})
    table.insert(id=2**40, f=0.1, d=Decimal(9_999_999))
    source.commit()

    place.merge()

    place.check(table)
    assert place.state(table).columns["id"] == "bigint"


def test_an_alter_table_counts_when_rows_of_the_new_shape_come(quick_place: Workplace) -> None:
    source = quick_place.new_source()
    table = source.create(quick_place.database, "t", {"id": INT}, ("id",))
    table.insert(id=1)
    source.commit()
    quick_place.merge()
    table.alter("ADD COLUMN n INT DEFAULT 7", {"id": INT, "n": BIGINT}, n=7)
    source.commit()
    assert quick_place.merge().tables[0].status == "current"
    table.insert(id=2, n=2)
    source.commit()

    failed = quick_place.failure()

    assert "a new column has a value in rows that were there before it" in str(failed.error)
    assert "column=n" in str(failed.error)
    assert "binlog.000001:" in str(failed.error)


def test_a_column_added_with_its_values_by_hand_is_accepted(place: Workplace) -> None:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT}, ("id",))
    table.insert(id=1)
    source.commit()
    place.merge()
    table.alter("ADD COLUMN n BIGINT DEFAULT 7", {"id": INT, "n": BIGINT}, n=7)
    table.insert(id=2, n=2)
    source.commit()
    assert place.failure().applied_after == 1
    place.spark.sql(f"ALTER TABLE {place.target(table)} ADD COLUMNS (n bigint)")
    place.spark.sql(f"UPDATE {place.target(table)} SET n = 7")

    place.merge()

    place.check(table)


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ({"id": INT}, "column=n"),
        ({"id": INT, "m": BIGINT}, "column=n"),
        ({"id": INT, "N": BIGINT}, "differ only in case"),
        ({"id": INT, "n": INT}, "before=bigint, now=int"),
    ],
    ids=["dropped", "renamed", "renamed in case", "narrowed"],
)
def test_what_the_lake_cannot_follow_is_refused(
    quick_place: Workplace, types: dict[str, ColumnType], says: str
) -> None:
    source = quick_place.new_source()
    table = source.create(quick_place.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    other = source.create(quick_place.database, "other", {"id": INT}, ("id",))
    table.insert(id=1, n=1)
    source.commit()
    quick_place.merge()
    before = quick_place.found(table)
    table.alter("...", types)
    table.insert(**dict.fromkeys(types, 2))
    other.insert(id=1)
    source.commit()

    failed = quick_place.failure()

    assert says in str(failed.error)
    assert f"table={quick_place.database}.t" in str(failed.error)
    assert not failed.retryable
    assert quick_place.found(table) == before
    quick_place.check(other)


def test_a_table_takes_its_rows_along_to_its_new_name(quick_place: Workplace) -> None:
    source = quick_place.new_source()
    table = source.create(quick_place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    quick_place.merge()
    kept = quick_place.found(table)
    old = quick_place.target(table)
    table.update(1, note="new")
    source.rename((table, "u"))
    table.insert(id=2, note="new")
    source.commit()

    quick_place.merge()

    quick_place.check(table)
    rows = quick_place.spark.newSession().table(old).collect()
    assert [row.asDict() for row in rows] == kept


def test_rows_of_a_renamed_table_that_are_not_staged_are_refused(quick_place: Workplace) -> None:
    source = quick_place.new_source()
    source.exclude = ("*._*",)
    table = source.create(quick_place.database, "t", {"id": INT}, ("id",))
    ghost = source.create(quick_place.database, "_t_gho", {"id": INT}, ("id",))
    table.insert(id=1)
    source.commit()
    quick_place.merge()
    source.rename((table, "_t_del"), (ghost, "t"))
    source.commit()

    report = quick_place.try_merge()

    failed = {each.table: str(each.error) for each in report.tables if each.error}
    assert list(failed) == [f"{quick_place.database}.t"]
    assert "_t_gho before it was renamed" in failed[f"{quick_place.database}.t"]
    assert "RENAME TABLE t TO _t_del, _t_gho TO t" in failed[f"{quick_place.database}.t"]


def test_a_table_is_swapped_for_its_ghost(place: Workplace) -> None:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    table.insert(id=2, note="old")
    source.commit()
    place.merge()
    ghost = source.create(
        place.database, "_t_gho", {"id": INT, "note": TEXT, "state": BIGINT}, ("id",)
    )
    ghost.insert(id=1, note="old", state=7)
    source.commit()
    source.commit()
    # Merged without the ghost: what is behind the lake's marker is read again.
    tables = [f"{place.database}.[!_]*"]
    place.merge(tables=tables)
    table.update(2, note="changed")
    table.insert(id=3, note="new")
    ghost.insert(id=2, note="changed", state=7)
    ghost.insert(id=3, note="new", state=7)
    source.rename((table, "_t_del"), (ghost, "t"))
    ghost.update(3, id=4)
    table.drop()
    source.commit()

    place.merge(tables=tables)

    place.check(ghost)
    ghost.delete(1)
    source.commit()
    place.merge(tables=tables)
    place.check(ghost)


def test_truncate_empties_and_the_rest_follows_in_one_commit(place: Workplace) -> None:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    place.merge()
    before = place.state(table)
    table.insert(id=2, note="old")
    table.truncate()
    table.insert(id=1, note="new")
    table.insert(id=3, note="new")
    table.delete(3)
    source.commit()

    place.merge()

    place.check(table)
    if place.format == "delta":
        assert place.state(table).snapshot == (before.snapshot or 0) + 1


def test_truncate_alone_leaves_an_empty_table(place: Workplace) -> None:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    place.merge()
    table.truncate()
    source.commit()

    place.merge()

    assert place.found(table) == []
    assert place.state(table).applied_sequence == 2


def test_a_dropped_table_is_kept_until_its_name_is_used_again(place: Workplace) -> None:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    place.merge()
    kept = place.found(table)
    table.drop()
    source.commit()
    place.merge()
    assert place.found(table) == kept

    table.create_again()
    table.insert(id=2, note="new")
    source.commit()
    place.merge()
    place.check(table)

    # It exists: the statement is logged, and does nothing.
    table.create_again()
    table.insert(id=3, note="new")
    source.commit()
    place.merge()
    place.check(table)


def test_drop_and_create_in_one_range(quick_place: Workplace) -> None:
    source = quick_place.new_source()
    table = source.create(quick_place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="old")
    source.commit()
    quick_place.merge()
    table.update(1, note="older")
    source.run("DROP DATABASE", "DROP DATABASE x", (quick_place.database, ""))
    table.rows.clear()
    table.create_again()
    table.insert(id=2, note="new")
    source.commit()

    quick_place.merge()

    quick_place.check(table)
