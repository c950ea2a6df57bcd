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

from airflow_provider_binlog.errors import MergeError
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
from airflow_provider_binlog.spark.merge_sql import LACKS, source_column
from airflow_provider_binlog.spark.names import quote_identifier

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.lake.table_format import TargetState
    from airflow_provider_binlog.spark.plan.table_plan import TablePlan

_MESSAGES = {
    DEFAULT: "rows were inserted without all of their columns, and what the others took is not "
    "known: set binlog_row_image=FULL at the source, and load the table anew",
    END: "a row is changed behind its end: the staged changes are not those of one table",
    ROOT: "the log holds only changed columns of rows that the lake table does not have: load a "
    "snapshot of the table, and capture from its position",
}
_MESSAGES[ROW] = _MESSAGES[ROOT]


def collapse_partial(
    session: SparkSession,
    changes: DataFrame,
    plan: TablePlan,
    *,
    target: str,
    state: TargetState | None,
) -> DataFrame:
    """Return the source rows of the MERGE, made once and kept while they are referred to.

    Args:
        session: The table's session.
        changes: What `read_changes` returned.
        plan: What there is to do; its images lack columns.
        target: Quoted name of the lake table.
        state: That table; None if there is none yet.

    Raises:
        MergeError: Values are neither in the range nor in the target.
    """
    width, key, groups = _places(plan)
    if plan.has_before_images:
        changes = follow_key_changes(session, changes, key)
    rows = collapse_parts(changes, width=width, key=key, groups=groups).localCheckpoint()
    lacking = counts_by_lack(rows)
    empty = state is None or plan.fate.emptied_at is not None
    if ROOT in lacking and state is not None and not empty:
        old = _read_target(session, plan, target, state)
        rows = complete_moved(rows, old, width=width, key=key, groups=groups).localCheckpoint()
        lacking = counts_by_lack(rows)
    for what in (DEFAULT, END, ROOT, ROW) if empty else (DEFAULT, END, ROOT):
        if what in lacking:
            raise _refused(rows.where(F.col(LACKS) == what), plan, what)
    return rows


def refuse_orphans(
    session: SparkSession, rows: DataFrame, plan: TablePlan, *, target: str, state: TargetState
) -> None:
    """Refuse changes of rows that the target does not have: of those the MERGE failed.

    Raises:
        MergeError: There are any.
    """
    _, key, _ = _places(plan)
    held = _read_target(session, plan, target, state)
    patches = rows.where(F.col(LACKS) == ROW)
    same = reduce(and_, (patches[source_column(i)].eqNullSafe(held[source_column(i)]) for i in key))
    orphans = patches.join(held, same, "left_anti")
    if not orphans.isEmpty():
        raise _refused(orphans, plan, ROW)


def _places(plan: TablePlan) -> tuple[int, list[int], list[list[int]]]:
    """Return how many columns there are, and where those of the key and of the groups stand."""
    names = list(plan.columns)
    groups = [[names.index(name) for name in group] for group in plan.groups]
    return len(names), [names.index(name) for name in plan.key], groups


def _read_target(
    session: SparkSession, plan: TablePlan, target: str, state: TargetState
) -> DataFrame:
    """Return the target's rows as source columns: NULL where it has no such column yet."""
    columns = ", ".join(
        f"CAST({quote_identifier(name) if name in state.columns else 'NULL'} AS {type_})"
        f" AS {source_column(index)}"
        for index, (name, type_) in enumerate(plan.columns.items())
    )
    return session.sql(f"SELECT {columns} FROM {target}")  # noqa: S608  Every name in it is quoted.


def _refused(rows: DataFrame, plan: TablePlan, what: str) -> MergeError:
    _, key, groups = _places(plan)
    found = count_lacking(rows, key=key, groups=groups)
    names = list(plan.columns)
    return MergeError(
        _MESSAGES[what],
        table=plan.table,
        position=plan.position,
        rows=found.rows,
        key=",".join(map(str, found.key)),
        columns=",".join(names[index] for index in found.columns),
    )
