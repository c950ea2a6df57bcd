"""Consistent cuts of several lake tables: the versions that a merge published as one state.

Reads a publish record and the lake tables with the session of any Spark job. Of this package the
zip of the merge is enough there: `airflow_provider_binlog.spark.job.options.build_py_files`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConfigurationError, StagingError
from airflow_provider_binlog.names import join_table_name, quote_identifier, split_table_name
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    Progress,
    load_progress,
    published_at,
    read_record,
    read_records,
)
from airflow_provider_binlog.spark.names import is_folder
from airflow_provider_binlog.spark.staged.files import HadoopFiles
from airflow_provider_binlog.staging.paths import ReadFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Published:
    """Tables of a lake as they were at one position of the source.

    Attributes:
        id: That of the publish record.
        time: When it was published.
        position: That position, with its GTIDs where they are known; None before the first range.
        tables: The rows by `database.table`, read when they are used.
    """

    id: str
    time: datetime
    position: Position | None
    tables: Mapping[str, DataFrame]


def read_published(
    spark: SparkSession,
    staging: str,
    source: str,
    tables: Sequence[str] = (),
    *,
    lake: str | None = None,
    published: str | None = None,
) -> Published:
    """Return tables of a lake in one state of the source, also while merges run.

    Args:
        spark: A session that reads the lake tables and the staged files.
        staging: URI of the staging root, as Spark names it: `s3a://lake/staging`.
        source: Name of the source.
        tables: Names of tables, `database.table`; all that are in one state by default.
        lake: The folder of the tables or the name of the catalog, as the merge has it, or the
            lake's id, if the source is merged into several lakes.
        published: Id of the publish record, as the merge returned it; by default the newest that
            has a version of every table.

    Raises:
        ConfigurationError: There are several lakes, or none of this name.
        StagingError: No publish record has a version of every table.
    """
    files = HadoopFiles(spark, staging, source)
    folder = find_lake(files, lake)
    if published is None:
        records = read_records(files, folder)
    else:
        records = iter([read_record(files, folder, published)])
    record, versions = _find_record(records, [*map(split_table_name, tables)])
    frames = {
        join_table_name(name): _read(spark, record.tables[name].target, version)
        for name, version in versions.items()
    }
    return Published(record.id, published_at(record.id), record.stop, frames)


def find_lake(files: ReadFiles, lake: str | None) -> str:
    """Return the folder of the records of a lake, of the only one where none is named.

    Raises:
        ConfigurationError: There is none, or not one alone.
    """
    lakes = find_lakes(files, lake)
    if len(lakes) > 1:
        raise ConfigurationError(
            "name the lake that is read, by its id or as its merge does",
            lake=lake,
            lakes=", ".join(f"{name}: {text}" for name, text in sorted(lakes.items())),
        )
    return f"{PROGRESS}/{next(iter(lakes))}"


def find_lakes(files: ReadFiles, lake: str | None, format_: str = "") -> dict[str, str]:
    """Return format, place and names of each lake that is so named, or of all, by its id.

    Merges whose tables have other names, by `target`, have lakes of their own in one place.

    Raises:
        ConfigurationError: There is none.
    """
    lakes = {}
    for name in files.list(PROGRESS):
        newest = load_progress(files, f"{PROGRESS}/{name}")
        if newest is None or not newest.lake.startswith(format_):
            continue
        if lake is None or f" {lake} " in f" {name} {newest.lake} ":
            lakes[name] = newest.lake
    if not lakes:
        raise ConfigurationError("nothing is published", lake=lake)
    return lakes


def _find_record(
    records: Iterator[Progress], names: Collection[TableName]
) -> tuple[Progress, dict[TableName, int]]:
    """Return the first record that has a version of every table, and the versions."""
    states: dict[str, str] = {}
    for record in records:
        versions = record.versions
        lacks = [name for name in names if name not in versions]
        if not lacks:
            return record, {name: versions[name] for name in names or versions}
        states = states or {join_table_name(name): _why_not(record, name) for name in lacks}
    raise StagingError("no publish record has a version of every table", **states)


def _why_not(record: Progress, name: TableName) -> str:
    table = record.tables.get(name)
    if table is None:
        return "no merge has read it"
    if table.hold is not None:
        return f"{table.hold.state}: {table.hold.reason}"
    return "waits for a merge" if table.foreign_write is None else str(table.foreign_write)


def _read(spark: SparkSession, target: str, version: int) -> DataFrame:
    if target.startswith('"'):
        raise ConfigurationError(
            "tables of PostgreSQL are in one state whenever they are read: read them there, in one "
            "transaction of isolation level REPEATABLE READ",
            table=target,
        )
    if not is_folder(target):
        # The session may keep the table as it was before.
        spark.sql(f"REFRESH TABLE {target}")
    return spark.sql(f"SELECT * FROM {target} VERSION AS OF {version}")  # noqa: S608  Both are the record's.


def tag_published(spark: SparkSession, record: Progress, tag: str) -> None:
    """Give the Iceberg tables of a record a tag at their versions, in place of an earlier one."""
    for name, version in record.versions.items():
        alter = f"ALTER TABLE {record.tables[name].target} CREATE OR REPLACE TAG"
        spark.sql(f"{alter} {quote_identifier(tag)} AS OF VERSION {version}")
