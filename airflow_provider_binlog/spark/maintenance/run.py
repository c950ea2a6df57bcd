"""Compact the files of lake tables, and expire versions that nobody reads.

Versions stay that were the newest at any time of the period, and those of the publish records of
the period, the newest record among them: whoever reads a cut, or restores a table, finds them.

Source: Delta's documentation, "Table utility commands"; Iceberg's, "Spark procedures".
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.job.options import TableChoice
from airflow_provider_binlog.spark.job.session import configure
from airflow_provider_binlog.spark.maintenance.options import MaintenanceOptions, TableMaintenance
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    Progress,
    published_at,
    read_records,
    record_ids,
)
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.published import find_lakes
from airflow_provider_binlog.spark.staged.files import HadoopFiles
from airflow_provider_binlog.spark.target.delta.table import DeltaLake
from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake, find_table
from airflow_provider_binlog.spark.target.jvm import check_catalog, check_jars
from airflow_provider_binlog.staging.paths import ReadFiles
from airflow_provider_binlog.table_options import TableRules

_ABSENT = "there is no such lake table"
COMMIT_MAX = timedelta(days=1)
"""For so long may a writer take from what it read until its commit."""

_VACUUM = {
    # Delta refuses less than the period of the table's property, since it fears slow writers.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # And it takes that period, whatever RETAIN says.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}
_MANAGED = "its catalog compacts and expires tables by itself"


def maintain(
    spark: SparkSession,
    options: MaintenanceOptions,
    *,
    show: Callable[[str], object] = print,
) -> list[TableMaintenance]:
    """Compact and expire every table that the lake's merges have; return what was done.

    A failure of one table does not keep the others.

    Raises:
        ConfigurationError: Spark lacks the classes of the format, or there is no such lake.
    """
    check_jars(spark, options.format)
    since = datetime.now(UTC) - options.keep
    files = HadoopFiles(spark, options.staging, options.source)
    lakes = find_lakes(files, options.lake, options.format)
    tables = find_versions(files, [f"{PROGRESS}/{lake_id}" for lake_id in lakes], since)
    chosen = TableChoice(options.tables, options.exclude)
    lake = (_Delta if options.format == "delta" else _Iceberg)(spark, options)
    done = []
    for (name, target), named in sorted(tables.items()):
        if chosen(name):
            report = TableMaintenance(".".join(name), target)
            _maintain(lake, report, named, since)
            done.append(report)
            show(done[-1].line())
    return done


def find_versions(
    files: ReadFiles, folders: Iterable[str], since: datetime
) -> dict[tuple[TableName, str], set[int]]:
    """Return the versions that records of lakes name, by table that merges chose and lake table."""
    records = [record for folder in folders for record in _find_records(files, folder, since)]
    tables: dict[tuple[TableName, str], set[int]] = {
        (name, table.target): set()
        for record in records
        for name, table in record.tables.items()
        if table.target and table.chosen
    }
    for record in records:
        for name, version in record.versions.items():
            if (key := (name, record.tables[name].target)) in tables:
                tables[key].add(version)
    return tables


def _find_records(files: ReadFiles, folder: str, since: datetime) -> Iterator[Progress]:
    """Yield the newest record of a lake, and the oldest of the period, if there are any.

    The versions of a table rise from record to record: the oldest of the period has the oldest.
    """
    ids = record_ids(files, folder)
    young = [one for one in ids if published_at(one) >= since]
    for some in (reversed(ids), young):
        yield from islice(read_records(files, folder, some), 1)


def _maintain(
    lake: _Delta | _Iceberg, report: TableMaintenance, named: Collection[int], since: datetime
) -> None:
    began = time.monotonic()
    try:
        lake.maintain(report, named, since)
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        explained = explain(error, table=report.table, target=report.target)
        report.error, report.retryable = str(explained), explained.retryable
    report.seconds = round(time.monotonic() - began, 3)


class _Delta:
    """Tables of Delta; `maintain` compacts and expires one, and notes in the report what it did."""

    def __init__(self, spark: SparkSession, options: MaintenanceOptions) -> None:
        self.session, self.options = spark.newSession(), options
        self.lake = DeltaLake(options.source, options.lake, TableRules(), {})
        configure(self.session, {**self.lake.settings, **_VACUUM}, few=False)

    def maintain(self, report: TableMaintenance, named: Collection[int], since: datetime) -> None:
        target = report.target
        try:
            state = self.lake.find_state(self.session, target)
        except MergeError:
            report.skipped = _MANAGED
            return
        if state is None:
            report.skipped = _ABSENT
            return
        if self.options.compact:
            metrics = self.session.sql(f"OPTIMIZE {target}").collect()[0]["metrics"]
            report.files_before = int(metrics["numFilesRemoved"])
            report.files_after = int(metrics["numFilesAdded"])
        # Files are deleted by when a writer removed them, which is before its commit: no file of a
        # version was removed earlier than so long before that.
        times = (self.lake.commit_time(self.session, target, version) for version in named)
        kept = min([since, *(at - COMMIT_MAX for at in times if at is not None)])
        # Delta rounds to whole hours.
        hours = math.ceil((datetime.now(UTC) - kept) / timedelta(hours=1))
        self.session.sql(f"VACUUM {target} RETAIN {hours} HOURS").collect()
        report.kept_since = kept.isoformat(timespec="seconds")


class _Iceberg:
    """Tables of Iceberg; see `_Delta`."""

    def __init__(self, spark: SparkSession, options: MaintenanceOptions) -> None:
        check_catalog(spark, options.lake)
        self.session, self.options = spark.newSession(), options
        lake = IcebergLake(options.source, options.lake, TableRules(), {})
        configure(self.session, lake.settings, few=False)

    def maintain(self, report: TableMaintenance, named: Collection[int], since: datetime) -> None:
        target = report.target
        table = find_table(self.session, target)
        if table is None:
            report.skipped = _ABSENT
            return
        if self._is_managed():
            report.skipped = _MANAGED
            return
        if self.options.compact:
            strategy = ", strategy => 'sort'" if table.ordered_by else ""
            (row,) = self._call("rewrite_data_files", target, strategy)
            report.files_before = int(row["rewritten_data_files_count"])
            report.files_after = int(row["added_data_files_count"])
            self._call("rewrite_position_delete_files", target)
        kept = self._find_oldest(target, named, since)
        text = f"{kept.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"
        self._call("expire_snapshots", target, f", older_than => TIMESTAMP '{text}'")
        report.kept_since = kept.isoformat(timespec="seconds")

    def _call(self, procedure: str, target: str, more: str = "") -> list[Any]:
        catalog = quote_identifier(self.options.lake)
        statement = f"CALL {catalog}.system.{procedure}(table => {quote_text(target)}{more})"
        return self.session.sql(statement).collect()

    def _find_oldest(self, target: str, named: Collection[int], since: datetime) -> datetime:
        """Return the commit time of the oldest version to keep, `since` if none is older."""
        text = f"{since.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"
        listed = ", ".join(map(str, [0, *named]))
        row = self.session.sql(
            f"SELECT unix_micros(min(committed_at)) FROM {target}.snapshots"  # noqa: S608  Quoted.
            f" WHERE snapshot_id IN ({listed}) OR snapshot_id ="
            f" (SELECT max_by(snapshot_id, made_current_at) FROM {target}.history"
            f" WHERE made_current_at <= TIMESTAMP '{text}')"
        ).collect()[0]
        if row[0] is None:
            return since
        return min(since, datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row[0]))

    def _is_managed(self) -> bool:
        """Whether the catalog is Amazon's S3 Tables, by its class or its REST address."""
        setting = f"spark.sql.catalog.{self.options.lake}"
        given = (self.session.conf.get(f"{setting}.{name}", "") for name in ("catalog-impl", "uri"))
        return any("s3tables" in str(value).lower() for value in given)
