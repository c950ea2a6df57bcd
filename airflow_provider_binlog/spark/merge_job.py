r"""The application that spark-submit runs: merge staged changes into Delta or Iceberg tables.

    spark-submit --py-files airflow_provider_binlog.zip merge_job.py \
        --staging s3a://lake/staging --source shop --through 42 --format delta --lake s3a://lake/tables

Exit codes: 0 done; 1 failed; 2 the arguments cannot be used; 75 failed, but may pass by itself.
"""

# ruff: noqa: T201  The report is printed to stdout, failures to stderr.

from __future__ import annotations

import argparse
import logging
import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.spark.failures import explain
from airflow_provider_binlog.spark.merge_run import MergeOptions, merge_all
from airflow_provider_binlog.spark.report import Report
from airflow_provider_binlog.spark.staged.files import HadoopFileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.schema import TableName

RETRYABLE_EXIT = 75
"""The exit code of a failure that may pass: `EX_TEMPFAIL` of sysexits.h."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the merge; return the exit code. The last line on stdout is the report."""
    options, report_uri = parse_arguments(arguments)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark would print every error with its Java stack; ours is in the report.
        logging.getLogger(name).disabled = True
    started = time.monotonic()
    spark = SparkSession.builder.appName(f"binlog merge: {options.source}").getOrCreate()
    try:
        report = merge_all(spark, options)
    except Exception as error:  # noqa: BLE001  One clear line instead of two stacks.
        known = explain(error, source=options.source, lake=options.lake)
        report = Report(
            options.source,
            options.through or 0,
            [],
            time.monotonic() - started,
            str(known),
            known.retryable,
        )
    # Under spark-submit both streams come out as stdout: the report stays the last line.
    for line in _failures(report):
        print(f"merge failed: {line}", file=sys.stderr, flush=True)
    if report_uri is not None:
        try:
            HadoopFileSystem(spark).write(report_uri, report.to_json().encode())
        except BinlogError as error:
            print(f"merge report not written: {error}", file=sys.stderr, flush=True)
            return RETRYABLE_EXIT if error.retryable else 1
    print(report.to_json(), flush=True)
    if not report.failed:
        return 0
    return RETRYABLE_EXIT if report.may_pass else 1


def parse_arguments(arguments: Sequence[str] | None) -> tuple[MergeOptions, str | None]:
    """Return the options, and the report's URI; exit with 2 if they cannot be used."""
    parser = argparse.ArgumentParser("merge_job.py", description=__doc__.split("\n")[0])
    parser.add_argument("--staging", required=True, help="URI of the staging root")
    parser.add_argument("--source", required=True, help="name of the source")
    parser.add_argument(
        "--through", type=int, help="number of the last manifest to merge; default: the newest"
    )
    parser.add_argument("--format", required=True, choices=("delta", "iceberg"))
    parser.add_argument(
        "--lake",
        required=True,
        help="delta: folder of the tables; iceberg: name of the catalog in Spark's settings",
    )
    parser.add_argument(
        "--table-name",
        help="a table's name in the catalog, from {database} and {table}; "
        "iceberg's default: {database}.{table}; delta's: a folder below --lake",
    )
    parser.add_argument(
        "--tables", nargs="+", default=["*"], help="patterns over database.table; default: all"
    )
    parser.add_argument(
        "--keys",
        action="append",
        default=[],
        type=_key,
        metavar="DATABASE.TABLE=COLUMN,...",
        help="key columns of a table without a primary key; without them its changes are appended",
    )
    parser.add_argument(
        "--table-property",
        action="append",
        default=[],
        type=_property,
        metavar="NAME=VALUE",
        help="a property of new tables",
    )
    parser.add_argument("--threads", type=int, default=4, help="tables merged at once")
    parser.add_argument(
        "--verify-parts", action="store_true", help="compare the SHA-256 of every part"
    )
    parser.add_argument("--report", help="URI of a file that the report is written to")
    found = parser.parse_args(arguments)
    options = MergeOptions(
        staging=found.staging,
        source=found.source,
        format=found.format,
        lake=found.lake,
        through=found.through,
        table_name=found.table_name,
        tables=tuple(found.tables),
        keys=dict(found.keys),
        properties=dict(found.table_property),
        threads=found.threads,
        verify_parts=found.verify_parts,
    )
    return options, found.report


def _key(text: str) -> tuple[TableName, tuple[str, ...]]:
    table, _, columns = text.rpartition("=")
    database, _, name = table.partition(".")
    if not database or not name or not all(columns.split(",")):
        raise argparse.ArgumentTypeError(f"not database.table=column,...: {text}")
    return (database, name), tuple(columns.split(","))


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"not name=value: {text}")
    return name, value


def _failures(report: Report) -> list[str]:
    if report.error is not None:
        return [report.error]
    return [f"{each.table}: {each.error}" for each in report.tables if each.error is not None]


if __name__ == "__main__":
    sys.exit(main())
