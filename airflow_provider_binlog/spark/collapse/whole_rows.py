"""Collapse of whole row images: the last change of a key says what is there at the end.

No change depends on another one. A changed key is two changes, the before-image ends the old key
and the after-image begins the new one, so chains and swaps within a range need nothing else. An
update that keeps its key may bring its before-image too: the after-image directly follows it.

Of many changes only the keys are shuffled. The result is a bit for each change, whether it is the
last one of its key. The source rows of the MERGE are the changes with that bit, read from the parts
once more: no row is kept in between, and none is shuffled that another one follows. Rows count from
0 in the order of the log, by part and by their offset in it, so the bits are dense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.spark.collapse.kept_rows import (
    CHANGES,
    Collapsed,
    checkpoint,
    count_actions,
    count_columns,
    counted,
)
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.staged.changes import CHANGE, INDEX, ORDER, PART
from airflow_provider_binlog.spark.target.protocol import DELETED, source_column
from airflow_provider_binlog.staging.paths import part_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.spark.collapse.key_intervals import KeyColumn

_ENDS = (ChangeType.DELETE.value, ChangeType.UPDATE_PREIMAGE.value)
_BEGINS = (ChangeType.INSERT.value, ChangeType.UPDATE_POSTIMAGE.value)
IS_END = (
    f"CASE WHEN {CHANGE} IN {_BEGINS} THEN false WHEN {CHANGE} IN {_ENDS} THEN true"
    f" ELSE CAST(raise_error(concat('not a change type: ', {CHANGE})) AS boolean) END"
)
"""SQL of whether a change leaves its key without a row; it fails if it is no change."""


def is_end() -> Column:
    """Whether a change leaves its key without a row; fails if it is no change."""
    return F.expr(IS_END)


def collapse(changes: DataFrame, *, width: int, key: Sequence[int]) -> DataFrame:
    """Return one row per key: the columns as the last change left them, `DELETED` and `CHANGES`.

    Rows that are partitioned by the key stay so, as the join of the MERGE wants them.

    Args:
        changes: Columns `c0` to `c{width - 1}`, `CHANGE` and `ORDER`.
        width: How many columns the table has.
        key: Which of them identify a row.
    """
    # As text: each function of PySpark takes several calls to the JVM.
    columns = ", ".join(map(source_column, range(width)))
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
    return grouped.selectExpr(*kept, f"last.{DELETED}", CHANGES)


def partition_by_key(changes: DataFrame, key: Sequence[int]) -> DataFrame:
    """Return many changes with all of a key in one partition.

    Without it each side of the shuffle would sort its rows to keep one per key.
    """
    return changes.repartition(*map(source_column, key))


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
        numbers[_file_name(part)] = count
        count, before = count + part.rows, (_first(part)[0], part.last_row)
    return numbers


def number_changes(changes: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
    """Return changes with their `number`.

    Args:
        changes: What `read_changes` returns, with `PART` and `INDEX`.
        numbers: What `number_parts` returns.
    """
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

    Args:
        changes: What `number_changes` returns.
        key: Which columns identify a row.
        range_of: The column whose range is counted; None for none.
        most: How many changes there can be.
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


def keep_last(changes: DataFrame, bits: DataFrame, *, width: int) -> DataFrame:
    """Return one row per key: the columns as the last change left them, and `DELETED`.

    Args:
        changes: What `number_changes` returns.
        bits: Those that `find_last` returns of them.
        width: How many columns the table has.
    """
    is_of_word = F.expr("shiftright(number, 6) = word")
    is_last = "shiftright(bits, CAST(number % 64 AS int)) % 2 != 0"
    columns = map(source_column, range(width))
    last = changes.join(F.broadcast(bits), is_of_word).where(is_last)
    return last.selectExpr(*columns, f"{IS_END} AS {DELETED}")


def _first(part: Part) -> tuple[int, int]:
    return part_sequence(part.path), part.first_row


def _file_name(part: Part) -> str:
    return part.path.rpartition("/")[2]
