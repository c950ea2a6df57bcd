"""Which merges run, beside the progress: a delayed one may commit when the progress has moved on.

A merge that was killed, or only seemed to be, leaves its note. As long as there is one, the other
merges read the marks of its tables, whatever the progress says of them.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MALFORMED, TargetConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.staging.paths import ReadFiles

_STARTS_SECONDS = 12 * 3600
"""After that a merge starts on no further table."""

_ENDS_SECONDS = 24 * 3600
"""After that a note is deleted: what a merge has started on is done, or never will be."""


@dataclass(frozen=True)
class RunningMerge:
    """The note of one merge.

    Attributes:
        path: Its file.
        started: When it started, seconds since 1970.
        tables: What it merges.
    """

    path: str
    started: float
    tables: frozenset[TableName]

    def check(self) -> None:
        """Refuse to start on another table when others do not expect it any more.

        Raises:
            TargetConflictError: It has run for too long.
        """
        if time.time() - self.started > _STARTS_SECONDS:
            raise TargetConflictError("this merge has run for 12 hours: the next one continues")

    @property
    def has_ended(self) -> bool:
        """Whether it cannot commit any more."""
        return time.time() - self.started > _ENDS_SECONDS


def note_start(files: SourceFiles, folder: str, tables: Iterable[TableName]) -> RunningMerge:
    """Note that a merge starts, before it commits anything."""
    path = f"{_folder(folder)}/{uuid.uuid4().hex}.json"
    merge = RunningMerge(path, time.time(), frozenset(tables))
    value = {"started": merge.started, "tables": sorted(merge.tables)}
    files.write(path, json.dumps(value, ensure_ascii=False).encode())
    return merge


def read_running(files: ReadFiles, folder: str) -> list[RunningMerge]:
    """Return the merges that run, or were killed."""
    return [_read(files, f"{_folder(folder)}/{name}") for name in files.list(_folder(folder))]


def _folder(folder: str) -> str:
    return f"{folder}/running"


def _read(files: ReadFiles, path: str) -> RunningMerge:
    data = files.read(path)
    try:
        value = json.loads(data or b"")
        tables = frozenset((str(database), str(table)) for database, table in value["tables"])
        return RunningMerge(path, float(value["started"]), tables)
    except MALFORMED:
        # Deleted meanwhile, or not written to its end yet: that merge has committed nothing.
        return RunningMerge(path, time.time(), frozenset())
