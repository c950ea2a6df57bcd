"""What every step of one merge needs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_binlog.spark.job.options import MergeOptions
    from airflow_provider_binlog.spark.job.report import TableReport
    from airflow_provider_binlog.spark.merge.start import MergeStart
    from airflow_provider_binlog.spark.merge.table_merge import Lake
    from airflow_provider_binlog.spark.staged.files import SourceFiles

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class MergeRun:
    """One merge of a source into a lake.

    Attributes:
        start: What it found.
        finished: Called with the report of each table as it is done, by the thread that did it.
        began: When, ISO 8601 in UTC.
    """

    files: SourceFiles
    lake: Lake[Any]
    options: MergeOptions
    start: MergeStart
    finished: Callable[[TableReport], object]
    began: str

    def in_threads(self, items: Sequence[_T], work: Callable[[_T], _R]) -> list[_R]:
        """Return the results of as many tables at once as the options say, in their order."""
        with ThreadPoolExecutor(self.options.threads) as pool:
            return list(pool.map(work, items))
