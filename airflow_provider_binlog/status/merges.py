"""The report of a merge in short; a file that anybody may have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_provider_binlog.errors import MALFORMED


class MergedTable(NamedTuple):
    """A table of a merge: rows by what was done with them, and the error if it failed."""

    table: str
    status: str
    rows: Mapping[str, int]
    error: str


@dataclass(frozen=True)
class MergeSummary:
    """The result of a merge.

    Attributes:
        through: Number of the last manifest that it covers.
        seconds: How long the job took.
        error: Why it failed, if that is not because of a table; empty if it did not.
        tables: Those that were merged, or failed.
    """

    through: int
    seconds: float
    error: str
    tables: tuple[MergedTable, ...]

    @property
    def rows(self) -> int:
        """Rows that were inserted, updated and deleted, as far as the format says."""
        return sum(sum(table.rows.values()) for table in self.tables)


def read_merge(data: bytes) -> MergeSummary | None:
    """Return the report that a job wrote; None if it wrote none, or not all of it."""
    try:
        report = json.loads(data)
        return MergeSummary(
            int(report["through"]),
            float(report["seconds"]),
            str(report["error"] or ""),
            tuple(
                _read_table(table)
                for table in report["tables"]
                if table["status"] in ("merged", "failed")
            ),
        )
    except MALFORMED:
        return None


def _read_table(table: Mapping[str, Any]) -> MergedTable:
    rows = {str(kind): int(count) for kind, count in table["rows"].items() if count is not None}
    return MergedTable(str(table["table"]), str(table["status"]), rows, str(table["error"] or ""))
