"""Plan the merge of one table before Spark reads a row.

A range is one segment, up to the first action that no collapse folds, or that a lake table cannot
follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import count_changes
from airflow_provider_binlog.spark.plan.fold import Fold, TableRange
from airflow_provider_binlog.spark.plan.lifecycle import (
    find_changelog_lifecycle,
    find_lifecycle,
    followed_by,
    identify,
)
from airflow_provider_binlog.spark.plan.range_rows import read_range
from airflow_provider_binlog.spark.plan.segment import Stop
from airflow_provider_binlog.spark.plan.stops import StopSearch
from airflow_provider_binlog.spark.target.state import FIELDS

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.schema import TableId, TableName
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.table_log import TableLog
    from airflow_provider_binlog.spark.staged.parts import StagedPart
    from airflow_provider_binlog.spark.target.state import TargetState
    from airflow_provider_binlog.table_options import TableOptions


@dataclass(frozen=True)
class TablePlan:
    """The next commit to one lake table, and what follows it.

    Attributes:
        name: Database and table.
        table: The table that the lake table follows afterwards; None where it keeps what it has.
        segment: What to commit next; None if there is nothing.
        staged: The parts that this segment and those after it read.
        more: Whether the table has to be planned again, once the segment is committed.
        stop: What the lake table cannot follow after all segments; None if it follows.
        ended: Whether the name stands for no table after the range; the lake keeps the rows.
        waits: Why nothing can be merged, although no row came yet; None if all can.
        claims: Value of `FIELDS` that the lake table is to get before its columns change, where the
            log says more of them than its properties do; else None.
    """

    name: TableName
    table: TableId | None
    segment: Segment | None = None
    staged: tuple[StagedPart, ...] = ()
    more: bool = False
    stop: Stop | None = None
    ended: bool = False
    waits: Stop | None = None
    claims: str | None = None

    @property
    def parts(self) -> list[Part]:
        """The parts to read."""
        return [part.part for part in self.staged]

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
    state, before = identify(state, name, log), state
    claims = None if state is None or state is before else state.properties[FIELDS]
    tables = TableRange(name, log, first, state, options.key)
    lifecycle = find_lifecycle(
        name, log, first=first, followed=followed_by(state), in_lake=state is not None
    )
    keyed = lifecycle is None or _is_keyed(tables, lifecycle)
    if not keyed:
        lifecycle = find_changelog_lifecycle(name, log, first=first, in_lake=state is not None)
    if lifecycle is None:
        return None
    ended = lifecycle.ended is not None
    if lifecycle.waits is not None or (lifecycle.table is None and state is None):
        stop, waits = lifecycle.stop, lifecycle.waits
        return TablePlan(name, lifecycle.table, stop=stop, ended=ended, waits=waits)
    try:
        plan = plan_next(tables, lifecycle, keyed=keyed)
        if plan.stop is None or not ended:
            return replace(plan, claims=claims)
    except MergeError:
        if not ended or state is None:
            raise
    # The table does not exist any more: the lake keeps what it has.
    plan = plan_next(tables, replace(lifecycle, table=None, replaces=False), keyed=keyed)
    return replace(plan, claims=claims)


def _is_keyed(tables: TableRange, lifecycle: Lifecycle) -> bool:
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


def plan_next(tables: TableRange, lifecycle: Lifecycle, *, keyed: bool) -> TablePlan:
    """Plan the next commit: what is before the first action that no collapse folds.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
        ConfigurationError: The chosen key columns cannot serve.
    """
    stop, more = lifecycle.stop, False
    fold = Fold.of(tables, lifecycle, keyed=keyed, cut=None if stop is None else stop.cut)
    staged = fold.rows.staged
    while True:
        first, cut = StopSearch(fold).find_first(), fold.find_new_key()
        if first is None and cut is not None and lifecycle.replaces and not tables.reloads:
            # Which rows a mark within the table is for would not be known.
            reason = "its primary key changed between rows of the range in which it got its name"
            first = Stop(cut, reason)
        if first is not None:
            stop, more, fold = first, False, fold.before(first.cut)
            staged = fold.rows.staged
        elif cut is not None:
            more, fold = True, fold.before(cut)
        elif (barred := fold.find_barred()) is not None:
            stop, more, fold = barred, False, fold.before(barred.cut)
            staged = fold.rows.staged
        else:
            break
    ended = lifecycle.ended is not None
    plan = TablePlan(tables.name, lifecycle.table, stop=stop, ended=ended)
    if fold.rows.cut is not None and fold.rows.cut.mark <= tables.applied:
        return plan
    fold.check_chosen_key()
    return replace(plan, segment=fold.segment(), staged=staged, more=more)
