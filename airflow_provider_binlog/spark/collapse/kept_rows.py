"""Rows that are computed once and read more than once, and the counts of collapsed ones.

They are kept on the executors or, if they are few, as literals of the plans that read them. Such a
plan needs neither a job for its source nor a shuffle, and the engine knows how small it is.
"""

# ruff: noqa: SLF001  Literals are made of Java's rows, which PySpark would take apart.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.spark.collapse.key_intervals import as_text, find_intervals, measure
from airflow_provider_binlog.spark.target.protocol import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from pyspark.sql import Column

    from airflow_provider_binlog.spark.collapse.key_intervals import Interval, KeyColumn

Keep: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""Computes rows, and returns them as they are kept."""

CHANGES = "changes"
"""Column of a collapsed row: how many changes it stands for."""


@dataclass(frozen=True)
class Collapsed:
    """Counts of a collapse.

    Attributes:
        changes: Change rows that were read.
        deletes: Keys that are to be deleted.
        upserts: Keys that are to be there.
        intervals: Intervals that all values of the counted key column lie in; none if there are no
            keys, or if NULL is one.
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


def counted(aggregates: Mapping[str, Any]) -> Collapsed:
    """Return the counts from the aggregates of `count_columns`."""
    bounds = aggregates["low"], aggregates["high"]
    bounded = not aggregates["nulls"] and None not in bounds
    changes, deletes, upserts = (aggregates[name] for name in ("changes", "deletes", "upserts"))
    return Collapsed(changes, deletes, upserts, (bounds,) if bounded else ())


def count_actions(collapsed: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count collapsed rows, and find the range of one of their columns."""
    return counted(collapsed.agg(*count_columns(range_of)).collect()[0].asDict())


def checkpoint(rows: DataFrame) -> DataFrame:
    """Keep rows on the executors, while they are referred to."""
    return rows.localCheckpoint()


def checkpoint_counted(rows: DataFrame, range_of: KeyColumn | None) -> tuple[DataFrame, Collapsed]:
    """Keep collapsed rows on the executors, and count them on the way."""
    counts = Observation()
    kept = checkpoint(rows.observe(counts, *count_columns(range_of)))
    return kept, counted(counts.get)


def as_literals(rows: DataFrame) -> DataFrame:
    """Keep few rows in the plan; one task computes those that come from one partition."""
    session: Any = rows.sparkSession._jsparkSession
    frame = session.createDataFrame(rows._jdf.collectAsList(), rows._jdf.schema())
    return DataFrame(frame, rows.sparkSession)


def count_literals(rows: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count collapsed rows that are literals, without a job."""
    columns: list[str | Column] = [CHANGES, DELETED]
    if range_of is not None:
        columns += [as_text(F.col(range_of.name), range_of), measure(range_of)]
    literals = rows.select(*columns).collect()
    deletes = sum(row[1] for row in literals)
    values = [(row[2], row[3]) for row in literals if range_of is not None and row[2] is not None]
    return Collapsed(
        changes=sum(row[0] for row in literals),
        deletes=deletes,
        upserts=len(literals) - deletes,
        intervals=find_intervals(values) if len(values) == len(literals) else (),
    )


def size_in_bytes(rows: DataFrame) -> int:
    """Return the bytes that a query reads, as its plan estimates them, without running it."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    # A big integer of Scala, which Py4J may have made one of Python.
    return int(str(plan.stats().sizeInBytes()))
