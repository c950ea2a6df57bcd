"""What a merge has to do to one table: decided before Spark reads a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import count_changes
from airflow_provider_binlog.spark.plan.fold import Tables
from airflow_provider_binlog.spark.plan.lifecycle import (
    find_changelog_lifecycle,
    find_lifecycle,
    followed_by,
)
from airflow_provider_binlog.spark.plan.range_rows import read_range
from airflow_provider_binlog.spark.plan.segment_plan import plan_next
from airflow_provider_binlog.spark.plan.table_identity import identify

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.schema import TableId, TableName
    from airflow_provider_binlog.spark.plan.cuts import Stop
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.table_log import TableLog
    from airflow_provider_binlog.spark.staged.parts import StagedPart
    from airflow_provider_binlog.spark.target.state import TargetState
    from airflow_provider_binlog.table_options import TableOptions


@dataclass(frozen=True)
class TablePlan:
    """What a merge has to do to one table.

    Attributes:
        name: Database and table.
        table: The table that the lake table follows afterwards; None where it keeps what it has.
        segment: What to commit next; None if there is nothing.
        staged: The parts that this segment and those after it read.
        more: Whether the table has to be planned again, once the segment is committed.
        stop: What the lake table cannot follow after all segments; None if it follows.
        ended: Whether the name stands for no table after the range; the lake keeps the rows.
        waits: Why nothing can be merged, although no row came yet; None if all can.
    """

    name: TableName
    table: TableId | None
    segment: Segment | None = None
    staged: tuple[StagedPart, ...] = ()
    more: bool = False
    stop: Stop | None = None
    ended: bool = False
    waits: Stop | None = None

    @property
    def parts(self) -> list[Part]:
        """What is to be read."""
        return [each.part for each in self.staged]

    @property
    def changes(self) -> dict[str, int]:
        """Change rows in the parts, by type."""
        return count_changes(self.parts)


def plan_table(
    name: TableName,
    log: TableLog,
    *,
    first: int,
    state: TargetState | None,
    options: TableOptions,
) -> TablePlan | None:
    """Plan the merge of one table; None if the manifests do not mention it.

    Args:
        name: Database and table.
        log: The manifests; those before `first` serve tables that were renamed.
        first: Number of the first manifest that the lake table does not have yet.
        state: The lake table; None if there is none.
        options: The table's.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
        ConfigurationError: The chosen key columns cannot serve.
    """
    state = identify(state, name, log)
    tables = Tables(name, log, first, state, options.key)
    lifecycle = find_lifecycle(
        name, log, first=first, followed=followed_by(state), in_lake=state is not None
    )
    keyed = lifecycle is None or _is_keyed(tables, lifecycle)
    if not keyed:
        lifecycle = find_changelog_lifecycle(name, log, first=first, in_lake=state is not None)
    if lifecycle is None:
        return None
    ended = lifecycle.ended is not None
    plan = TablePlan(name, lifecycle.table, stop=lifecycle.stop, ended=ended, waits=lifecycle.waits)
    if lifecycle.waits is not None or (lifecycle.table is None and state is None and keyed):
        return plan
    try:
        found = plan_next(tables, lifecycle, keyed=keyed)
        follows = found.stop is None or not ended
    except MergeError:
        if not ended or state is None:
            raise
        follows = False
    if not follows:
        # The table does not exist any more: the lake keeps what it has.
        plan = replace(plan, table=None)
        found = plan_next(tables, replace(lifecycle, table=None, replaces=False), keyed=keyed)
    return replace(
        plan, segment=found.segment, staged=found.staged, more=found.more, stop=found.stop
    )


def _is_keyed(tables: Tables, lifecycle: Lifecycle) -> bool:
    """Whether rows are merged by a key: as the lake table says, or else as the log does."""
    if tables.state is not None:
        return bool(tables.state.key)
    if tables.chosen_key is not None:
        return True
    log = tables.log
    rows = read_range(log, lifecycle, tables.since(lifecycle), None)
    if rows.staged:
        return bool(rows.staged[0].schema.key)
    for span in reversed(log.spans(tables.name, since=tables.first)):
        for _, entry in reversed(log.entries(span.table, since=tables.first)):
            if entry.current is not None:
                return bool(entry.schema(entry.current).key)
    return True
