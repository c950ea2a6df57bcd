"""The manifests that the tables of a merge need: one that lags needs older ones than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.spark.lake_table import check_manifests
from airflow_provider_binlog.spark.plan.lifecycle import find_replacement, followed_by
from airflow_provider_binlog.spark.plan.manifest_range import check_contiguous
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.staged.manifests import read_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.spark.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge_start import MergeStart
    from airflow_provider_binlog.spark.staged.files import SourceFiles


def read_needed_log(
    files: SourceFiles, start: MergeStart, newest: TableLog, tables: Sequence[LakeTable]
) -> TableLog:
    """Return the log from the first manifest that any table needs: one may lag.

    A table that needs one that is missing fails.
    """
    last = start.before.through
    folder = files.locate("manifests")
    for table in tables:
        if table.is_merged:
            check_manifests(table, start.present, last=last, folder=folder)
    first = min((each.first_needed for each in tables if each.is_merged), default=last + 1)
    log = prepend(files, newest, first, last)
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
        return prepend(files, log, begin, log.first - 1)
    except ManifestError:
        # Whoever deleted old ones has the tables refused that need them.
        return log


def prepend(files: SourceFiles, log: TableLog, first: int, last: int) -> TableLog:
    """Return a log with the manifests before it from one to another."""
    if first > last:
        return log
    manifests = [*read_manifests(files, range(first, last + 1)), *log.manifests]
    check_contiguous(manifests)
    return TableLog(manifests)
