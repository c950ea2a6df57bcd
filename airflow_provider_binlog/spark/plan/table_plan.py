"""What a merge has to do to one table: decided before Spark reads a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.plan.lifecycle import find_lifecycle, followed_by
from airflow_provider_binlog.spark.plan.segment_plan import Tables, plan_segments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.schema import TableId, TableName
    from airflow_provider_binlog.spark.lake.table_format import TargetState
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.table_log import TableLog


@dataclass(frozen=True)
class TablePlan:
    """What a merge has to do to one table.

    Attributes:
        name: Database and table.
        through: Number of the last manifest the plan covers: the applied sequence after the merge.
        table: The table that the lake table follows afterwards; None where it keeps what it has.
        segments: What to commit, in order.
        ended: Whether the name stands for no table after the range; the lake keeps the rows.
        waits: Whether the manifests have to be read again when rows come.
    """

    name: TableName
    through: int
    table: TableId | None
    segments: tuple[Segment, ...] = ()
    ended: bool = False
    waits: bool = False

    @property
    def parts(self) -> list[Part]:
        """What is to be read."""
        return [part for segment in self.segments for part in segment.parts]

    @property
    def changes(self) -> dict[str, int]:
        """Change rows in the parts, by type."""
        total: dict[str, int] = {}
        for segment in self.segments:
            for change, count in segment.changes.items():
                total[change] = total.get(change, 0) + count
        return total


def plan_table(
    name: TableName,
    log: TableLog,
    *,
    first: int,
    state: TargetState | None,
    keys: Mapping[TableName, tuple[str, ...]],
) -> TablePlan | None:
    """Plan the merge of one table; None if the manifests do not mention it.

    Args:
        name: Database and table.
        log: The manifests; those before `first` serve tables that were renamed.
        first: Number of the first manifest that the lake table does not have yet.
        state: The lake table; None if there is none.
        keys: Key columns by table, where the user chose them.

    Raises:
        MergeError: The range holds a change of the table that the merge cannot follow.
        ConfigurationError: The chosen key columns cannot serve.
    """
    lifecycle = find_lifecycle(
        name, log, first=first, followed=followed_by(state), in_lake=state is not None
    )
    if lifecycle is None:
        return None
    ended = lifecycle.ended is not None
    plan = TablePlan(name, log.last, lifecycle.table, ended=ended, waits=lifecycle.waits)
    if lifecycle.table is None and (lifecycle.waits or state is None):
        return plan
    tables = Tables(name, log, first, state, keys.get(name))
    try:
        segments = plan_segments(tables, lifecycle)
    except MergeError:
        if not ended or state is None:
            raise
        # The table does not exist any more: the lake keeps what it has.
        plan = replace(plan, table=None)
        segments = plan_segments(tables, replace(lifecycle, table=None, replaces=False))
    return replace(plan, segments=segments)
