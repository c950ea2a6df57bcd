"""The source rows of a merge: what is left of a segment's changes, one row for each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.collapse.kept_rows import (
    as_literals,
    checkpoint,
    checkpoint_counted,
    count_actions,
    count_literals,
)
from airflow_provider_binlog.spark.collapse.key_intervals import (
    KeyColumn,
    condition,
    has_intervals,
)
from airflow_provider_binlog.spark.collapse.partial_rows import collapse_partial
from airflow_provider_binlog.spark.collapse.whole_rows import (
    as_log,
    collapse,
    find_last,
    keep_last,
    number_changes,
    number_parts,
    partition_by_key,
)
from airflow_provider_binlog.spark.job.session_settings import fixed_partitions
from airflow_provider_binlog.spark.merge.table_sizes import (
    has_few_parts,
    has_few_rows,
    has_many_rows,
)
from airflow_provider_binlog.spark.staged.changes import read_changes
from airflow_provider_binlog.spark.staged.files import damaged
from airflow_provider_binlog.spark.target.protocol import source_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.spark.collapse.kept_rows import Collapsed
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.spark.target.state import TargetState


def make_source_rows(
    session: SparkSession,
    files: SourceFiles,
    segment: Segment,
    state: TargetState | None,
) -> tuple[DataFrame, Collapsed]:
    """Return rows that are the same whenever they are read, and what they come to.

    Args:
        session: The table's session.
        files: Where the parts are.
        segment: What is read.
        state: The lake table; None if there is none.

    Raises:
        StagingError: The parts do not hold as many rows as their manifests say.
        ReloadNeededError: As `collapse_partial`.
    """
    range_of = _find_key_column(segment, state)
    few = has_few_rows(segment)
    if segment.groups:
        rows, counted = _complete(session, files, segment, state, range_of)
    elif few:
        rows = as_literals(_fold(segment, _read(session, files, segment)))
        counted = count_literals(rows, range_of)
    else:
        rows, counted = _reduce(session, files, segment, range_of)
    _check_count(segment, counted)
    return rows, counted


def select_rows(rows: DataFrame, segment: Segment, collapsed: Collapsed) -> DataFrame:
    """Return source rows as what a comparison selects, which all of them meet.

    Without one, Spark filters no target by their keys: see `filtered_target`.

    Args:
        rows: What `make_source_rows` returns.
        segment: What is read.
        collapsed: What the rows come to; they have intervals.
    """
    types, first = segment.target_columns, segment.target_key[0]
    column = source_column(list(types).index(first))
    # Spark would compute a comparison of literals before it looks for one.
    kept = checkpoint(rows) if has_few_rows(segment) else rows
    return kept.where(condition(column, types[first], collapsed.intervals))


def _read(session: SparkSession, files: SourceFiles, segment: Segment) -> DataFrame:
    changes = read_changes(session, files, segment)
    # Few in one partition are not shuffled.
    is_one = has_few_rows(segment) and has_few_parts(segment)
    return changes.coalesce(1) if is_one else changes


def _complete(
    session: SparkSession,
    files: SourceFiles,
    segment: Segment,
    state: TargetState | None,
    range_of: KeyColumn | None,
) -> tuple[DataFrame, Collapsed]:
    """Return the source rows of images that lack columns."""
    few = has_few_rows(segment)
    rows = collapse_partial(
        _read(session, files, segment),
        segment,
        has_rows=state is not None and not segment.starts_empty,
        keep=as_literals if few else checkpoint,
    )
    return rows, count_literals(rows, range_of) if few else count_actions(rows, range_of)


def _reduce(
    session: SparkSession, files: SourceFiles, segment: Segment, range_of: KeyColumn | None
) -> tuple[DataFrame, Collapsed]:
    """Return the source rows of many whole images, or all of a changelog's."""
    is_numbered = has_many_rows(segment) and not segment.is_changelog
    numbers = number_parts(segment.parts) if is_numbered else None
    if numbers is None:
        changes = read_changes(session, files, segment)
        if not segment.is_changelog:
            changes = partition_by_key(changes, _key_numbers(segment))
        with fixed_partitions(session):
            return checkpoint_counted(_fold(segment, changes), range_of)
    changes = number_changes(read_changes(session, files, segment, located=True), numbers)
    bits, counted = find_last(changes, _key_numbers(segment), range_of, most=segment.rows)
    return keep_last(changes, bits, width=len(segment.target_columns)), counted


def _fold(segment: Segment, changes: DataFrame) -> DataFrame:
    width = len(segment.target_columns)
    if segment.is_changelog:
        return as_log(changes, width=width)
    return collapse(changes, width=width, key=_key_numbers(segment))


def _key_numbers(segment: Segment) -> list[int]:
    names = list(segment.columns)
    return [names.index(name) for name in segment.key]


def _find_key_column(segment: Segment, state: TargetState | None) -> KeyColumn | None:
    """Return the source column whose values may spare the MERGE files; None if none does."""
    if state is None or state.files <= 1 or segment.reloads:
        return None
    first, types = segment.target_key[0], segment.target_columns
    if not has_intervals(types[first]):
        return None
    return KeyColumn(source_column(list(types).index(first)), types[first])


def _check_count(segment: Segment, counted: Collapsed) -> None:
    """Compare the rows that were read with what the manifests promise."""
    promised = segment.rows + len(segment.removals)
    # Of a manifest that starts before the segment does, some rows do not count.
    if counted.changes > promised if segment.start else counted.changes != promised:
        raise damaged(
            "the staged parts do not hold the rows their manifests say",
            rows=counted.changes - len(segment.removals),
            manifests_say=segment.rows,
        )
