"""Deleted rows that are kept, and metadata of changes, in lake tables that Spark writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_provider_binlog.spark.target.state import Mark
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.integration.test_merge_kills import merge_killed_later_each_time
from tests.support.killed_writes import Writes
from tests.support.plain_lake import expected_rows, found_rows
from tests.unit.spark.history import RowImage, Source, Table
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace, in_either_format

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.job.options import Report


INT_NULL = replace(BIGINT, mysql="int", arrow=INT.arrow)
SOFT = TableOptions(deletes="soft", metadata=True)
BYTES = ColumnType("varbinary(40)", pa.binary())


def rules(options: TableOptions) -> TableRules:
    return TableRules({"*": options})


def begin(source: Source, seconds: int) -> None:
    """Begin the next transaction so many seconds later."""
    source.commit_ts += seconds * 1_000_000
    source.gtid = f"uuid:{len(source.events)}"


def make_table(workplace: Workplace) -> Table:
    """Return a table with four rows."""
    table = workplace.new_source().create(
        workplace.database, "t", {"id": INT, "n": INT_NULL, "note": TEXT}, ("id",)
    )
    for id_ in range(1, 5):
        begin(table.source, 1)
        table.insert(id=id_, n=id_, note=f"row {id_}")
    return table


def change(table: Table) -> None:
    """Do everything to the rows of a table that a range may hold."""
    source = table.source
    for row_image, id_ in ((RowImage.FULL, 2), (RowImage.MINIMAL, 4)):
        source.row_image = row_image
        begin(source, 1)
        table.delete(1)
        begin(source, 1)
        table.update(id_, note="changed")
        table.delete(id_)
        begin(source, -2)
        table.insert(id=1, n=None, note="again")
        begin(source, 1)
        table.insert(id=9, n=9, note="short")
        table.delete(9)
    source.row_image = RowImage.FULL
    begin(source, 1)
    table.update(3, id=7)


def truncate_and_alter(table: Table) -> None:
    """Truncate a table, insert a row, and add a column."""
    begin(table.source, 1)
    table.truncate()
    begin(table.source, 1)
    table.insert(id=4, n=4, note="after the truncation")
    begin(table.source, 1)
    table.alter("...", {**table.types, "more": INT_NULL}, more=7)


def merge_as_expected(workplace: Workplace, table: Table, options: TableOptions) -> Report:
    """Stage what happened to a table, merge it, and compare it with the plain model."""
    table.source.commit()
    report = workplace.merge(table_options=rules(options))
    assert found_rows(workplace, table) == expected_rows(table, options)
    return report


@in_either_format
@pytest.mark.parametrize("deletes", ["soft", "ignore"])
def test_deleted_rows_are_kept_as_the_plain_model_says(workplace: Workplace, deletes: str) -> None:
    options = TableOptions(deletes=deletes, metadata=True)
    table = make_table(workplace)
    source = table.source
    merge_as_expected(workplace, table, options)

    change(table)
    truncate_and_alter(table)
    begin(source, 1)
    table.insert(id=5, n=5, note="with more", more=8)
    (report,) = merge_as_expected(workplace, table, options).tables
    assert report.applied_after == workplace.state(table).applied

    begin(source, 1)
    table.drop()
    merge_as_expected(workplace, table, options)
    begin(source, 1)
    table.create_again()
    begin(source, 1)
    table.insert(id=5, n=None, note="another table", more=None)
    merge_as_expected(workplace, table, options)


@in_either_format
def test_a_reload_keeps_deleted_rows_and_marks_those_that_vanished(workplace: Workplace) -> None:
    table = make_table(workplace)
    source = table.source
    begin(source, 1)
    table.delete(1)
    source.commit()
    workplace.merge(table_options=rules(SOFT))
    before = {row["id"]: row for row in workplace.found(table)}
    begin(source, 1)
    del table.rows[2]
    table.rewrite("dropped a partition")
    source.commit()
    assert workplace.held(table_options=rules(SOFT)).status == "stale"

    take_snapshot(table)
    begin(source, 5)
    table.delete(3)
    table.insert(id=8, n=8, note="new")
    source.commit()
    workplace.merge(table_options=rules(SOFT))

    rows = {row["id"]: row for row in workplace.found(table)}
    assert rows[1] == before[1]
    assert rows[2] == before[2] | {
        "_deleted_at": rows[2]["_deleted_at"],
        "_binlog_change_type": "snapshot",
        "_binlog_commit_ts": rows[2]["_deleted_at"],
        "_binlog_gtid": None,
        "_binlog_pos": rows[2]["_binlog_pos"],
    }
    marked = {id_ for id_, row in rows.items() if row["_deleted_at"] is not None}
    assert marked == {1, 2, 3}
    assert rows[3]["_binlog_change_type"] == "delete"
    assert (rows[4]["_binlog_change_type"], rows[4]["note"]) == ("snapshot", "row 4")
    assert rows[8]["_binlog_change_type"] == "insert"

    take_snapshot(table)
    truncate_and_alter(table)
    source.commit()
    (report,) = workplace.merge(table_options=rules(SOFT)).tables
    assert report.applied_after == Mark(source.sequence)
    rows = {row["id"]: row for row in workplace.found(table)}
    assert {id_ for id_, row in rows.items() if row["_deleted_at"] is None} == {4}
    assert (rows[4]["note"], rows[4]["more"]) == ("after the truncation", 7)


@pytest.mark.slow
@in_either_format
def test_a_column_that_gets_another_type_is_dropped_before_the_reload(workplace: Workplace) -> None:
    table = make_table(workplace)
    source = table.source
    for id_ in [*table.rows]:
        begin(source, 1)
        table.delete(id_)
    source.commit()
    workplace.merge(table_options=rules(SOFT))

    # A number has no type in common with bytes.
    table.alter("...", {"id": INT, "n": BYTES, "note": TEXT})
    begin(source, 1)
    table.insert(id=9, note="new", n=b"nine")
    source.commit()
    workplace.try_merge(table_options=rules(SOFT))
    take_snapshot(table)
    begin(source, 1)
    table.insert(id=10, note="newer", n=b"ten")
    source.commit()
    (held,) = workplace.try_merge(table_options=rules(SOFT)).held
    assert "keeps removed rows: drop the column of the lake table" in held.snapshot, held

    workplace.spark.sql(f"ALTER TABLE {workplace.target(table)} DROP COLUMN n")
    take_snapshot(table)
    begin(source, 1)
    table.insert(id=11, note="newest", n=b"eleven")
    source.commit()
    workplace.merge(table_options=rules(SOFT))

    rows = {row["id"]: row for row in workplace.found(table)}
    assert rows[1]["_deleted_at"] is not None, "it was removed, and stays"
    living = {id_: row["n"] for id_, row in rows.items() if row["_deleted_at"] is None}
    assert living == {row["id"]: row["n"] for row in table.values}


@in_either_format
def test_an_option_that_is_changed_does_not_mix_rows(workplace: Workplace) -> None:
    table = make_table(workplace)
    source, hard = table.source, rules(TableOptions())
    source.commit()
    workplace.merge(table_options=hard)
    begin(source, 1)
    table.delete(1)
    source.commit()

    held = workplace.held(table_options=rules(SOFT))
    assert held.status == "stale"
    assert "its options say deletes='soft'" in held.reason
    (report,) = workplace.merge(table_options=hard).tables
    assert (report.status, report.reason) == ("merged", "")
    begin(source, 1)
    table.delete(2)
    source.commit()
    workplace.held(table_options=rules(SOFT))
    take_snapshot(table)
    source.commit()
    workplace.merge(table_options=rules(SOFT))
    assert {row["id"] for row in workplace.found(table)} == {3, 4}
    begin(source, 1)
    table.delete(3)
    source.commit()
    workplace.merge(table_options=rules(SOFT))

    # Now there is a row that only the lake has: not even a reload removes it.
    take_snapshot(table)
    begin(source, 1)
    table.update(4, n=5)
    source.commit()
    held = workplace.held(table_options=hard)
    assert "drop the lake table" in held.reason
    renamed = TableOptions(deletes="soft", prefix="x_")
    workplace.merge(table_options=rules(renamed))
    assert {row["id"]: row["x_deleted_at"] is None for row in workplace.found(table)} == {
        3: False,
        4: True,
    }
    columns = {"id", "n", "note", "x_deleted_at"}
    assert workplace.state(table).columns.keys() == columns


def test_a_column_with_the_name_of_an_added_one_is_refused(quick_workplace: Workplace) -> None:
    table = make_table(quick_workplace)
    table.alter("...", {**table.types, "_Deleted_At": INT_NULL})
    table.insert(id=9, n=9, note="", _Deleted_At=1)
    table.source.commit()

    failed = quick_workplace.failure(table_options=rules(TableOptions(deletes="soft")))

    assert "give these another prefix" in str(failed.error)
    assert "column=_Deleted_At" in str(failed.error)
    quick_workplace.merge(table_options=rules(TableOptions(deletes="soft", prefix="x_")))


@pytest.mark.slow
def test_a_merge_in_pieces_that_is_killed_one_write_later_each_time(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(workplace)
    source = table.source
    source.commit()
    workplace.merge(table_options=rules(SOFT))
    change(table)
    for _ in range(2):
        begin(source, 1)
        table.truncate()
        begin(source, 1)
        table.insert(id=4, n=4, note="after the truncation")
    begin(source, 1)
    table.alter("...", {**table.types, "more": INT_NULL}, more=7)
    table.update(4, n=0)
    source.commit()

    options = {"table_options": rules(SOFT)}
    report, more = merge_killed_later_each_time(workplace, monkeypatch, Writes(), **options)

    assert not report.failed
    assert more > 3
    assert found_rows(workplace, table) == expected_rows(table, SOFT)
