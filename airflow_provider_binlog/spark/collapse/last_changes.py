"""The last change of each key, found by the keys alone: whole rows are read where they are needed.

Of many changes only the keys are shuffled. What is found is a bit for each change, whether it is
the last one of its key. The source rows of the MERGE are the changes with that bit, read from the
parts once more: no row is kept in between, and none is shuffled that another one follows.

Rows count from 0 in the order of the log, by part and by their place in it, so the bits are dense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.spark.collapse.kept_rows import checkpoint
from airflow_provider_binlog.spark.collapse.whole_rows import (
    CHANGES,
    IS_END,
    Collapsed,
    count_actions,
    count_columns,
    counted,
)
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.staged.changes import INDEX, PART
from airflow_provider_binlog.spark.target.protocol import DELETED, source_column
from airflow_provider_binlog.staging.paths import part_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.spark.collapse.key_intervals import KeyColumn


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
    known = changes.sparkSession.sql(query)
    found = changes.join(F.broadcast(known), PART)
    return found.withColumn("number", F.expr(f"first + {INDEX}"))


def find_last(
    changes: DataFrame, key: Sequence[int], range_of: KeyColumn | None, *, most: int
) -> tuple[DataFrame, Collapsed]:
    """Return the bits of the last change of each key, and what the collapse comes to.

    Args:
        changes: What `number_changes` returns.
        key: Which columns identify a row.
        range_of: The column whose values are to be known; None if none.
        most: How many changes there can be.
    """
    keys = [F.expr(f"{source_column(index)} AS k{index}") for index in key]
    last = F.expr(f"max(shiftleft(number, 1) + CAST({IS_END} AS bigint)) AS last")
    found = changes.groupBy(*keys).agg(last, F.expr(f"count(1) AS {CHANGES}"))
    counts = Observation()
    columns = [f"k{index} AS {source_column(index)}" for index in key]
    rows = found.selectExpr(
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
        bits: What `find_last` found in them.
        width: How many columns the table has.
    """
    is_of_word = F.expr("shiftright(number, 6) = word")
    is_last = "shiftright(bits, CAST(number % 64 AS int)) % 2 != 0"
    columns = map(source_column, range(width))
    found = changes.join(F.broadcast(bits), is_of_word).where(is_last)
    return found.selectExpr(*columns, f"{IS_END} AS {DELETED}")


def _first(part: Part) -> tuple[int, int]:
    return part_sequence(part.path), part.first_row


def _file_name(part: Part) -> str:
    return part.path.rpartition("/")[2]
