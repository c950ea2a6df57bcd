"""The source rows of a table whose row images lack columns: made whole, or refused.

A value that is neither in the range nor in the target is not guessed: the table's merge fails, and
nothing of it is committed.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.errors import ReloadNeededError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.spark.collapse.key_changes import follow_key_changes
from airflow_provider_binlog.spark.collapse.partial_rows import (
    DEFAULT,
    END,
    ROOT,
    ROW,
    collapse_parts,
    complete_moved,
    count_lacking,
    counts_by_lack,
)
from airflow_provider_binlog.spark.target.protocol import LACKS, source_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_binlog.spark.collapse.kept_rows import Keep
    from airflow_provider_binlog.spark.plan.segment import Segment

_MESSAGES = {
    DEFAULT: "rows were inserted without all of their columns, and what the others took is not "
    "known: set binlog_row_image=FULL at the source, and reload the table",
    END: "a row is changed after its delete: the staged changes are not those of one table",
    ROOT: "the log holds only changed columns of rows that the lake table does not have: reload "
    "the table from a snapshot",
}
_MESSAGES[ROW] = _MESSAGES[ROOT]


def collapse_partial(
    session: SparkSession,
    changes: DataFrame,
    segment: Segment,
    *,
    target: str,
    is_new: bool,
    keep: Keep,
) -> DataFrame:
    """Return the source rows of the MERGE, computed once and kept while they are referred to.

    Args:
        session: The table's session.
        changes: What `read_changes` returned.
        segment: What there is to do; its images lack columns.
        target: Quoted name of the lake table.
        is_new: Whether there is no lake table yet.
        keep: How rows are kept.

    Raises:
        ReloadNeededError: Values are neither in the range nor in the target.
    """
    width, key, groups = _numbers(segment)
    if segment.has_before_images:
        changes = follow_key_changes(session, changes, key)
    rows = keep(collapse_parts(changes, width=width, key=key, groups=groups))
    lacking = counts_by_lack(rows)
    empty = is_new or segment.starts_empty
    if ROOT in lacking and not empty:
        old = _read_target(session, segment, target, segment.evolution.columns)
        rows = keep(complete_moved(rows, old, width=width, key=key, groups=groups))
        lacking = counts_by_lack(rows)
    for what in (DEFAULT, END, ROOT, ROW) if empty else (DEFAULT, END, ROOT):
        if what in lacking:
            raise _refused(rows.where(F.col(LACKS) == what), segment, what)
    return rows


def refuse_orphans(session: SparkSession, rows: DataFrame, segment: Segment, target: str) -> None:
    """Refuse changes of rows that the target does not have: of those the MERGE failed.

    Args:
        session: The table's session.
        rows: The source rows.
        segment: What there is to do.
        target: Quoted name of the lake table, which has all columns of the segment.

    Raises:
        ReloadNeededError: There are any.
    """
    _, key, _ = _numbers(segment)
    held = _read_target(session, segment, target, {name: name for name in segment.columns})
    patches = rows.where(F.col(LACKS) == ROW)
    same = reduce(and_, (patches[source_column(i)].eqNullSafe(held[source_column(i)]) for i in key))
    orphans = patches.join(held, same, "left_anti")
    if not orphans.isEmpty():
        raise _refused(orphans, segment, ROW)


def _numbers(segment: Segment) -> tuple[int, list[int], list[list[int]]]:
    """Return how many columns there are, and the numbers of those of the key and of the groups."""
    names = list(segment.columns)
    groups = [[names.index(name) for name in group] for group in segment.groups]
    return len(names), [names.index(name) for name in segment.key], groups


def _read_target(
    session: SparkSession, segment: Segment, target: str, held: Mapping[str, str]
) -> DataFrame:
    """Return the target's rows as source columns: `held` has its names for those that it has."""
    filled = segment.evolution.filled

    def value(name: str) -> str:
        if name in filled:
            return filled[name]
        return quote_identifier(held[name]) if name in held else "NULL"

    columns = ", ".join(
        f"CAST({value(name)} AS {type_}) AS {source_column(index)}"
        for index, (name, type_) in enumerate(segment.columns.items())
    )
    return session.sql(f"SELECT {columns} FROM {target}")  # noqa: S608  Every name in it is quoted.


def _refused(rows: DataFrame, segment: Segment, what: str) -> ReloadNeededError:
    _, key, groups = _numbers(segment)
    found = count_lacking(rows, key=key, groups=groups)
    names = list(segment.columns)
    return ReloadNeededError(
        _MESSAGES[what],
        table=segment.table,
        position=segment.position,
        rows=found.rows,
        key=",".join(map(str, found.key)),
        columns=",".join(names[index] for index in found.columns),
    )
