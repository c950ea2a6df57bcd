"""Merge of one table: segment by segment, each of which is one change of the lake table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider_binlog.spark.target.protocol import (
    AppendedRows,
    Commit,
    KeyedRows,
    RowChanges,
    TableChange,
    WholeRows,
)
from airflow_provider_binlog.spark.target.state import CHANGES_ONLY, NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.spark.merge.source_rows import RowMaker
    from airflow_provider_binlog.spark.plan.planner import TablePlan
    from airflow_provider_binlog.spark.plan.segment import Segment, Stop
    from airflow_provider_binlog.spark.target.properties import Owner
    from airflow_provider_binlog.spark.target.protocol import Target
    from airflow_provider_binlog.spark.target.state import Mark, TargetState

Rows = TypeVar("Rows")


@dataclass(frozen=True)
class Lake(Generic[Rows]):
    """A target, and what makes the rows that it takes."""

    target: Target[Rows]
    rows: RowMaker[Rows]


@dataclass(frozen=True)
class TableWork:
    """A table that has to be merged.

    Attributes:
        plan: The plan, of the first segment.
        table: Name of the lake table.
        state: The lake table when the merge was planned; None if there was none.
        owner: The source's table.
        stop: Where the range ends that the last manifest covers.
        plan_again: Returns the plan of the rest, once a segment is committed.
        is_complete: Whether the log has every row of the table from its creation on.
        snapshot: Id of the snapshot that the first segment loads; None if it loads none.
    """

    plan: TablePlan
    table: str
    state: TargetState | None
    owner: Owner
    stop: str
    plan_again: Callable[[TargetState], TablePlan | None]
    is_complete: bool = False
    snapshot: str | None = None


@dataclass(frozen=True)
class Merged:
    """Result of merging one table.

    Attributes:
        commit: Its commits, as one; None if there was none.
        applied: How much of the log the lake table contains.
        stop: What the lake table cannot follow after that; None if it follows.
    """

    commit: Commit | None
    applied: Mark
    stop: Stop | None


def merge_table(lake: Lake[Rows], work: TableWork) -> Merged:
    """Bring one table up to the plan's last manifest, or to what it cannot follow.

    After each segment the table is read and planned again, as by a merge that resumes one which
    was killed there.

    Raises:
        BinlogError: Plan and lake table do not agree, or another merge committed meanwhile.
        Exception: Whatever Spark and the format raise.
    """
    done: Commit | None = None
    applied = NOTHING if work.state is None else work.state.applied
    plan: TablePlan | None = work.plan
    while plan is not None and plan.segment is not None:
        commit = _merge_segment(lake, replace(work, plan=plan), plan.segment)
        if commit is None:
            # The rest is in a version of another merge.
            done = None if done is None else replace(done, version=None)
            break
        done, applied = done + commit if done is not None else commit, plan.segment.mark
        if not plan.more:
            break
        work = replace(work, state=lake.target.read_state(work.table), snapshot=None)
        plan = None if work.state is None else work.plan_again(work.state)
    return Merged(done, applied, None if plan is None else plan.stop)


def _merge_segment(lake: Lake[Rows], work: TableWork, segment: Segment) -> Commit | None:
    # First what may fail without a trace in the lake.
    rows = lake.rows.make(segment, work.state)
    change = TableChange(
        table=work.table,
        owner=work.owner,
        before=work.state,
        mark=segment.mark,
        stop=work.stop,
        columns=segment.target_columns,
        key=segment.key,
        evolution=segment.evolution,
        fields=segment.fields,
        rows=_row_changes(segment, work.state, rows),
        follows=work.plan.table,
        lacks=_lacks(work, segment),
        snapshot=work.snapshot,
        ends=segment.ends and not segment.is_changelog,
        claims=work.plan.claims,
    )
    try:
        commit = lake.target.commit(change)
    except Exception:
        lake.rows.refuse_orphans(rows, segment, work.table)
        raise
    return commit and replace(commit, missing=_count_missing(work, segment, commit))


def _row_changes(segment: Segment, state: TargetState | None, rows: Rows) -> RowChanges[Rows]:
    discards = segment.starts_empty and not segment.is_changelog
    if state is None or segment.reloads or discards:
        return WholeRows(rows)
    if segment.is_changelog:
        return AppendedRows(rows, segment.target_key)
    return KeyedRows(rows, segment.key, segment.null_safe, segment.groups)


def _count_missing(work: TableWork, segment: Segment, commit: Commit) -> int | None:
    """Return how many rows were updated or deleted that the target did not have; None if unknown.

    By each of them the target has one row more than the changes say: its update inserts it, its
    delete has nothing to remove.
    """
    if segment.is_changelog or segment.reloads or segment.start is not None:
        return None
    deleted = 0 if work.state is None or segment.starts_empty else commit.deleted
    if commit.inserted is None or deleted is None:
        return None
    return max(0, commit.inserted - deleted - segment.growth)


def _lacks(work: TableWork, segment: Segment) -> str:
    """Return what a lake table lacks that has the rows of a segment; empty if nothing."""
    if work.snapshot is not None or segment.starts_empty:
        return ""
    lacks = not work.is_complete if work.state is None else work.state.lacks_rows
    return CHANGES_ONLY if lacks else ""
