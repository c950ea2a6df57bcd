"""The application that spark-submit runs: compact lake tables, and expire their versions.

Exit codes are those of the merge: 0 done; 1 failed; 75 failed, but may pass by itself.
"""

# ruff: noqa: T201  What is done is printed to stdout, failures to stderr.

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from airflow_provider_binlog.spark.job.application import finish, start_spark
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.maintenance.options import MaintenanceReport, parse_arguments
from airflow_provider_binlog.spark.maintenance.run import maintain


def main(arguments: Sequence[str] | None = None) -> int:
    """Maintain the tables; return the exit code."""
    options, report_uri = parse_arguments(arguments)
    spark = start_spark(f"binlog maintenance: {options.source}")
    try:
        done = maintain(spark, options, show=partial(print, flush=True))
        report = MaintenanceReport(options.source, done)
    except Exception as error:  # noqa: BLE001  One clear line instead of two stacks.
        explained = explain(error, source=options.source, lake=options.lake)
        report = MaintenanceReport(
            options.source, error=str(explained), retryable=explained.retryable
        )
    for failure in report.failures:
        print(f"maintenance failed: {failure}", file=sys.stderr, flush=True)
    return finish(spark, report, report_uri, show=lambda: print(report.to_json(), flush=True))


if __name__ == "__main__":
    sys.exit(main())
