"""Source rows of a commit: what is left of a segment's staged changes, one row for each key.

Of whole row images the last change of a key counts; a changed key is two changes. Of many changes
only the keys are shuffled: a bit for each change, in the order of the log, says whether it is the
last one of its key, and the changes with that bit are read from the parts once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.spark.collapse.counted_rows import count_copies, repeat_copies
from airflow_provider_binlog.spark.collapse.kept_rows import (
    CHANGES,
    IS_END,
    Collapsed,
    Keep,
    KeyColumn,
    as_literals,
    checkpoint,
    checkpoint_counted,
    count_actions,
    count_columns,
    count_last,
    count_literals,
    counted,
    has_intervals,
    is_end,
)
from airflow_provider_binlog.spark.collapse.partial_rows import collapse_images, refuse_lacking
from airflow_provider_binlog.spark.collapse.versioned_rows import fold_alone, version_rows
from airflow_provider_binlog.spark.job.session import (
    Sessions,
    fixed_partitions,
    set_partitions,
    share,
)
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.staged.changes import (
    BASED,
    ENDS,
    INDEX,
    ORDER,
    PART,
    can_take_last,
    check_digests,
    read_changes,
    read_last,
    select_last,
)
from airflow_provider_binlog.spark.staged.few_parts import HAS_ARROW
from airflow_provider_binlog.spark.staged.files import SourceFiles, damaged
from airflow_provider_binlog.spark.target.protocol import DELETED, LACKS, source_column
from airflow_provider_binlog.spark.target.spark_target import (
    EXPANSION,
    SMALL_TARGET_BYTES,
    SourceRows,
)
from airflow_provider_binlog.spark.target.sql import select_source_rows
from airflow_provider_binlog.spark.target.state import TargetState
from airflow_provider_binlog.staging.paths import part_sequence

if TYPE_CHECKING:
    import pyarrow as pa

# What is computed on the driver: change rows, and bytes of compressed Parquet; of whole images,
# which the driver also reads, those in memory.
_FEW_ROWS = 10_000
_FEW_BYTES = 2 << 20
_FEW_MEMORY = 16 << 20
# Plans for keys alone are compiled, too. Every executor holds 40 bytes for 64 changes.
_MANY_ROWS, _MOST_ROWS = 500_000, 1 << 27
# As many files as one task reads one after the other.
_FEW_PARTS = 8

Rows_co = TypeVar("Rows_co", covariant=True)


class RowMaker(Protocol[Rows_co]):
    """Makes the rows of changes, in the form that a target takes."""

    def make(self, segment: Segment, state: TargetState | None) -> Rows_co:
        """Return the final changes of a segment, one for each key; all changes of a changelog.

        Raises:
            StagingError: The parts do not hold as many rows as their manifests say; or, if that is
                to be verified, other bytes.
            ReloadNeededError: Values are neither in the range nor in the lake table.
        """

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> Rows_co:
        """Return all rows of a lake table of so many bytes."""


class SparkRows:
    """Makes DataFrames; a `RowMaker`. Whether the bytes of parts are verified says `verify`."""

    def __init__(self, sessions: Sessions, files: SourceFiles, *, verify: bool) -> None:
        self._sessions = sessions
        self._files = files
        self._verify = verify

    def make(self, segment: Segment, state: TargetState | None) -> SourceRows:
        """See `RowMaker`."""
        if self._verify:
            check_digests(self._sessions.get(), self._files, segment.parts)
        few, last = _has_few_rows(segment), None
        if few and HAS_ARROW and can_take_last(segment):
            last = read_last(self._files, segment, memory=_FEW_MEMORY)
            few = last is not None
        session = self._prepare(segment, state, few=few)
        rows, counts = self._collapse(session, segment, state, last, few=few)
        _check_count(segment, counts)
        if segment.mode.is_multiset or segment.mode.is_history:
            if segment.replaces_rows(state):
                rows, counts = _finish_alone(segment, rows, counts, few=few)
        elif segment.mode.keeps_removed:
            rows, counts = _keep_deleted(segment, rows, counts, alone=segment.replaces_rows(state))
        return SourceRows(rows, segment.bytes, few, counts)

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> SourceRows:
        """See `RowMaker`."""
        session = self._sessions.get()
        return SourceRows(session.sql(select_source_rows(table, columns)), size)

    def _prepare(self, segment: Segment, state: TargetState | None, *, few: bool) -> SparkSession:
        """Return the session that a table is merged in, and prepare it and this thread."""
        size = 0 if state is None else state.bytes
        session = self._sessions.get(few=few and size <= SMALL_TARGET_BYTES)
        share(session)
        source = EXPANSION * segment.bytes
        # Of the target about as much meets the source, as long as no more is known.
        set_partitions(session, source + min(source, size))
        return session

    def _read(self, session: SparkSession, segment: Segment, *, few: bool) -> DataFrame:
        changes = _of_mode(segment, read_changes(session, self._files, segment))
        # Few in one partition are not shuffled.
        return changes.coalesce(1) if few and len(segment.parts) <= _FEW_PARTS else changes

    def _collapse(
        self,
        session: SparkSession,
        segment: Segment,
        state: TargetState | None,
        last: pa.Table | None,
        *,
        few: bool,
    ) -> tuple[DataFrame, Collapsed]:
        """Return what is left of each key, as the mode has it, and the counts of that."""
        range_of = _find_key_column(segment, state)
        is_whole = not (segment.groups or segment.mode.is_history or segment.mode.is_multiset)
        if is_whole and not few:
            return self._reduce(session, segment, range_of)
        if last is not None:
            rows = select_last(session, last, segment)
            return rows, count_last(last, rows, range_of)
        changes = self._read(session, segment, few=few)
        keep: Keep = as_literals if few else checkpoint
        # Whether the lake table has rows that patches may be of.
        has_rows = state is not None and not segment.starts_empty
        if segment.mode.is_multiset:
            return count_copies(changes, segment, keep=keep)
        if segment.mode.is_history:
            rows = version_rows(changes, segment, has_rows=has_rows, keep=keep)
        elif segment.groups:
            rows = keep(collapse_images(changes, segment))
            refuse_lacking(rows, segment, has_rows=has_rows)
        else:
            rows = keep(_fold(segment, changes))
        return rows, (count_literals if few else count_actions)(rows, range_of)

    def _reduce(
        self, session: SparkSession, segment: Segment, range_of: KeyColumn | None
    ) -> tuple[DataFrame, Collapsed]:
        """Return the source rows of many whole images, or all of a changelog's."""
        has_many = _MANY_ROWS <= segment.rows <= _MOST_ROWS
        is_numbered = has_many and not segment.is_changelog
        numbers = number_parts(segment.parts) if is_numbered else None
        if numbers is None:
            changes = _of_mode(segment, read_changes(session, self._files, segment))
            if not segment.is_changelog:
                # Else each side of the shuffle would sort its rows to keep one per key.
                changes = changes.repartition(*map(source_column, segment.key_numbers))
            with fixed_partitions(session):
                return checkpoint_counted(_fold(segment, changes), range_of)
        located = read_changes(session, self._files, segment, located=True)
        changes = number_changes(_of_mode(segment, located), numbers)
        bits, counts = find_last(changes, segment.key_numbers, range_of, most=segment.rows)
        width, based = len(segment.target_columns), segment.base is not None
        return keep_last(changes, bits, width=width, based=based), counts


def _has_few_rows(segment: Segment) -> bool:
    """Whether the changes are few enough to be literals."""
    return segment.rows <= _FEW_ROWS and segment.bytes <= _FEW_BYTES


def _finish_alone(
    segment: Segment, rows: DataFrame, counts: Collapsed, *, few: bool
) -> tuple[DataFrame, Collapsed]:
    """Return the copies, or the versions, that are all that there are."""
    if segment.mode.is_multiset:
        return repeat_copies(rows, counts), counts
    rows = (as_literals if few else checkpoint)(fold_alone(rows, segment))
    return rows, replace(counts, deletes=0, upserts=rows.count())


def _fold(segment: Segment, changes: DataFrame) -> DataFrame:
    width, based = len(segment.target_columns), segment.base is not None
    if segment.is_changelog:
        return as_log(changes, width=width)
    return collapse(changes, width=width, key=segment.key_numbers, based=based)


def _of_mode(segment: Segment, changes: DataFrame) -> DataFrame:
    """Return the changes that the mode does not ignore.

    Of images that lack columns also the others: what is patched may have been another row.
    """
    if segment.mode.deletes != "ignore" or segment.groups:
        return changes
    return changes.where(~is_end())


def _keep_deleted(
    segment: Segment, rows: DataFrame, counts: Collapsed, *, alone: bool
) -> tuple[DataFrame, Collapsed]:
    """Return collapsed rows of a mode that keeps deleted ones; `alone` if the target has none.

    A row that was deleted before the segment's base is none of those that are removed since.
    """
    if segment.mode.deletes == "ignore":
        rows, counts = rows.where(f"NOT {DELETED}"), replace(counts, deletes=0)
    elif segment.base is not None:
        rows = rows.where(f"NOT ({DELETED} AND {BASED})")
    if alone:
        if segment.groups:
            # What is not known of a deleted row nobody has.
            rows = rows.where(f"NOT ({DELETED} AND {LACKS} IS NOT NULL)")
        rows = rows.withColumn(DELETED, F.expr("false"))
        counts = replace(counts, upserts=counts.keys, deletes=0)
    return rows.drop(BASED), counts


def _find_key_column(segment: Segment, state: TargetState | None) -> KeyColumn | None:
    """Return the source column whose values may spare the MERGE files; None if none does."""
    if state is None or state.files <= 1 or segment.reloads or not segment.target_key:
        return None
    first, types = segment.target_key[0], segment.target_columns
    if not has_intervals(types[first]):
        return None
    return KeyColumn(source_column(list(types).index(first)), types[first])


def _check_count(segment: Segment, counts: Collapsed) -> None:
    """Compare the rows that were read with what the manifests promise."""
    promised = segment.rows + len(segment.removals)
    if segment.mode.deletes == "ignore" and not segment.groups:
        promised -= sum(segment.changes.get(type_, 0) for type_ in ENDS)
    # Of a manifest that starts before the segment does, some rows do not count.
    if counts.changes > promised if segment.start else counts.changes != promised:
        raise damaged(
            "the staged parts do not hold the rows their manifests say",
            rows=counts.changes - len(segment.removals),
            manifests_say=segment.rows,
        )


def collapse(
    changes: DataFrame, *, width: int, key: Sequence[int], based: bool = False
) -> DataFrame:
    """Return one row per key: the columns as the last change left them, `DELETED` and `CHANGES`.

    Rows that are partitioned by the key stay so, as the join of the MERGE wants them. The changes
    have the columns `c0` to `c{width - 1}`, `CHANGE` and `ORDER`, and `BASED` if they are `based`.
    """
    # As text: each function of PySpark takes several calls to the JVM.
    columns = ", ".join([*map(source_column, range(width)), *([BASED] * based)])
    last = f"max_by(struct({columns}, {IS_END} AS {DELETED}), {ORDER}) AS last"
    keys = [F.expr(f"{source_column(index)} AS k{index}") for index in key]
    grouped = changes.groupBy(*keys).agg(F.expr(last), F.expr(f"count(1) AS {CHANGES}"))
    types = dict(changes.dtypes)
    # A group of numbers may hold both zeros.
    alike = {index for index in key if types[source_column(index)] not in ("float", "double")}
    kept = (
        f"k{index} AS {source_column(index)}" if index in alike else f"last.{source_column(index)}"
        for index in range(width)
    )
    return grouped.selectExpr(*kept, f"last.{DELETED}", CHANGES, *([f"last.{BASED}"] * based))


def as_log(changes: DataFrame, *, width: int) -> DataFrame:
    """Return every change as a row to keep, with the columns that `collapse` returns."""
    columns = [F.col(source_column(index)) for index in range(width)]
    kept, one = F.expr("false").alias(DELETED), F.lit(1).cast("bigint").alias(CHANGES)
    return changes.select(*columns, kept, one)


def number_parts(parts: Iterable[Part]) -> dict[str, int] | None:
    """Return the number of the first row of each part, by the name of its file.

    None if rows of one part are between those of another one.
    """
    numbers: dict[str, int] = {}
    count, before = 0, (0, -1)
    for part in sorted(parts, key=_first):
        if _first(part) <= before:
            return None
        numbers[part.path.rpartition("/")[2]] = count
        count, before = count + part.rows, (_first(part)[0], part.last_row)
    return numbers


def number_changes(changes: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
    """Return changes, which have `PART` and `INDEX`, with their `number`."""
    rows = ", ".join(f"({quote_text(name)}, {first}L)" for name, first in numbers.items())
    # A frame of Python's rows would start Python on the executors.
    query = f"SELECT * FROM VALUES {rows} AS v({PART}, first)"  # noqa: S608  Quoted.
    firsts = changes.sparkSession.sql(query)
    placed = changes.join(F.broadcast(firsts), PART)
    return placed.withColumn("number", F.expr(f"first + {INDEX}"))


def find_last(
    changes: DataFrame, key: Sequence[int], range_of: KeyColumn | None, *, most: int
) -> tuple[DataFrame, Collapsed]:
    """Return the bits of the last change of each key, and the counts of the collapse.

    There are at most `most` numbered changes.
    """
    keys = [F.expr(f"{source_column(index)} AS k{index}") for index in key]
    last = F.expr(f"max(shiftleft(number, 1) + CAST({IS_END} AS bigint)) AS last")
    by_key = changes.groupBy(*keys).agg(last, F.expr(f"count(1) AS {CHANGES}"))
    counts = Observation()
    columns = [f"k{index} AS {source_column(index)}" for index in key]
    rows = by_key.selectExpr(
        *columns, "shiftright(last, 1) AS number", f"last % 2 = 1 AS {DELETED}", CHANGES
    ).observe(counts, *count_columns(range_of))
    bits = rows.groupBy(F.expr("shiftright(number, 6) AS word")).agg(
        F.expr("bit_or(shiftleft(1L, CAST(number % 64 AS int))) AS bits")
    )
    kept, collapsed = checkpoint(bits), counted(counts.get)
    if collapsed.changes > most:
        # Spark counts twice what a task counted that it had to repeat, after a lost executor.
        collapsed = count_actions(rows, range_of)
    return kept, collapsed


def keep_last(changes: DataFrame, bits: DataFrame, *, width: int, based: bool = False) -> DataFrame:
    """Return the changes that `find_last` has set the bits of: their columns, and `DELETED`."""
    is_of_word = F.expr("shiftright(number, 6) = word")
    is_last = "shiftright(bits, CAST(number % 64 AS int)) % 2 != 0"
    columns = [*map(source_column, range(width)), *([BASED] * based)]
    last = changes.join(F.broadcast(bits), is_of_word).where(is_last)
    return last.selectExpr(*columns, f"{IS_END} AS {DELETED}")


def _first(part: Part) -> tuple[int, int]:
    return part_sequence(part.path), part.first_row
