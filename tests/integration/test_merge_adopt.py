"""Lake tables that someone else made, or merges of another source: adopted, or refused by name."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_binlog.spark.target.state import NOTHING, Mark
from tests.unit.spark.history import RowImage, Table
from tests.unit.spark.made_snapshots import SnapshotMaker, take_snapshot
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format


def make_by_hand(workplace: Workplace, table: Table, columns: str, *rows: str) -> None:
    """Make the lake table of a table as someone else might have."""
    target, sql = workplace.target(table), workplace.spark.sql
    if workplace.format == "iceberg":
        sql(f"CREATE NAMESPACE IF NOT EXISTS {target.rpartition('.')[0]}")
    sql(f"CREATE TABLE {target} ({columns}) USING {workplace.format}")
    if rows:
        sql(f"INSERT INTO {target} VALUES {', '.join(rows)}")


@in_either_format
def test_a_lake_table_of_someone_else_is_adopted(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    source.commit()
    make_by_hand(workplace, table, "note string, id int", "('mine', 1)", "('extra', 77)")
    take_snapshot(table)
    table.update(2, note="two")
    source.commit()
    assert "does not follow this table" in str(workplace.failure().error)

    workplace.merge(adopt=True)
    workplace.check(table, in_order=False)
    table.update(3, note="three")
    workplace.follow(table, in_order=False)


def the_same_table_of_another_source(workplace: Workplace) -> tuple[Table, Workplace, Table]:
    """Return a merged table, and the same one of a source with another name, and its merges."""
    first = workplace.new_source()
    older = first.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    older.insert(id=1, note="read before")
    first.commit()
    workplace.merge()
    older.alter("...", {"id": INT, "note": TEXT, "more": BIGINT}, more=7)
    older.insert(id=2, note="read before")
    workplace.follow(older)

    second = replace(workplace, source=f"{workplace.source}_2")
    # Altered meanwhile; and there are fewer manifests of it.
    types = {"id": BIGINT, "note": TEXT, "other": INT}
    table = second.new_source().create(workplace.database, "t", types, ("id",), logged=False)
    for id_ in range(5):
        table.load(id=id_, note="new", other=id_)
    table.update(1, note="before")
    table.source.commit()
    return older, second, table


@in_either_format
def test_the_table_of_another_source_is_adopted_and_read_until_its_rows_are_replaced(
    workplace: Workplace,
) -> None:
    """As after a purged log: the server is captured under another name, into the same lake."""
    older, second, table = the_same_table_of_another_source(workplace)
    error = str(second.failure().error)
    assert ("merge with adopt=True" in error, "property=binlog.source" in error) == (True, True)
    assert "a snapshot has to replace its rows" in second.held(adopt=True).reason
    maker = SnapshotMaker(table).read()
    table.update(2, note="meanwhile")
    snapshot = maker.commit()

    assert "not loaded yet" in second.held(adopt=True).reason
    older.update(1, note="still merged by the other source")
    workplace.follow(older)

    table.source.commit()
    second.merge_killed("overwrite", adopt=True)
    assert {row["note"] for row in second.found(table)} == {row["note"] for row in older.values}
    state = second.state(table)
    assert (state.applied, second.hold(table).state) == (NOTHING, "loading")
    second.merge()
    second.check(table, in_order=False)
    state = second.state(table)
    assert (state.applied, state.loaded) == (Mark(2), snapshot.id)

    table.update(3, note="after")
    second.follow(table, in_order=False)
    older.update(1, note="merged no more")
    older.source.commit()
    assert "merge with adopt=True" in str(workplace.failure().error)


@in_either_format
def test_a_table_is_given_back_to_a_source_that_merged_it_before(workplace: Workplace) -> None:
    """What that source committed at the time says nothing of the rows that are there since."""
    older, second, table = the_same_table_of_another_source(workplace)
    take_snapshot(table)
    second.follow(table, in_order=False, adopt=True)

    older.update(1, note="given back")
    take_snapshot(older)
    workplace.follow(older, in_order=False, adopt=True)
    assert workplace.state(older).applied == Mark(3)
    older.update(2, note="merged again")
    workplace.follow(older, in_order=False)


@in_either_format
def test_rows_that_someone_else_loaded_are_continued_from_their_position(
    workplace: Workplace,
) -> None:
    table = workplace.old_table()
    source = table.source
    source.row_image = RowImage.MINIMAL
    table.update(1, id=10)
    table.update(2, note="before")
    rows = (f"('{row['note']}', {row['id']})" for row in table.values)
    make_by_hand(workplace, table, "note string, id int", *rows)
    position = source.position()
    table.update(2, note="after")
    table.update(10, note="moved before")
    table.delete(3)
    source.commit()
    table.update(4, note="later")
    source.commit()

    assert "airflow binlog adopt" in str(workplace.failure().error)
    SnapshotMaker(table).commit(low=position, high=position, is_exact=True, adopts=True)
    (report,) = workplace.merge().tables
    assert report.applied_after == Mark(2)
    workplace.check(table, in_order=False)
    assert (report.rows["updated"], report.rows["inserted"], report.rows["deleted"]) != (0, 0, 0)
    table.update(5, note="five")
    workplace.follow(table, in_order=False)

    SnapshotMaker(table).commit(low=position, high=position, is_exact=True, adopts=True)
    assert "follows the source already" in str(workplace.failure().error)


@in_either_format
def test_a_lake_table_with_other_columns_is_not_adopted(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    source.commit()
    make_by_hand(workplace, table, "id string, more int")
    take_snapshot(table)
    source.commit()

    error = str(workplace.failure(adopt=True).error)
    assert "columns=id (string, not int), more, note" in error
