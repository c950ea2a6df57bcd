r"""The application that spark-submit runs: merge staged changes into lake tables.

    spark-submit --py-files airflow_provider_binlog.zip application.py \
        --staging s3a://lake/staging --source shop --through 42 --format delta --lake s3a://lake/tables

Exit codes: 0 done; 1 failed; 2 the arguments cannot be used; 75 failed, but may pass by itself.
"""

# ruff: noqa: T201  The report is printed to stdout, failures to stderr.

from __future__ import annotations

import logging
import sys
import time

if sys.version_info < (3, 11):  # noqa: UP036  It is the driver's, which the cluster has.
    sys.exit(
        f"the merge takes Python 3.11 or newer, and the driver's is {sys.version.split()[0]}: name "
        "another one by spark.pyspark.python in the conf of the merge"
    )

from collections.abc import Callable, Iterator, Sequence

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_provider_binlog.errors import BinlogError, ConfigurationError
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.job.options import (
    UNMATCHED,
    JobReport,
    Report,
    TableReport,
    parse_arguments,
)
from airflow_provider_binlog.spark.job.session import job_settings
from airflow_provider_binlog.spark.merge.follow import follow
from airflow_provider_binlog.spark.merge.run import opened_merges
from airflow_provider_binlog.spark.staged.files import HadoopFiles

UNUSABLE_EXIT = 2
"""The exit code of arguments that cannot be used, as of `argparse`."""

RETRYABLE_EXIT = 75
"""The exit code of a failure that may pass: `EX_TEMPFAIL` of sysexits.h."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the merge; return the exit code.

    Prints a line for each table as it is done. Where the report is written to no file, what it says
    follows, and the report itself as the last line on stdout.
    """
    try:
        options, report_uri = parse_arguments(arguments)
    except ConfigurationError as error:
        print(error, file=sys.stderr, flush=True)
        return UNUSABLE_EXIT
    started = time.monotonic()
    spark = start_spark(f"binlog merge: {options.source}")
    try:
        with opened_merges(spark, options) as (merge, files):
            if options.follow:
                report = follow(merge, files, seconds=options.follow, show=_print_line)
            else:
                report = merge(_print_table)
    except Exception as error:  # noqa: BLE001  One clear line instead of two stacks.
        explained = explain(error, source=options.source, lake=options.lake)
        report = Report(
            options.source,
            options.through or 0,
            [],
            time.monotonic() - started,
            str(explained),
            explained.retryable,
        )
    return finish(spark, report, report_uri, show=lambda: _print_report(report))


def finish(
    spark: SparkSession, report: JobReport, uri: str | None, *, show: Callable[[], object]
) -> int:
    """Write the report of a job, or show it where there is no file for it; return the exit code."""
    if uri is None:
        show()
    else:
        try:
            HadoopFiles(spark).write(uri, report.to_json().encode())
        except BinlogError as error:
            show()
            print(f"report not written: {error}", file=sys.stderr, flush=True)
            return RETRYABLE_EXIT if error.retryable else 1
    if not report.failed:
        return 0
    return RETRYABLE_EXIT if report.may_pass else 1


def start_spark(name: str) -> SparkSession:
    """Return the session of the job, with its own settings where the user gave none."""
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark would print every error with its Java stack; ours is in the report.
        logging.getLogger(logger).disabled = True
    SparkContext._ensure_initialized()  # noqa: SLF001  Only then the submitted settings are known.
    given = SparkConf()
    builder = SparkSession.builder.appName(name)
    for setting, value in job_settings().items():
        if not given.contains(setting):
            builder = builder.config(setting, value)
    return builder.getOrCreate()


def _print_table(report: TableReport, number: int, total: int) -> None:
    """Print a line for a table as it is done."""
    _print_line(f"{number} of {total}: {report.line()}")


def _print_line(line: str) -> None:
    # One write: the end of a line that is written by itself may follow that of another thread.
    print(f"{line}\n", end="", flush=True)


def _print_report(report: Report) -> None:
    # Under spark-submit both streams come out as stdout: the report stays the last line.
    for line in [*_warnings(report), *(f"merge failed: {line}" for line in report.failures)]:
        print(line, file=sys.stderr, flush=True)
    print(report.to_json(), flush=True)


def _warnings(report: Report) -> Iterator[str]:
    for table in report.held:
        yield f"not merged: {table.table}: {table.status}: {table.reason}"
    for table in report.tables:
        if table.suspect:
            yield f"suspect: {table.table}: {table.suspect}"
    if report.unmatched:
        yield f"{UNMATCHED} (globs={', '.join(report.unmatched)})"


if __name__ == "__main__":
    sys.exit(main())
