"""Rows that a renamed table takes along from the lake table of its old name.

The log has the table's changes under both names, and the lake table of the old name has the rows
from before. They are copied, with the applied mark, and the merge continues from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.plan.lifecycle import identify
from airflow_provider_binlog.spark.target.mark import NOTHING
from airflow_provider_binlog.spark.target.properties import Owner
from airflow_provider_binlog.spark.target.protocol import TableChange, Target, WholeRows
from airflow_provider_binlog.spark.target.state import CHANGES_ONLY

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge.run import MergeRun
    from airflow_provider_binlog.spark.merge.survey import StagedLog
    from airflow_provider_binlog.spark.merge.table_merge import Lake
    from airflow_provider_binlog.spark.plan.table_log import TableLog
    from airflow_provider_binlog.spark.target.mark import Mark
    from airflow_provider_binlog.spark.target.state import TargetState

Rows = TypeVar("Rows")


@dataclass(frozen=True)
class OldTable:
    """The lake table of a table's old name.

    Attributes:
        name: The old name.
        table: Name of the lake table.
        state: That table, which still follows the table that was renamed.
    """

    name: TableName
    table: str
    state: TargetState


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
    old = find_old_table(run.lake.target, table.name, table.state, log)
    if old is None or run.start.before.first_needed(old.name, old.state.applied) != log.first:
        return
    owner = Owner(run.options.source, log.manifests[-1].identity, table.name)
    table.state = copy_rows(run.lake, old, owner, table.target, table.state)
    # Also if nothing else changed: a lake table that is dropped later had rows.
    table.report.applied_after = table.applied


def find_old_names(name: TableName, state: TargetState | None, log: TableLog) -> list[TableName]:
    """Return the names that the table had which a name stands for now, the last one first.

    Empty if the lake table of the name has rows already.

    Args:
        name: Database and table.
        state: Its lake table; None if there is none.
        log: The manifests that are new.
    """
    if state is not None and (state.applied != NOTHING or not state.is_empty):
        return []
    holdings = log.holdings(name, since=log.first)
    table = holdings[-1].table if holdings else None
    steps = reversed(log.steps(table, since=NOTHING)) if table is not None else ()
    return [each.action.old for each in steps if isinstance(each.action, RenameTable)]


def find_old_table(
    target: Target[Rows], name: TableName, state: TargetState | None, log: TableLog
) -> OldTable | None:
    """Return the lake table that has the rows of the table which a name stands for; None without.

    Args:
        target: The lake tables.
        name: Database and table.
        state: Its lake table, without rows; None if there is none.
        log: The manifests that are new.
    """
    for name_before in find_old_names(name, state, log):
        table = target.locate(name_before)
        old = identify(target.read_state(table), name_before, log)
        if old is None or old.applied == NOTHING or old.ended or old.unfilled:
            continue
        if old.lost or old.hold is not None:
            continue
        id_ = log.holdings(name, since=log.first)[-1].table
        if old.key and old.table == id_ and (not state or state.columns == old.columns):
            return OldTable(name_before, table, old)
    return None


def copy_rows(
    lake: Lake[Rows], old: OldTable, owner: Owner, table: str, before: TargetState | None
) -> TargetState:
    """Make the lake table of a new name, with the rows and the applied mark of the old one.

    Args:
        lake: The lake.
        old: The lake table of the old name.
        owner: The table, by its new name.
        table: Name of the lake table of that name.
        before: That table, which a killed merge left empty; None if there is none.

    Raises:
        TargetConflictError: Another merge committed meanwhile.
    """
    state = old.state
    change = TableChange(
        table=table,
        owner=owner,
        before=before,
        mark=state.applied,
        stop="",
        columns=state.columns,
        key=state.key,
        evolution=Evolution(columns={name: name for name in state.columns}),
        fields=state.fields,
        rows=WholeRows(lake.rows.copy(old.table, state.columns, size=state.bytes)),
        follows=state.table,
        # Rows that the old table lacks the new one lacks, too.
        lacks=CHANGES_ONLY if state.lacks_rows else "",
        snapshot=state.loaded or None,
    )
    lake.target.commit(change)
    _read(lake.target, old.table, state.applied)
    return _read(lake.target, table, state.applied)


def _read(target: Target[Rows], table: str, applied: Mark) -> TargetState:
    state = target.read_state(table)
    if state is None or state.applied != applied:
        raise TargetConflictError("another merge committed to the target meanwhile", target=table)
    return state
