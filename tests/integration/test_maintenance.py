"""Compaction and expiry of lake tables, beside what readers and merges need of their versions."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from airflow_provider_binlog.spark.maintenance import run as module
from airflow_provider_binlog.spark.maintenance.options import MaintenanceOptions, TableMaintenance
from airflow_provider_binlog.spark.maintenance.run import maintain
from airflow_provider_binlog.spark.published import read_published
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.spark.history import Table


DAY = timedelta(days=1)
NOTHING = timedelta(0)


def run(
    workplace: Workplace, keep: timedelta, exclude: Sequence[str] = ()
) -> list[TableMaintenance]:
    given = workplace.options()
    options = MaintenanceOptions(
        staging=given.staging,
        source=given.source,
        format=given.format,
        lake=given.lake,
        tables=[],
        exclude=exclude,
        compact=True,
        keep=keep,
    )
    return maintain(workplace.spark, options, show=lambda _: None)


def new_table(workplace: Workplace) -> Table:
    columns = {"id": INT, "note": TEXT}
    return workplace.new_source().create(workplace.database, "t", columns, ("id",))


def inserted(workplace: Workplace, table: Table, *ids: int) -> list[str]:
    """Merge a row after the other, each into a file of its own; return the publish records."""
    published = []
    for number in ids:
        table.insert(id=number, note="new")
        table.source.commit()
        published.append(workplace.merge().published)
    return published


def ids_of(workplace: Workplace, table: Table, published: str | None = None) -> list[int]:
    """Return what a reader of a publish record finds."""
    options = workplace.options()
    name = ".".join(table.name)
    cut = read_published(
        workplace.spark, options.staging, options.source, [name], published=published
    )
    return sorted(row["id"] for row in cut.tables[name].collect())


def vacuumed(workplace: Workplace, table: Table) -> list[int]:
    """Return how old a removed file had to be, in hours, in each VACUUM of a Delta table."""
    history = workplace.spark.sql(f"DESCRIBE HISTORY {workplace.target(table)}")
    started = history.where("operation = 'VACUUM START'").orderBy("version").collect()
    given = (row["operationParameters"]["specifiedRetentionMillis"] for row in started)
    return [int(milliseconds) // 3_600_000 for milliseconds in given]


@in_either_format
def test_versions_that_a_reader_may_want_stay_and_older_ones_go(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMIT_MAX", timedelta(hours=5))
    table = new_table(workplace)
    first, *_, last = inserted(workplace, table, 1, 2, 3, 4, 5, 6)

    (done,) = run(workplace, DAY)

    assert (done.error, done.skipped) == (None, "")
    assert done.files_after < done.files_before
    workplace.check(table)
    assert ids_of(workplace, table, first) == [1]

    # The newest record names what was compacted: it is kept, whatever its age is.
    (done,) = run(workplace, NOTHING)

    assert done.error is None
    everything = [1, 2, 3, 4, 5, 6]
    assert ids_of(workplace, table) == ids_of(workplace, table, last) == everything

    (newest,) = inserted(workplace, table, 7)
    (done,) = run(workplace, NOTHING)

    assert done.error is None
    assert ids_of(workplace, table, newest) == [*everything, 7]
    if workplace.format == "iceberg":
        with pytest.raises((PySparkException, Py4JJavaError)):
            ids_of(workplace, table, first)
    else:
        # A file may be removed so long before the commit of the record's version.
        assert vacuumed(workplace, table) == [25, 6, 6]
    # What is left is what merges need.
    report = workplace.merge()
    assert not [row for row in report.tables if row.suspect or row.hold]
    table.delete(2)
    table.update(3, note="another")
    workplace.follow(table)


@in_either_format
def test_tables_of_every_merge_into_the_lake_are_maintained(workplace: Workplace) -> None:
    table = new_table(workplace)
    inserted(workplace, table, 1)
    elsewhere = TableRules({"*": TableOptions(target="{database}_published.{table}")})
    workplace.merge(table_options=elsewhere)

    first, other = run(workplace, DAY)

    assert {first.target, other.target} > {workplace.target(table)}
    for done in (first, other):
        assert (done.table, done.error, done.skipped) == (".".join(table.name), None, "")


@in_either_format
def test_a_table_that_is_not_there_is_skipped_and_globs_choose(workplace: Workplace) -> None:
    table = new_table(workplace)
    inserted(workplace, table, 1)
    if workplace.format == "delta":
        shutil.rmtree(Path(urlsplit(workplace.root).path, "lake", *table.name))
    else:
        workplace.spark.sql(f"DROP TABLE {workplace.target(table)}")

    (done,) = run(workplace, DAY)

    assert done.skipped == "there is no such lake table"
    assert run(workplace, DAY, exclude=[".".join(table.name)]) == []
