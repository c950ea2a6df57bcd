"""Rows that others wrote to a lake table: what `on_foreign_write` says is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.merge.progress import read_start
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.table_options import TableRules
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format

if TYPE_CHECKING:
    from tests.unit.spark.history import Table


def written_by_hand(workplace: Workplace) -> Table:
    """Return a table with a row that only the lake has, and a change that is not merged."""
    table = workplace.new_source().create(
        workplace.database, "t", {"id": INT, "note": TEXT}, ("id",)
    )
    table.insert(id=1, note="one")
    workplace.follow(table)
    workplace.spark.sql(f"INSERT INTO {workplace.target(table)} VALUES (9, 'by hand')")
    table.insert(id=2, note="two")
    table.source.commit()
    return table


def rules(what_to_do: str) -> TableRules:
    return TableRules.read({"*": {"on_foreign_write": what_to_do}})


@in_either_format
def test_a_stale_table_waits_for_a_reload(workplace: Workplace) -> None:
    table, options = written_by_hand(workplace), rules("stale")

    for _ in range(2):
        held = workplace.held(table_options=options)
        assert held.status == "stale"
        assert "changed rows, and is no merge's" in held.reason
        assert (held.suspect, held.changes) == ("", {})
    files = StoredFiles(workplace.store, workplace.source)
    progress = read_start(files, workplace.options(table_options=options)).before
    assert {name for name, known in progress.tables.items() if known.hold} == {table.name}

    take_snapshot(table)
    table.update(2, note="three")
    workplace.follow(table, table_options=options)
    assert workplace.merge(table_options=options).tables == []


@in_either_format
def test_what_is_ignored_is_forgotten(workplace: Workplace) -> None:
    table = written_by_hand(workplace)

    (report,) = workplace.merge(table_options=rules("ignore")).tables
    assert (report.status, report.suspect) == ("merged", "")
    table.update(2, note="three")
    table.source.commit()
    (report,) = workplace.merge().tables

    assert (report.status, report.suspect) == ("merged", "")
    assert len(workplace.found(table)) == 3


@in_either_format
def test_a_renamed_table_takes_the_name_of_the_write_along(workplace: Workplace) -> None:
    table = written_by_hand(workplace)
    workplace.merge()
    table.source.rename((table, "renamed"))
    table.insert(id=3, note="three")
    table.source.commit()

    reports = {report.table: report for report in workplace.merge().tables}

    renamed = reports[".".join(table.name)]
    assert "no merge's" in renamed.suspect
    assert len(workplace.found(table)) == 4


@in_either_format
def test_a_truncated_table_is_not_suspect_any_more(workplace: Workplace) -> None:
    table = written_by_hand(workplace)
    (report,) = workplace.merge().tables
    assert report.suspect
    table.truncate()
    table.insert(id=3, note="three")

    workplace.follow(table)

    assert workplace.merge().tables == []
