"""New columns whose value in the old rows is not NULL: refused, wherever the merges are cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.spark.history import BIGINT, INT, ColumnType, Source, Table
from tests.unit.spark.workplace import Workplace

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.lake.table_format import Commit

pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)

OLD: dict[str, ColumnType] = {"id": INT, "n": BIGINT}
NEW = OLD | {"m": BIGINT}


def an_altered_table(
    place: Workplace, text: str = "ADD COLUMN m BIGINT DEFAULT 7"
) -> tuple[Source, Table]:
    """Return a table, staged with rows of its old shape and the statement behind them."""
    source = place.new_source()
    table = source.create(place.database, "t", OLD, ("id",))
    table.insert(id=1, n=1)
    table.alter(text, NEW, m=None if text.endswith("BIGINT") else 7)
    source.commit()
    return source, table


def add_row(source: Source, table: Table) -> None:
    table.insert(id=len(table.rows) + 1, n=3, m=9)
    source.commit()


def refused(place: Workplace) -> None:
    failed = place.failure()
    assert "a new column has a value in rows that were there before it" in str(failed.error)
    assert "column=m" in str(failed.error)
    assert "binlog.000001:" in str(failed.error)


def test_new_rows_come_in_the_next_merge(place: Workplace) -> None:
    source, table = an_altered_table(place)
    place.merge()
    add_row(source, table)

    refused(place)

    place.spark.sql(f"ALTER TABLE {place.target(table)} ADD COLUMNS (m bigint)")
    place.spark.sql(f"UPDATE {place.target(table)} SET m = 7")
    place.merge()
    place.check(table)


def test_new_rows_come_much_later(quick_place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind merges of other tables, the first of them killed behind its commit."""
    source, table = an_altered_table(quick_place)
    other = source.create(quick_place.database, "other", OLD, ("id",))
    lake = type(quick_place.lake)
    merge = lake.merge

    def die(*arguments: Any) -> Commit | None:
        merge(*arguments)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(lake, "merge", die)
        assert quick_place.try_merge().failed
    for id_ in (1, 2):
        other.insert(id=id_, n=1)
        source.commit()
        quick_place.merge()
    add_row(source, table)

    refused(quick_place)

    quick_place.check(other)


def test_manifests_that_are_gone_tell_nothing(quick_place: Workplace) -> None:
    source, table = an_altered_table(quick_place, "ADD COLUMN m BIGINT")
    quick_place.merge()
    add_row(source, table)
    folder = Path(quick_place.root.removeprefix("file://")) / "staging" / quick_place.source
    (folder / "manifests" / f"{1:016d}.json").unlink()

    failed = quick_place.failure()

    assert "manifests from before it cannot be read" in str(failed.error)
    assert "column=m" in str(failed.error)
    quick_place.spark.sql(f"ALTER TABLE {quick_place.target(table)} ADD COLUMNS (m bigint)")
    quick_place.merge()
    quick_place.check(table)


def test_columns_that_no_old_row_fills_are_followed(quick_place: Workplace) -> None:
    source, table = an_altered_table(quick_place, "ADD COLUMN m BIGINT")
    quick_place.merge()
    add_row(source, table)
    quick_place.merge()
    quick_place.check(table)

    table.truncate()
    table.alter("ADD COLUMN k BIGINT DEFAULT 7", NEW | {"k": BIGINT}, k=7)
    source.commit()
    quick_place.merge()
    add_row(source, table)
    quick_place.merge()
    quick_place.check(table)


def test_a_column_that_is_another_one_under_its_name_is_refused(quick_place: Workplace) -> None:
    source = quick_place.new_source()
    table = source.create(quick_place.database, "t", NEW, ("id",))
    swapped = source.create(quick_place.database, "s", NEW, ("id",))
    for each in (table, swapped):
        each.insert(id=1, n=1, m=2)
    source.commit()
    quick_place.merge()
    table.insert(id=2, n=1, m=2)
    table.alter("DROP COLUMN m", OLD)
    swapped.alter(
        "RENAME COLUMN n TO m, RENAME COLUMN m TO n", {"id": INT, "m": BIGINT, "n": BIGINT}
    )
    source.commit()
    quick_place.merge()
    table.alter("ADD COLUMN m BIGINT", NEW)
    table.insert(id=3, n=3, m=9)
    swapped.insert(id=3, n=3, m=9)
    source.commit()

    report = quick_place.try_merge()

    errors = [str(each.error) for each in report.tables]
    assert all("dropped and added again, or got the name of another one" in each for each in errors)
    assert "column=m" in errors[1]
    assert "column=m,n" in errors[0]
