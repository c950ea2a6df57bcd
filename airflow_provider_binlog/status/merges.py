"""Merges in short: what each published, and its report, which anybody may have written."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from airflow_provider_binlog.errors import MALFORMED
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    published_at,
    read_record,
    record_ids,
)
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import StoredFiles, source_folder
from airflow_provider_binlog.status.ranges import Memory

_READERS = 8
_TABLES_READ = 20_000


class Published(NamedTuple):
    """When a merge published a lake, and number of the last manifest that it had read then.

    Of the manifests up to `after` it is not known when they were merged: older records were not
    read.
    """

    time: datetime
    through: int
    after: int = 0


def read_published(
    store: ObjectStore,
    source: str,
    memory: Memory,
    key: Hashable,
    *,
    since: datetime,
    count: int,
    lakes_max: int | None,
) -> tuple[Published, ...]:
    """Return what merges have published since a time, lake by lake, the oldest first.

    Args:
        store: Where the source is staged.
        source: Its name.
        memory: Of records that were read.
        key: Names the source, and where it is staged.
        since: Older ones are left out.
        count: How many records are read at most, over all lakes; fewer of one with very many
            tables.
        lakes_max: How many lakes are read; None for all.
    """
    files = StoredFiles(store, source)
    lakes = [*islice(store.folders(f"{source_folder(source)}/{PROGRESS}"), lakes_max)]
    found: list[Published] = []
    with ThreadPoolExecutor(_READERS) as pool:
        for lake in lakes:
            folder = f"{PROGRESS}/{lake}"
            ids = [id_ for id_ in record_ids(files, folder) if published_at(id_) >= since]
            read = partial(_read_kept, files, folder, memory, key)
            newest = read(ids[-1]) if ids else None
            if newest is None:
                continue
            some = min(count // len(lakes), _TABLES_READ // max(1, newest.tables))
            chosen = ids[-max(2, some) :]
            merges = [record.published for record in pool.map(read, chosen) if record is not None]
            if len(chosen) < len(ids):
                # The oldest one says where the others begin.
                after = merges[0].through
                merges = [merge._replace(after=after) for merge in merges[1:]]
            found += merges
    return tuple(found)


class _Record(NamedTuple):
    published: Published
    tables: int


def _read_kept(
    files: StoredFiles, folder: str, memory: Memory, key: Hashable, record_id: str
) -> _Record | None:
    return memory.read((key, folder, record_id), partial(_read, files, folder, record_id), 300)


def _read(files: StoredFiles, folder: str, record_id: str) -> _Record:
    progress = read_record(files, folder, record_id)
    published = Published(published_at(record_id), progress.through)
    return _Record(published, len(progress.tables))


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
