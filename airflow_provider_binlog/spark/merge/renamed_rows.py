"""Which tables of a merge take their rows along from the lake table of an old name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.merge.renamed_table import (
    copy_rows,
    find_old_names,
    find_old_table,
)
from airflow_provider_binlog.spark.target.mark import NOTHING

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.merge.context import MergeRun
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge.needed_log import StagedLog
    from airflow_provider_binlog.spark.plan.table_log import TableLog


def take_rows_along(
    run: MergeRun, table: LakeTable, staged: StagedLog
) -> dict[TableName, Exception]:
    """Give a table that was renamed the rows of the lake table of its old name.

    Returns its old names, with the error, if that failed.
    """
    known = run.start.before.tables.get(table.name, TableProgress())
    names: list[TableName] = []
    try:
        log = staged.newest
        failed = known.pending and known.hold is None and known.mark == NOTHING
        if failed and known.first is not None:
            again = range(known.first, run.start.before.through + 1)
            if not all(number in run.start.present for number in again):
                return {}  # `check_manifests` refuses it.
            log = staged.since(again.start)
        names = find_old_names(table.name, table.state, log) if log.manifests else []
        if names:
            table.first_needed = log.first
            _copy_rows(run, table, log)
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)
        return dict.fromkeys(names, error)
    return {}


def _copy_rows(run: MergeRun, table: LakeTable, log: TableLog) -> None:
    session, source = run.sessions.get(), run.options.source
    old = find_old_table(session, run.lake, table.name, table.state, log)
    if old is None or run.start.before.first_needed(old.name, old.state.applied) != log.first:
        return
    identity = log.manifests[-1].identity
    table.state = copy_rows(
        session, run.lake, old, name=table.name, source=source, identity=identity
    )
