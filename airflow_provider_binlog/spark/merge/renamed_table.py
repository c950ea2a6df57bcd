"""A table that was renamed takes the rows of its lake table along to its new name.

The log has its changes under both names, and the lake table of the old name has the rows from
before. They are copied, with the applied mark, and the merge continues from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.plan.lifecycle import identify
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.mark import NOTHING, Mark
from airflow_provider_binlog.spark.target.properties import (
    fields_property,
    key_property,
    owner_properties,
    table_property,
)
from airflow_provider_binlog.spark.target.protocol import Applied, Lake
from airflow_provider_binlog.spark.target.state import CHANGES_ONLY, TargetState, live_property

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.plan.table_log import TableLog


@dataclass(frozen=True)
class OldTable:
    """The lake table of a table's old name.

    Attributes:
        name: The old name.
        target: Quoted name of the lake table.
        state: That table, which still follows the table that was renamed.
    """

    name: TableName
    target: str
    state: TargetState


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
    session: SparkSession,
    lake: Lake,
    name: TableName,
    state: TargetState | None,
    log: TableLog,
) -> OldTable | None:
    """Return the lake table that has the rows of the table which a name stands for; None without.

    Args:
        session: To read lake tables with.
        lake: The lake.
        name: Database and table.
        state: Its lake table, without rows; None if there is none.
        log: The manifests that are new.
    """
    for old in find_old_names(name, state, log):
        target = lake.target(*old)
        found = identify(lake.find_state(session, target), old, log)
        if found is None or found.applied == NOTHING or found.ended or found.unfilled:
            continue
        if found.lost or found.hold is not None:
            continue
        table = log.holdings(name, since=log.first)[-1].table
        if found.key and found.table == table and (not state or state.columns == found.columns):
            return OldTable(old, target, found)
    return None


def copy_rows(
    session: SparkSession,
    lake: Lake,
    old: OldTable,
    *,
    name: TableName,
    source: str,
    identity: SourceIdentity,
) -> TargetState:
    """Make the lake table of a new name, with the rows and the applied mark of the old one.

    Args:
        session: The table's session.
        lake: The lake.
        old: The lake table of the old name.
        name: The new name; there is no lake table of it, or one that a killed merge left empty.
        source: Name of the source.
        identity: The server whose log is followed.

    Raises:
        TargetConflictError: Another merge came in between.
    """
    target, state = lake.target(*name), old.state
    wanted = owner_properties(source, identity, name) | key_property(state.key)
    if lake.find_state(session, target) is None:
        lake.create(session, target, state.columns, wanted | table_property(str(state.table)))
    made = _read(session, lake, target, NOTHING)
    noted = fields_property(made, state.fields)
    if state.lacks_rows:
        # Rows that the old one lacks the new one lacks, too.
        noted |= live_property(CHANGES_ONLY)
    session.sql(merge_sql.set_properties(target, noted))
    applied = Applied(source, state.applied, "", state.table, state.loaded)
    lake.overwrite(session, target, made, merge_sql.select_all(old.target, made.columns), applied)
    _read(session, lake, old.target, state.applied)
    return _read(session, lake, target, state.applied)


def _read(session: SparkSession, lake: Lake, target: str, applied: Mark) -> TargetState:
    state = lake.find_state(session, target)
    if state is None or state.applied != applied:
        raise TargetConflictError("another merge committed to the target meanwhile", target=target)
    return state
