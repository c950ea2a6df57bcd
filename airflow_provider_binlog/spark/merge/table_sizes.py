"""How a table is merged, by the sizes of what changed and of what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.collapse.kept_rows import size_in_bytes
from airflow_provider_binlog.spark.job.session_settings import (
    FILTER_KEYS_MAX,
    count_partitions,
    raise_partitions,
    set_partitions,
    share,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.spark.job.sessions import Sessions
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.target.state import TargetState

# Rows in memory against bytes of compressed Parquet.
_EXPANSION = 4
# What is computed on the driver: change rows, and bytes of compressed Parquet.
_FEW_ROWS = 10_000
_FEW_BYTES = 2 << 20
# Plans for keys alone are compiled, too. Every executor holds 40 bytes for 64 changes.
_MANY_ROWS, _MOST_ROWS = 500_000, 1 << 27
_SMALL_TARGET_BYTES = 16 << 20
# What makes a filter of the keys cheaper than a shuffle of the target: the least bytes of that, and
# how many times as many as those of the changes.
_FILTERED_BYTES, _FILTERED_FACTOR = 64 << 20, 2
# As many files as one task reads one after the other.
_FEW_PARTS = 8


def has_few_rows(segment: Segment) -> bool:
    """Whether the changes are computed on the driver."""
    return segment.rows <= _FEW_ROWS and segment.bytes <= _FEW_BYTES


def has_many_rows(segment: Segment) -> bool:
    """Whether the last change of each key is found by the keys alone."""
    return _MANY_ROWS <= segment.rows <= _MOST_ROWS


def has_few_parts(segment: Segment) -> bool:
    """Whether one task reads the changes."""
    return len(segment.parts) <= _FEW_PARTS


def prepare_collapse(
    sessions: Sessions, segment: Segment, state: TargetState | None
) -> SparkSession:
    """Return the session that a table is merged in, and prepare it and this thread.

    Args:
        sessions: Those of the merge.
        segment: What changed.
        state: The target; None if there is none.
    """
    target = 0 if state is None else state.bytes
    session = sessions.get(few=has_few_rows(segment) and target <= _SMALL_TARGET_BYTES)
    share(session)
    source = _EXPANSION * segment.bytes
    # Of the target about as much meets the source, as long as no more is known.
    set_partitions(session, source + min(source, target))
    return session


def prepare_merge(
    session: SparkSession,
    segment: Segment,
    state: TargetState | None,
    *,
    target: str,
    within: str | None,
    keys: int | None,
) -> bool:
    """Prepare what the MERGE shuffles; return whether the target is to be filtered by the keys.

    It shuffles the source, and what the target's files hold of its keys, or what the filter leaves.

    Args:
        session: The table's own.
        segment: What changed.
        state: The target; None if there was none.
        target: Its quoted name.
        within: A condition that all of its rows meet which change; None if there is none.
        keys: How many the source has; None if no target of the format is filtered.
    """
    size = 0 if state is None else state.bytes
    if within is not None and size > _SMALL_TARGET_BYTES:
        rows = session.table(target).alias("t")
        # Iceberg's estimate is of rows in memory.
        size = size * size_in_bytes(rows.where(within)) // max(size_in_bytes(rows), 1)
    is_filtered = (
        keys is not None
        and within is not None
        and size >= max(_FILTERED_BYTES, _FILTERED_FACTOR * segment.bytes)
        # Spark would make a filter for each column of a key.
        and len(segment.target_key) == 1
        and keys <= FILTER_KEYS_MAX
    )
    raise_partitions(session, _EXPANSION * segment.bytes + (0 if is_filtered else size))
    return is_filtered


def gather(rows: DataFrame, segment: Segment) -> DataFrame:
    """Return rows that are written as they are read: in no more tasks than they fill, or files."""
    if has_few_rows(segment):
        return rows
    return rows.coalesce(count_partitions(_EXPANSION * segment.bytes))
