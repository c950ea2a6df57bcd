"""Many changes of a key become the one action that is left of them.

With whole row images no change depends on another one: the last change of a key says what is there
at the end. A changed key is two changes, the before-image ends the old key and the after-image
begins the new one, so chains and swaps within a range need nothing else. An update that keeps its
key may bring its before-image too: the after-image directly follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.spark.collapse.key_intervals import as_text
from airflow_provider_binlog.spark.staged.changes import CHANGE, ORDER
from airflow_provider_binlog.spark.target.protocol import DELETED, source_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.spark.collapse.key_intervals import Interval, KeyColumn

CHANGES = "changes"
"""Column of a collapsed row: how many changes it stands for."""

_ENDS = (ChangeType.DELETE.value, ChangeType.UPDATE_PREIMAGE.value)
_BEGINS = (ChangeType.INSERT.value, ChangeType.UPDATE_POSTIMAGE.value)
IS_END = (
    f"CASE WHEN {CHANGE} IN {_BEGINS} THEN false WHEN {CHANGE} IN {_ENDS} THEN true"
    f" ELSE CAST(raise_error(concat('not a change type: ', {CHANGE})) AS boolean) END"
)
"""SQL of whether a change leaves its key without a row; it fails if it is no change."""


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


@dataclass(frozen=True)
class Collapsed:
    """What a collapse came to.

    Attributes:
        changes: Change rows that were read.
        deletes: Keys that are to be deleted.
        upserts: Keys that are to be there.
        intervals: What all keys lie in, in the column asked for; none if they lie in none: there
            are no keys, or NULL is one.
    """

    changes: int
    deletes: int
    upserts: int
    intervals: tuple[Interval, ...] = ()


def count_columns(range_of: KeyColumn | None) -> list[Column]:
    """Return the aggregates of a collapse's rows that `counted` reads."""
    bounded = F.lit(None) if range_of is None else F.col(range_of.name)
    low, high = F.min(bounded), F.max(bounded)
    return [
        F.coalesce(F.sum(CHANGES), F.lit(0)).alias("changes"),
        F.count_if(F.col(DELETED)).alias("deletes"),
        F.count_if(~F.col(DELETED)).alias("upserts"),
        F.count_if(bounded.isNull()).alias("nulls"),
        as_text(low, range_of).alias("low"),
        as_text(high, range_of).alias("high"),
    ]


def counted(found: Mapping[str, Any]) -> Collapsed:
    """Return what the aggregates of `count_columns` say."""
    bounds = found["low"], found["high"]
    bounded = not found["nulls"] and None not in bounds
    return Collapsed(
        found["changes"], found["deletes"], found["upserts"], (bounds,) if bounded else ()
    )


def count_actions(collapsed: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count what `collapse` returned, and find the range of one of its columns."""
    return counted(collapsed.agg(*count_columns(range_of)).collect()[0].asDict())


def is_end() -> Column:
    """Whether a change leaves its key without a row; fails if it is no change."""
    return F.expr(IS_END)
