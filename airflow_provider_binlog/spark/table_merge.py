"""Merges one table: read, collapse, evolve the target, commit. One session for each table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import StagingError, TargetConflictError
from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.collapse.partial_source import collapse_partial, refuse_orphans
from airflow_provider_binlog.spark.collapse.whole_rows import (
    Collapsed,
    as_log,
    collapse,
    count_actions,
)
from airflow_provider_binlog.spark.lake.table_format import (
    ENDED,
    Applied,
    Commit,
    Lake,
    TargetState,
    announce_fills,
    fields_property,
    key_property,
    new_fields_property,
    owner_properties,
    table_property,
)
from airflow_provider_binlog.spark.mark import NOTHING
from airflow_provider_binlog.spark.staged.changes import read_changes
from airflow_provider_binlog.spark.staged.parts import SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.table_plan import TablePlan
    from airflow_provider_binlog.spark.staged.files import SourceFiles

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # A missing or damaged file is an error, whatever the cluster's defaults are.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.storeAssignmentPolicy": "ANSI",
}
_PARTITION_BYTES = 32 << 20
_PARTITIONS_MAX = 1000
# Rows in memory against bytes of compressed Parquet.
_EXPANSION = 4
# Types whose text is a literal again, and whose order is the files' order.
_RANGE_TYPES = ("int", "bigint", "date", "timestamp", "timestamp_ntz", "decimal")


@dataclass(frozen=True)
class TableWork:
    """One table that has to be merged.

    Attributes:
        plan: What there is to do.
        target: Quoted name of the lake table.
        state: That table when the merge was planned; None if there was none.
        identity: The server the changes come from.
        applied: What is committed with them.
    """

    plan: TablePlan
    target: str
    state: TargetState | None
    identity: SourceIdentity
    applied: Applied


@dataclass(frozen=True)
class _Merge:
    """One segment on its way into one lake table.

    Attributes:
        session: The table's own: properties of a commit, partitions and views are its settings.
    """

    session: SparkSession
    lake: Lake
    files: SourceFiles
    work: TableWork
    segment: Segment


def merge_table(
    spark: SparkSession,
    lake: Lake,
    files: SourceFiles,
    work: TableWork,
) -> Commit | None:
    """Bring one table up to the plan's last manifest; None if there was nothing to commit.

    Raises:
        BinlogError: Plan and target do not agree, or another merge came in between.
        Exception: Whatever Spark and the format raise.
    """
    commit = None
    for segment in work.plan.segments:
        merge = _Merge(spark.newSession(), lake, files, work, segment)
        _configure(merge.session, segment, work.state)
        commit = _merge_segment(merge)
    return commit


def _merge_segment(merge: _Merge) -> Commit | None:
    segment, state = merge.segment, merge.work.state
    # First what may fail without a trace in the lake.
    rows = _collapse(merge)
    range_column = _find_range_column(segment, state)
    index = None if range_column is None else list(segment.target_columns).index(range_column)
    counted = count_actions(rows, None if index is None else merge_sql.source_column(index))
    if segment.groups and segment.has_before_images:
        # Not all of them are part of a row.
        changes = read_changes(merge.session, merge.files, segment)
        counted = replace(counted, changes=changes.count())
    _check_count(segment, counted)
    current = _prepare(merge)
    commit = _commit(merge, current, rows, counted, range_column)
    if commit is not None:
        _follow(merge, current)
    return commit


def _prepare(merge: _Merge) -> TargetState:
    """Create or evolve the target; return its state then.

    Raises:
        TargetConflictError: Another merge committed meanwhile.
    """
    work, segment, state = merge.work, merge.segment, merge.work.state
    owner = owner_properties(work.applied.source, work.identity, work.plan.name)
    wanted = owner | key_property(segment.key)
    if work.plan.ended and not segment.is_changelog:
        # Believed only once the applied mark is this one.
        wanted[ENDED] = str(work.applied.mark)
    if work.plan.table is not None and (state is None or state.applied == NOTHING):
        wanted |= table_property(work.plan.table)
    if state is None:
        if work.plan.table is not None:
            wanted |= new_fields_property(segment.fields)
        merge.lake.create(merge.session, work.target, segment.target_columns, wanted)
    else:
        # Another server may have been promoted; a column of the key may get another name.
        changed = dict(wanted.items() - state.properties.items())
        if changed or segment.evolution.changes_columns:
            # A merge that another one overtook must not change back what that changed.
            _state(merge)
        _set_properties(merge, changed)
        _evolve(merge, state)
    current = _state(merge)
    if work.plan.table is None or work.plan.table != current.table:
        return current
    fields = fields_property(current, segment.fields)
    _set_properties(merge, fields if fields != current.claims_property else {})
    return replace(current, properties=current.properties | fields)


def _set_properties(merge: _Merge, properties: dict[str, str]) -> None:
    if properties:
        merge.session.sql(merge_sql.set_properties(merge.work.target, properties))


def _evolve(merge: _Merge, state: TargetState) -> None:
    segment, work = merge.segment, merge.work
    filled = {id_ for id_, name in segment.fields.items() if name in segment.evolution.filled}
    if filled:
        # Should this merge be killed, the next one knows which columns are not filled in yet.
        _set_properties(merge, announce_fills(state, filled, work.applied.mark.sequence))
    if segment.evolution.changes_columns:
        merge.lake.evolve(merge.session, work.target, state, segment.evolution)


def _state(merge: _Merge) -> TargetState:
    state = merge.work.state
    current = merge.lake.find_state(merge.session, merge.work.target)
    before = NOTHING if state is None else state.applied
    if current is None or current.applied != before:
        raise TargetConflictError(
            "another merge committed to the target meanwhile", target=merge.work.target
        )
    return current


def _follow(merge: _Merge, state: TargetState) -> None:
    """Note whose rows the target has, now that it has them."""
    table = merge.work.plan.table
    if table is not None and table != state.table:
        fields = fields_property(state, merge.segment.fields, of_another=True)
        _set_properties(merge, table_property(table) | fields)


def _configure(session: SparkSession, segment: Segment, state: TargetState | None) -> None:
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    staged = _EXPANSION * sum(part.bytes for part in segment.parts)
    partitions = math.ceil((staged + (state.bytes if state else 0)) / _PARTITION_BYTES)
    partitions = min(max(partitions, 1), _PARTITIONS_MAX)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))


def _collapse(merge: _Merge) -> DataFrame:
    """Return the source rows of the MERGE, computed once and kept while they are referred to."""
    segment, work = merge.segment, merge.work
    changes = read_changes(merge.session, merge.files, segment)
    width = len(segment.target_columns)
    if segment.is_changelog:
        return as_log(changes, width=width).localCheckpoint()
    names = list(segment.columns)
    key = [names.index(name) for name in segment.key]
    if segment.groups:
        return collapse_partial(
            merge.session, changes, segment, target=work.target, is_new=work.state is None
        )
    return collapse(changes, width=width, key=key).localCheckpoint()


def _key_of(segment: Segment) -> tuple[str, ...]:
    return (SEQUENCE, ROW) if segment.is_changelog else segment.key


def _find_range_column(segment: Segment, state: TargetState | None) -> str | None:
    """Return the key column whose range may spare the MERGE files; None if none does."""
    key = _key_of(segment)
    if state is None or state.files <= 1 or (len(key) > 1 and not segment.is_changelog):
        return None
    type_ = segment.target_columns[key[0]]
    return key[0] if type_.partition("(")[0] in _RANGE_TYPES else None


def _check_count(segment: Segment, counted: Collapsed) -> None:
    """Compare the rows that were read with what the manifests promise."""
    if counted.changes != segment.rows + len(segment.removals):
        raise StagingError(
            "the staged parts do not hold the rows their manifests say",
            rows=counted.changes - len(segment.removals),
            manifests_say=segment.rows,
        )


def _commit(
    merge: _Merge,
    state: TargetState,
    rows: DataFrame,
    counted: Collapsed,
    range_column: str | None,
) -> Commit | None:
    segment, work = merge.segment, merge.work
    session, lake = merge.session, merge.lake
    rows.createOrReplaceTempView(merge_sql.CHANGES)
    names = list(segment.target_columns)
    if segment.starts_empty and not segment.is_changelog:
        columns = {name: names.index(name) for name in state.columns}
        query = merge_sql.rows_to_keep(columns)
        done = lake.overwrite(session, work.target, state, query, work.applied)
        return done and Commit(inserted=counted.upserts)
    within, bounds = None, counted.find_bounds()
    if range_column is not None and bounds is not None:
        type_ = segment.target_columns[range_column]
        within = merge_sql.between(range_column, type_=type_, low=bounds[0], high=bounds[1])
    statement = merge_sql.merge(
        work.target,
        columns=names,
        key=[names.index(name) for name in _key_of(segment)],
        nullable=segment.null_safe,
        range_=within,
        groups=[list(map(names.index, group)) for group in segment.groups],
        filled=segment.evolution.filled,
    )
    try:
        return lake.merge(session, work.target, state, statement, work.applied)
    except Exception:
        if segment.groups:
            refuse_orphans(session, rows, segment, work.target)
        raise
