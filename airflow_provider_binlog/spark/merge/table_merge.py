"""Merges one table: read, collapse, evolve the target, commit."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.spark.collapse.key_intervals import condition
from airflow_provider_binlog.spark.collapse.partial_rows import refuse_orphans
from airflow_provider_binlog.spark.job.session_settings import filtered_target
from airflow_provider_binlog.spark.merge.source_rows import make_source_rows, select_rows
from airflow_provider_binlog.spark.merge.table_sizes import gather, prepare_collapse, prepare_merge
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.mark import NOTHING
from airflow_provider_binlog.spark.target.properties import (
    announce_fills,
    fields_property,
    key_property,
    new_fields_property,
    owner_properties,
    table_property,
)
from airflow_provider_binlog.spark.target.protocol import Applied, Commit, Lake
from airflow_provider_binlog.spark.target.state import (
    CHANGES_ONLY,
    ENDED,
    PROPERTY,
    SNAPSHOT,
    Hold,
    TargetState,
    hold_property,
    live_property,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.schema import TableId
    from airflow_provider_binlog.spark.collapse.kept_rows import Collapsed
    from airflow_provider_binlog.spark.job.sessions import Sessions
    from airflow_provider_binlog.spark.plan.planner import TablePlan
    from airflow_provider_binlog.spark.plan.segment import Segment, Stop
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.spark.target.mark import Mark


@dataclass(frozen=True)
class TableWork:
    """One table that has to be merged.

    Attributes:
        plan: What there is to do.
        target: Quoted name of the lake table.
        state: That table when the merge was planned; None if there was none.
        identity: The server the changes come from.
        applied: What is committed with the last of them.
        plan_again: Returns what there is to do, once a segment is committed.
        is_complete: Whether the log has every row of the table from its creation on.
        snapshot: Id of the snapshot that the first segment loads; None if it loads none.
    """

    plan: TablePlan
    target: str
    state: TargetState | None
    identity: SourceIdentity
    applied: Applied
    plan_again: Callable[[TargetState], TablePlan | None]
    is_complete: bool = False
    snapshot: str | None = None

    @property
    def table(self) -> TableId | None:
        """The table whose rows the lake table has afterwards."""
        held = None if self.state is None else self.state.table
        return self.plan.table or held

    @property
    def loaded(self) -> str:
        """The snapshot that the lake table was last loaded from then; empty if from none."""
        return self.snapshot or ("" if self.state is None else self.state.loaded)


@dataclass(frozen=True)
class Merged:
    """What came of one table.

    Attributes:
        commit: What its commits did to the rows; None if there was none.
        applied: How much of the log it contains.
        stop: What it cannot follow after that; None if it follows.
    """

    commit: Commit | None
    applied: Mark
    stop: Stop | None


@dataclass(frozen=True)
class _Merge:
    """One segment on its way into one lake table.

    Attributes:
        session: No other thread's: properties of a commit, partitions and views are its settings.
    """

    session: SparkSession
    lake: Lake
    files: SourceFiles
    work: TableWork
    segment: Segment


def merge_table(sessions: Sessions, lake: Lake, files: SourceFiles, work: TableWork) -> Merged:
    """Bring one table up to the plan's last manifest, or to what it cannot follow.

    After each segment the table is read and planned again, as a merge does that resumes one which
    was killed there.

    Raises:
        BinlogError: Plan and target do not agree, or another merge came in between.
        Exception: Whatever Spark and the format raise.
    """
    done: Commit | None = None
    applied = NOTHING if work.state is None else work.state.applied
    plan: TablePlan | None = work.plan
    while plan is not None and plan.segment is not None:
        segment = plan.segment
        work = replace(work, plan=plan)
        marked = replace(work.applied, mark=segment.mark, table=work.table, snapshot=work.loaded)
        session = prepare_collapse(sessions, segment, work.state)
        merge = _Merge(session, lake, files, replace(work, applied=marked), segment)
        commit = _merge_segment(merge)
        if commit is None:
            # The rest is in a version of another merge.
            done = None if done is None else replace(done, version=None)
            break
        done, applied = done + commit if done is not None else commit, segment.mark
        if not plan.more:
            break
        work = replace(work, state=lake.find_state(merge.session, work.target), snapshot=None)
        plan = None if work.state is None else work.plan_again(work.state)
    return Merged(done, applied, None if plan is None else plan.stop)


def _merge_segment(merge: _Merge) -> Commit | None:
    # First what may fail without a trace in the lake.
    work = merge.work
    rows, collapsed = make_source_rows(merge.session, merge.files, merge.segment, work.state)
    try:
        if work.state is None:
            current = _create(merge, rows)
            commit: Commit | None = Commit(collapsed.upserts, 0, 0, current.snapshot)
        else:
            current, filled = _prepare(merge, work.state)
            commit = _commit(merge, current, rows, collapsed, filled)
    finally:
        # Else the rows would be kept until the session has others.
        merge.session.catalog.dropTempView(merge_sql.CHANGES)
    if commit is None:
        return None
    _follow(merge, current)
    return replace(commit, missing=_count_missing(merge, commit, collapsed))


def _count_missing(merge: _Merge, commit: Commit, collapsed: Collapsed) -> int | None:
    """Return how many rows were updated or deleted that the target did not have; None if unknown.

    By each of them the target has one row more than the changes say: its update inserts it, its
    delete has nothing to remove.
    """
    segment, inserted, deleted = merge.segment, commit.inserted, commit.deleted
    if segment.is_changelog or segment.reloads or segment.start is not None:
        return None
    if merge.work.state is None or segment.starts_empty:
        inserted, deleted = collapsed.upserts, 0
    if inserted is None or deleted is None:
        return None
    return max(0, inserted - deleted - segment.growth)


def _first_state(merge: _Merge) -> dict[str, str]:
    """Return the property of its state that the target gets before it has the rows."""
    work, state = merge.work, merge.work.state
    if work.snapshot is not None:
        # Effective until its rows are committed.
        loading = hold_property(Hold("loading", "its rows are being loaded"), NOTHING)
        return loading if state is None or state.applied == NOTHING else {}
    if state is not None:
        return {}
    return live_property("" if work.is_complete else CHANGES_ONLY)


def _last_state(merge: _Merge, state: TargetState) -> dict[str, str]:
    """Return the property of the state of a lake table that has the rows."""
    still_lacks = not merge.segment.starts_empty and merge.work.snapshot is None
    return live_property(CHANGES_ONLY if still_lacks and state.lacks_rows else "")


def _own_properties(merge: _Merge) -> dict[str, str]:
    """Return what the target's properties say before it has the rows."""
    work, segment, state = merge.work, merge.segment, merge.work.state
    wanted = owner_properties(work.applied.source, work.identity, work.plan.name)
    wanted |= key_property(segment.key)
    if segment.ends and not segment.is_changelog:
        # Believed only once the applied mark is this one.
        wanted[ENDED] = str(work.applied.mark)
    if work.plan.table is not None and (state is None or state.applied == NOTHING):
        wanted |= table_property(work.plan.table)
    return wanted | _first_state(merge)


def _create(merge: _Merge, rows: DataFrame) -> TargetState:
    """Create the target with its rows, and return its state.

    Raises:
        TargetConflictError: Another merge committed meanwhile.
    """
    work, segment, lake = merge.work, merge.segment, merge.lake
    columns, wanted = segment.target_columns, _own_properties(merge)
    if work.plan.table is not None:
        wanted |= new_fields_property(segment.fields, lake.new_column_ids(columns))
    gather(rows, segment).createOrReplaceTempView(merge_sql.CHANGES)
    lake.create_as(merge.session, work.target, columns, wanted, work.applied)
    current = lake.find_state(merge.session, work.target)
    if current is None or current.applied != work.applied.mark:
        raise _conflict(merge)
    return _claim_fields(merge, current)


def _prepare(merge: _Merge, state: TargetState) -> tuple[TargetState, dict[str, str]]:
    """Evolve the target; return its state then, and what is to be filled in.

    Raises:
        TargetConflictError: Another merge committed meanwhile.
    """
    wanted = {**state.blanks} | _own_properties(merge)
    # Another server may have been promoted; a column of the key may get another name.
    changed = dict(wanted.items() - state.properties.items())
    if changed or merge.segment.evolution.changes_columns:
        # A merge that another one overtook must not change back what that changed.
        now = _state(merge, state).column_ids
        _check_columns(merge, state, now, {name: name for name in state.columns})
    _set_properties(merge, changed)
    filled = _evolve(merge, state)
    current = _state(merge, state)
    _check_columns(merge, state, current.column_ids, merge.segment.evolution.columns)
    return _claim_fields(merge, current), filled


def _claim_fields(merge: _Merge, state: TargetState) -> TargetState:
    """Note which columns the target has of which fields, if it has those of the plan's table."""
    table = merge.work.plan.table
    if table is None or table != state.table:
        return state
    ids = table_property(table) | fields_property(state, merge.segment.fields)
    _set_properties(merge, dict(ids.items() - state.properties.items()))
    return replace(state, properties=state.properties | ids)


def _set_properties(merge: _Merge, properties: dict[str, str]) -> None:
    if properties:
        merge.session.sql(merge_sql.set_properties(merge.work.target, properties))


def _evolve(merge: _Merge, state: TargetState) -> dict[str, str]:
    """Change the columns; return what the MERGE has to fill in, as `Evolution.filled`."""
    segment, work = merge.segment, merge.work
    filled = {id_ for id_, name in segment.fields.items() if name in segment.evolution.filled}
    if filled:
        # Should this merge be killed, the next one knows which columns are not filled in yet.
        _set_properties(merge, announce_fills(state, filled, work.applied.mark))
    if not segment.evolution.changes_columns:
        return {}
    return merge.lake.evolve(merge.session, work.target, state, segment.evolution)


def _state(merge: _Merge, state: TargetState) -> TargetState:
    """Return the target's state, which has the rows still that it had."""
    current = merge.lake.find_state(merge.session, merge.work.target)
    before = state.applied, state.loaded
    if current is None or (current.applied, current.loaded) != before:
        raise _conflict(merge)
    return current


def _check_columns(
    merge: _Merge, state: TargetState, now: Mapping[str, str], columns: Mapping[str, str]
) -> None:
    """Refuse columns that another merge renamed meanwhile: exchanged twice, they are as before.

    Args:
        merge: The merge.
        state: The target when the merge was planned.
        now: The format's own ids of the columns, by name.
        columns: Names of the columns before, by those that they are to have.

    Raises:
        TargetConflictError: A name stands for another column.
    """
    copied = merge.segment.evolution.widened
    for name, old in columns.items():
        # A copy has another id, and one that is a name was no id.
        if name not in copied and state.column_ids[old] not in (old, now.get(name)):
            raise _conflict(merge)


def _conflict(merge: _Merge) -> TargetConflictError:
    return TargetConflictError(
        "another merge committed to the target meanwhile", target=merge.work.target
    )


def _follow(merge: _Merge, state: TargetState) -> None:
    """Note whose rows the target has, now that it has them."""
    table, snapshot = merge.work.plan.table, merge.work.snapshot
    noted = dict[str, str]()
    if table is not None and table != state.table:
        fields = fields_property(state, merge.segment.fields, of_another=True)
        noted |= table_property(table) | fields
    if snapshot is not None:
        noted |= {SNAPSHOT: snapshot}
    if snapshot is not None or PROPERTY in state.properties:
        noted |= _last_state(merge, state)
    _set_properties(merge, dict(noted.items() - state.properties.items()))


def _commit(
    merge: _Merge,
    state: TargetState,
    rows: DataFrame,
    collapsed: Collapsed,
    filled: dict[str, str],
) -> Commit | None:
    segment, work = merge.segment, merge.work
    session, lake = merge.session, merge.lake
    names = list(segment.target_columns)
    removes = segment.reloads or (segment.starts_empty and not segment.is_changelog)
    source = gather(rows, segment) if removes else rows
    source.createOrReplaceTempView(merge_sql.CHANGES)
    if removes:
        columns = {name: names.index(name) for name in state.columns}
        query = merge_sql.rows_to_keep(columns)
        done = lake.overwrite(session, work.target, state, query, work.applied)
        return None if done is None else replace(done, inserted=collapsed.upserts)
    key = segment.target_key
    type_, intervals = segment.target_columns[key[0]], collapsed.intervals
    within = condition(f"t.{quote_identifier(key[0])}", type_, intervals) or None
    statement = merge_sql.merge(
        work.target,
        columns=names,
        key=[names.index(name) for name in key],
        nullable=segment.null_safe,
        range_=within,
        groups=[list(map(names.index, group)) for group in segment.groups],
        filled=filled,
    )
    keys = collapsed.upserts + collapsed.deletes
    filtered: AbstractContextManager[None] = nullcontext()
    if prepare_merge(
        session,
        segment,
        work.state,
        target=work.target,
        within=within,
        keys=keys if lake.filters else None,
    ):
        select_rows(rows, segment, collapsed).createOrReplaceTempView(merge_sql.CHANGES)
        filtered = filtered_target(session, keys)
    try:
        with filtered:
            return lake.merge(session, work.target, state, statement, work.applied)
    except Exception:
        if segment.groups:
            refuse_orphans(session, rows, segment, work.target)
        raise
