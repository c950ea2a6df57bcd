"""Merges one table: read, collapse, evolve the target, commit. One session for each table."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import MergeError, StagingError, TargetConflictError
from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.collapse.partial_source import collapse_partial, refuse_orphans
from airflow_provider_binlog.spark.collapse.whole_rows import (
    Collapsed,
    as_log,
    collapse,
    count_actions,
)
from airflow_provider_binlog.spark.lake.table_format import (
    DROPPED,
    KEY,
    Commit,
    Lake,
    Marker,
    TargetState,
    check_properties,
    evolve,
    key_property,
    owner_properties,
    plan_evolution,
)
from airflow_provider_binlog.spark.staged.changes import read_changes
from airflow_provider_binlog.spark.staged.shapes import CHANGELOG_COLUMNS, SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.spark.plan.table_plan import TablePlan
    from airflow_provider_binlog.spark.staged.files import SourceFiles

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # A file that is gone or damaged is an error, whatever the cluster's defaults are.
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
        state: That table when it was asked for its marker; None if there was none.
        identity: The server the changes come from.
        marker: What is committed with them.
    """

    plan: TablePlan
    target: str
    state: TargetState | None
    identity: SourceIdentity
    marker: Marker


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
    plan, state = work.plan, work.state
    if state is None and not plan.shapes:
        return None
    # Marker, partitions and views are settings of a session: it may not be another table's too.
    session = spark.newSession()
    _configure(session, plan, state)
    if state is not None and plan.shapes:
        check_properties(work.target, state, key_property(plan.key))
    elif state is not None:
        plan = _as_target(plan, work.target, state)
    # First what may fail without a trace in the lake.
    evolution = plan_evolution(plan, state) if state is not None else None
    rows = _collapse(session, files, work, plan)
    range_column = _maybe_range_column(plan, state)
    index = None if range_column is None else list(plan.target_columns).index(range_column)
    counted = count_actions(rows, None if index is None else merge_sql.source_column(index))
    if plan.groups and plan.has_before_images:
        # Not all of them are part of a row.
        counted = replace(counted, changes=read_changes(session, files, plan).count())
    _check_count(plan, counted)
    owner = owner_properties(work.marker.source, work.identity, plan.name)
    notes: dict[str, str] = {}
    if state is None or evolution is None:
        properties = owner | key_property(plan.key)
        lake.create(session, work.target, plan.target_columns, properties)
    else:
        evolve(session, lake, work.target, evolution)
        # Another server may have taken over.
        notes = dict(owner.items() - state.properties.items())
    if plan.fate.dropped and not plan.is_changelog:
        # Believed only once the marker is this one.
        notes[DROPPED] = str(work.marker.sequence)
    if notes:
        session.sql(merge_sql.set_properties(work.target, notes))
    current = lake.maybe_state(session, work.target)
    if current is None or current.marker != (0 if state is None else state.marker):
        raise TargetConflictError(
            "another merge committed to the target meanwhile", target=work.target
        )
    return _commit(
        session,
        lake,
        work,
        plan=plan,
        state=current,
        rows=rows,
        counted=counted,
        range_column=range_column,
    )


def _configure(session: SparkSession, plan: TablePlan, state: TargetState | None) -> None:
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    staged = _EXPANSION * sum(part.bytes for part in plan.parts)
    partitions = math.ceil((staged + (state.bytes if state else 0)) / _PARTITION_BYTES)
    partitions = min(max(partitions, 1), _PARTITIONS_MAX)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))


def _as_target(plan: TablePlan, target: str, state: TargetState) -> TablePlan:
    """Return the plan of a range without rows in the shape that the target has."""
    if KEY not in state.properties:
        raise MergeError("a property of the target is gone", target=target, property=KEY)
    key = tuple(json.loads(state.properties[KEY]))
    own = {} if key else CHANGELOG_COLUMNS
    columns = {name: type_ for name, type_ in state.columns.items() if name not in own}
    return replace(plan, columns=columns, key=key)


def _collapse(
    session: SparkSession, files: SourceFiles, work: TableWork, plan: TablePlan
) -> DataFrame:
    """Return the source rows of the MERGE, made once and kept while they are referred to."""
    changes = read_changes(session, files, plan)
    width = len(plan.target_columns)
    if plan.is_changelog:
        return as_log(changes, width=width).localCheckpoint()
    names = list(plan.columns)
    key = [names.index(name) for name in plan.key]
    if plan.groups:
        return collapse_partial(session, changes, plan, target=work.target, state=work.state)
    return collapse(changes, width=width, key=key).localCheckpoint()


def _key_of(plan: TablePlan) -> tuple[str, ...]:
    return (SEQUENCE, ROW) if plan.is_changelog else plan.key


def _maybe_range_column(plan: TablePlan, state: TargetState | None) -> str | None:
    """Return the key column whose range may spare the MERGE files; maybe none does."""
    key = _key_of(plan)
    if state is None or state.files <= 1 or (len(key) > 1 and not plan.is_changelog):
        return None
    type_ = plan.target_columns[key[0]]
    return key[0] if type_.partition("(")[0] in _RANGE_TYPES else None


def _check_count(plan: TablePlan, counted: Collapsed) -> None:
    """Compare the rows that were read with what the manifests promise."""
    erasures = len(plan.fate.erasures) if plan.is_changelog else 0
    if plan.exact and counted.changes != plan.rows + erasures:
        raise StagingError(
            "the staged parts do not hold the rows their manifests say",
            rows=counted.changes - erasures,
            manifests_say=plan.rows,
        )


def _commit(
    session: SparkSession,
    lake: Lake,
    work: TableWork,
    *,
    plan: TablePlan,
    state: TargetState,
    rows: DataFrame,
    counted: Collapsed,
    range_column: str | None,
) -> Commit | None:
    rows.createOrReplaceTempView(merge_sql.CHANGES)
    names = list(plan.target_columns)
    if plan.fate.emptied_at is not None and not plan.is_changelog:
        columns = {name: names.index(name) for name in state.columns}
        query = merge_sql.rows_to_keep(columns)
        done = lake.overwrite(session, work.target, state, query, work.marker)
        return done and Commit(inserted=counted.upserts)
    within, bounds = None, counted.maybe_bounds
    if range_column is not None and bounds is not None:
        type_ = plan.target_columns[range_column]
        within = merge_sql.between(range_column, type_=type_, low=bounds[0], high=bounds[1])
    statement = merge_sql.merge(
        work.target,
        columns=names,
        key=[names.index(name) for name in _key_of(plan)],
        nullable=plan.null_safe,
        range_=within,
        groups=[list(map(names.index, group)) for group in plan.groups],
    )
    try:
        return lake.merge(session, work.target, state, statement, work.marker)
    except Exception:
        if plan.groups:
            refuse_orphans(session, rows, plan, target=work.target, state=state)
        raise
