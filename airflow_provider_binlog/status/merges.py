"""Merges in short: what each published, and its report, which anybody may have written."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from airflow_provider_binlog.errors import MALFORMED, ManifestError
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    published_at,
    read_record,
    record_ids,
)
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import StoredFiles, source_folder
from airflow_provider_binlog.status.ranges import Memory

_TABLES_READ = 20_000


class Published(NamedTuple):
    """When a merge published a lake, and number of the last manifest that it had read then."""

    time: datetime
    through: int


def read_published(
    store: ObjectStore,
    source: str,
    memory: Memory,
    key: Hashable,
    *,
    since: datetime,
    count: int,
) -> tuple[Published, ...]:
    """Return what merges have published since a time, lake by lake, the newest first.

    Args:
        store: Where the source is staged.
        source: Its name.
        memory: Of records that were read.
        key: Names the source, and where it is staged.
        since: Older ones are left out.
        count: How many are returned of each lake at most; fewer where it has very many tables.
    """
    files = StoredFiles(store, source)
    found: list[Published] = []
    for lake in store.folders(f"{source_folder(source)}/{PROGRESS}"):
        folder, tables = f"{PROGRESS}/{lake}", 0
        ids = [each for each in record_ids(files, folder) if published_at(each) >= since]
        for record_id in reversed(ids[-count:]):
            published = memory.find((key, folder, record_id))
            if not isinstance(published, Published):
                if tables > _TABLES_READ:
                    break
                try:
                    record = read_record(files, folder, record_id)
                except ManifestError:
                    continue
                tables += len(record.tables)
                published = Published(published_at(record_id), record.through)
                memory.keep((key, folder, record_id), published, 300)
            found.append(published)
    return tuple(found)


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
