"""Options and report of a maintenance job, without PySpark, because Airflow reads them too."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_provider_binlog.spark.job.options import JobReport

MAINTENANCE = Path(__file__).with_name("application.py")
"""The job's main file, which spark-submit takes as its application."""


@dataclass(frozen=True)
class MaintenanceOptions:
    """Options of a maintenance job; see `BinlogMaintenanceOperator`."""

    staging: str
    source: str
    format: str
    lake: str
    tables: Sequence[str]
    exclude: Sequence[str]
    compact: bool
    keep: timedelta

    def to_arguments(self) -> list[str]:
        """Return the job's arguments."""
        given = {**asdict(self), "keep": self.keep.total_seconds()}
        return ["--options", json.dumps(given, ensure_ascii=False)]


def parse_arguments(arguments: Sequence[str] | None) -> tuple[MaintenanceOptions, str | None]:
    """Return the options, and the report's URI."""
    parser = ArgumentParser("application.py", description="Compact and expire lake tables.")
    parser.add_argument("--options", required=True, type=json.loads, metavar="JSON")
    parser.add_argument("--report", help="URI of a file that the report is written to")
    parsed = parser.parse_args(arguments)
    given: Mapping[str, Any] = parsed.options
    keep = timedelta(seconds=given["keep"])
    return MaintenanceOptions(**{**given, "keep": keep}), parsed.report


@dataclass
class TableMaintenance:
    """Result of maintaining one table.

    Attributes:
        target: The lake table, as SQL names it.
        skipped: Why nothing was; empty if anything was.
        files_before, files_after: Data files that were compacted, and those in their place.
        kept_since: The oldest commit whose version can be read, as far as this job knows.
        error: Why it failed; it may pass if `retryable`.
    """

    table: str
    target: str
    skipped: str = ""
    files_before: int = 0
    files_after: int = 0
    kept_since: str = ""
    error: str | None = None
    retryable: bool = False
    seconds: float = 0.0

    def line(self) -> str:
        """Return what a person wants to read as the table is done."""
        if self.error is not None:
            return f"{self.table}: failed after {self.seconds:.1f} s"
        if self.skipped:
            return f"{self.table}: skipped: {self.skipped}"
        files = f"{self.files_before:,} files became {self.files_after:,}"
        return f"{self.table}: {files}, versions kept since {self.kept_since}"


@dataclass(frozen=True)
class MaintenanceReport(JobReport):
    """The result of a maintenance job."""

    source: str
    tables: Sequence[TableMaintenance] = field(default_factory=list)
    error: str | None = None
    retryable: bool = False

    def to_json(self) -> str:
        """Return the report as one line."""
        value = {
            "source": self.source,
            "status": "failed" if self.failed else "done",
            "retryable": self.failed and self.may_pass,
            "error": self.error,
            "tables": [asdict(table) for table in self.tables],
        }
        return json.dumps(value, ensure_ascii=False)
