"""Source rows of a commit: what is left of a segment's staged changes, one row for each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_provider_binlog.spark.collapse.kept_rows import (
    as_literals,
    checkpoint,
    checkpoint_counted,
    count_actions,
    count_literals,
)
from airflow_provider_binlog.spark.collapse.key_intervals import KeyColumn, has_intervals
from airflow_provider_binlog.spark.collapse.partial_rows import collapse_partial, refuse_orphans
from airflow_provider_binlog.spark.collapse.whole_rows import (
    as_log,
    collapse,
    find_last,
    keep_last,
    number_changes,
    number_parts,
    partition_by_key,
)
from airflow_provider_binlog.spark.job.session import (
    fixed_partitions,
    set_partitions,
    share,
)
from airflow_provider_binlog.spark.staged.changes import check_digests, read_changes
from airflow_provider_binlog.spark.staged.files import damaged
from airflow_provider_binlog.spark.target.protocol import source_column
from airflow_provider_binlog.spark.target.spark_target import (
    EXPANSION,
    SMALL_TARGET_BYTES,
    SourceRows,
)
from airflow_provider_binlog.spark.target.sql import select_source_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.spark.collapse.kept_rows import Collapsed
    from airflow_provider_binlog.spark.job.session import Sessions
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.spark.target.state import TargetState

# What is computed on the driver: change rows, and bytes of compressed Parquet.
_FEW_ROWS = 10_000
_FEW_BYTES = 2 << 20
# Plans for keys alone are compiled, too. Every executor holds 40 bytes for 64 changes.
_MANY_ROWS, _MOST_ROWS = 500_000, 1 << 27
# As many files as one task reads one after the other.
_FEW_PARTS = 8

Rows = TypeVar("Rows")


class RowMaker(Protocol[Rows]):
    """Makes the rows of changes, in the form that a target takes."""

    def check_digests(self, parts: Sequence[Part]) -> None:
        """Compare the bytes of parts with the digests in their manifests.

        Raises:
            StagingError: A part was damaged.
        """

    def make(self, segment: Segment, state: TargetState | None) -> Rows:
        """Return the final changes of a segment, one for each key; all changes of a changelog.

        Args:
            segment: What is read.
            state: The lake table; None if there is none.

        Raises:
            StagingError: The parts do not hold as many rows as their manifests say.
            ReloadNeededError: Values are neither in the range nor in the lake table.
        """

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> Rows:
        """Return all rows of a lake table of so many bytes."""

    def refuse_orphans(self, rows: Rows, segment: Segment, table: str) -> None:
        """Refuse changes of rows that the lake table does not have, once a commit failed.

        Raises:
            ReloadNeededError: There are any.
        """


class SparkRows:
    """Makes DataFrames; a `RowMaker`.

    Args:
        sessions: Those of the merge.
        files: Where the parts are.
    """

    def __init__(self, sessions: Sessions, files: SourceFiles) -> None:
        self._sessions = sessions
        self._files = files

    def check_digests(self, parts: Sequence[Part]) -> None:
        """Compare bytes with digests; see `RowMaker`."""
        check_digests(self._sessions.get(), self._files, parts)

    def make(self, segment: Segment, state: TargetState | None) -> SourceRows:
        """Return the final changes of a segment; see `RowMaker`."""
        session = self._prepare(segment, state)
        range_of, few = _find_key_column(segment, state), _has_few_rows(segment)
        if segment.groups:
            rows, counts = self._complete(session, segment, state, range_of)
        elif few:
            rows = as_literals(_fold(segment, self._read(session, segment)))
            counts = count_literals(rows, range_of)
        else:
            rows, counts = self._reduce(session, segment, range_of)
        _check_count(segment, counts)
        return SourceRows(rows, segment.bytes, few, counts)

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> SourceRows:
        """Return all rows of a lake table; see `RowMaker`."""
        session = self._sessions.get()
        return SourceRows(session.sql(select_source_rows(table, columns)), size)

    def refuse_orphans(self, rows: SourceRows, segment: Segment, table: str) -> None:
        """Refuse changes of missing rows; see `RowMaker`."""
        if segment.groups:
            refuse_orphans(rows.frame.sparkSession, rows.frame, segment, table)

    def _prepare(self, segment: Segment, state: TargetState | None) -> SparkSession:
        """Return the session that a table is merged in, and prepare it and this thread."""
        size = 0 if state is None else state.bytes
        session = self._sessions.get(few=_has_few_rows(segment) and size <= SMALL_TARGET_BYTES)
        share(session)
        source = EXPANSION * segment.bytes
        # Of the target about as much meets the source, as long as no more is known.
        set_partitions(session, source + min(source, size))
        return session

    def _read(self, session: SparkSession, segment: Segment) -> DataFrame:
        changes = read_changes(session, self._files, segment)
        # Few in one partition are not shuffled.
        is_one = _has_few_rows(segment) and len(segment.parts) <= _FEW_PARTS
        return changes.coalesce(1) if is_one else changes

    def _complete(
        self,
        session: SparkSession,
        segment: Segment,
        state: TargetState | None,
        range_of: KeyColumn | None,
    ) -> tuple[DataFrame, Collapsed]:
        """Return the source rows of images that lack columns."""
        few = _has_few_rows(segment)
        rows = collapse_partial(
            self._read(session, segment),
            segment,
            has_rows=state is not None and not segment.starts_empty,
            keep=as_literals if few else checkpoint,
        )
        return rows, count_literals(rows, range_of) if few else count_actions(rows, range_of)

    def _reduce(
        self, session: SparkSession, segment: Segment, range_of: KeyColumn | None
    ) -> tuple[DataFrame, Collapsed]:
        """Return the source rows of many whole images, or all of a changelog's."""
        has_many = _MANY_ROWS <= segment.rows <= _MOST_ROWS
        is_numbered = has_many and not segment.is_changelog
        numbers = number_parts(segment.parts) if is_numbered else None
        if numbers is None:
            changes = read_changes(session, self._files, segment)
            if not segment.is_changelog:
                changes = partition_by_key(changes, _key_numbers(segment))
            with fixed_partitions(session):
                return checkpoint_counted(_fold(segment, changes), range_of)
        located = read_changes(session, self._files, segment, located=True)
        changes = number_changes(located, numbers)
        bits, counts = find_last(changes, _key_numbers(segment), range_of, most=segment.rows)
        return keep_last(changes, bits, width=len(segment.target_columns)), counts


def _has_few_rows(segment: Segment) -> bool:
    """Whether the changes are computed on the driver."""
    return segment.rows <= _FEW_ROWS and segment.bytes <= _FEW_BYTES


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


def _check_count(segment: Segment, counts: Collapsed) -> None:
    """Compare the rows that were read with what the manifests promise."""
    promised = segment.rows + len(segment.removals)
    # Of a manifest that starts before the segment does, some rows do not count.
    if counts.changes > promised if segment.start else counts.changes != promised:
        raise damaged(
            "the staged parts do not hold the rows their manifests say",
            rows=counts.changes - len(segment.removals),
            manifests_say=segment.rows,
        )
