"""What every step of one merge needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.spark.lake.table_format import Lake
    from airflow_provider_binlog.spark.merge_options import MergeOptions
    from airflow_provider_binlog.spark.merge_start import MergeStart
    from airflow_provider_binlog.spark.report import TableReport
    from airflow_provider_binlog.spark.sessions import Sessions
    from airflow_provider_binlog.spark.staged.files import SourceFiles


@dataclass(frozen=True)
class MergeRun:
    """One merge of a source into a lake.

    Attributes:
        sessions: Its sessions.
        start: What it found.
        finished: Called with the report of each table as it is done, by the thread that did it.
        began: When, ISO 8601 in UTC.
    """

    sessions: Sessions
    files: SourceFiles
    lake: Lake
    options: MergeOptions
    start: MergeStart
    finished: Callable[[TableReport], object]
    began: str
