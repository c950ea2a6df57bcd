"""The manifests that the tables of a merge need: one that lags needs older ones than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.spark.merge.coverage import check_manifests
from airflow_provider_binlog.spark.plan.lifecycle import find_replacement, followed_by
from airflow_provider_binlog.spark.plan.table_log import TableLog, check_contiguous
from airflow_provider_binlog.spark.staged.manifests import read_manifests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge.start import MergeStart
    from airflow_provider_binlog.staging.paths import ReadFiles


class StagedLog:
    """The manifests of a source: each is read once, however many tables need it.

    Args:
        files: Where they are.
        newest: Those that are new.
        last: Number of the last one before them.
    """

    def __init__(self, files: ReadFiles, newest: TableLog, last: int) -> None:
        self.newest, self._files, self._last = newest, files, last
        self._manifests: dict[int, Manifest] = {}
        self._logs: dict[int, TableLog] = {}

    @property
    def folder(self) -> str:
        """Where they are, for people."""
        return self._files.locate("manifests")

    def since(self, first: int) -> TableLog:
        """Return the log from a manifest on.

        Raises:
            ManifestError: One of its manifests is missing, or does not follow the one before.
        """
        if first > self._last:
            return self.newest
        if first not in self._logs:
            manifests = [*self._read(range(first, self._last + 1)), *self.newest.manifests]
            check_contiguous(manifests)
            self._logs[first] = TableLog(manifests)
        return self._logs[first]

    def newest_first(self, present: Collection[int]) -> Iterator[Manifest]:
        """Yield all manifests backwards, as far as they are there.

        Raises:
            ManifestError: One is unreadable.
        """
        yield from reversed(self.newest.manifests)
        number = self._last
        while number in present:
            yield from self._read(range(number, number + 1))
            number -= 1

    def _read(self, numbers: range) -> list[Manifest]:
        missing = [each for each in numbers if each not in self._manifests]
        self._manifests |= zip(missing, read_manifests(self._files, missing), strict=True)
        return [self._manifests[each] for each in numbers]


def read_needed_log(staged: StagedLog, start: MergeStart, tables: Sequence[LakeTable]) -> TableLog:
    """Return the log from the first manifest that any table needs: one may lag.

    A table that needs one that is missing fails.
    """
    last = start.before.through
    for table in tables:
        if table.is_merged:
            try:
                check_manifests(
                    *(table.first_needed, table.applied, start.present),
                    last=last,
                    folder=staged.folder,
                )
            except ManifestError as error:
                table.fail(error)
    first = min((each.first_needed for each in tables if each.is_merged), default=last + 1)
    log = staged.since(first)
    if not log.manifests:
        return log
    found = (
        find_replacement(
            table.name, log, first=table.first_needed, followed=followed_by(table.state)
        )
        for table in tables
        if table.is_merged
    )
    begin = min((each for each in found if each is not None), default=log.first)
    try:
        return staged.since(min(begin, log.first))
    except ManifestError:
        # Whoever deleted old ones has the tables refused that need them.
        return log
