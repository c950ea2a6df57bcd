"""Rows that are computed once and read more than once: on the executors, or on the driver if few.

Few rows become literals of the plans that read them. Such a plan needs neither a job for its source
nor a shuffle, and the engine knows how small it is.
"""

# ruff: noqa: SLF001  Literals are made of Java's rows, which PySpark would take apart.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.spark.collapse.key_intervals import as_text, find_intervals, measure
from airflow_provider_binlog.spark.collapse.whole_rows import (
    CHANGES,
    Collapsed,
    count_columns,
    counted,
)
from airflow_provider_binlog.spark.target.protocol import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from pyspark.sql import Column

    from airflow_provider_binlog.spark.collapse.key_intervals import KeyColumn

Keep: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""Computes rows, and returns them as they are kept."""


def checkpoint(rows: DataFrame) -> DataFrame:
    """Keep rows on the executors, while they are referred to."""
    return rows.localCheckpoint()


def as_literals(rows: DataFrame) -> DataFrame:
    """Keep few rows in the plan; one task computes those that come from one partition."""
    session: Any = rows.sparkSession._jsparkSession
    frame = session.createDataFrame(rows._jdf.collectAsList(), rows._jdf.schema())
    return DataFrame(frame, rows.sparkSession)


def checkpoint_counted(rows: DataFrame, range_of: KeyColumn | None) -> tuple[DataFrame, Collapsed]:
    """Keep collapsed rows on the executors, and count them on the way."""
    counts = Observation()
    kept = checkpoint(rows.observe(counts, *count_columns(range_of)))
    return kept, counted(counts.get)


def count_literals(rows: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count collapsed rows that are literals, without a job."""
    columns: list[str | Column] = [CHANGES, DELETED]
    if range_of is not None:
        columns += [as_text(F.col(range_of.name), range_of), measure(range_of)]
    found = rows.select(*columns).collect()
    deletes = sum(row[1] for row in found)
    values = [(row[2], row[3]) for row in found if range_of is not None and row[2] is not None]
    return Collapsed(
        changes=sum(row[0] for row in found),
        deletes=deletes,
        upserts=len(found) - deletes,
        intervals=find_intervals(values) if len(values) == len(found) else (),
    )


def size_in_bytes(rows: DataFrame) -> int:
    """Return how much a query reads as far as its plan says, without running it."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    # A big integer of Scala, which Py4J may have made one of Python.
    return int(str(plan.stats().sizeInBytes()))
