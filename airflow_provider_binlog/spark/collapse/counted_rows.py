"""Rows of tables without a key, counted: how many copies of each a range adds, or removes.

An update removes its before-image and adds its after-image. Servers log all of a row before a
change, for want of a key; of the row after it perhaps only what changed.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import ReloadNeededError
from airflow_provider_binlog.spark.collapse.kept_rows import CHANGES, Collapsed, Keep, is_end
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.staged.changes import CHANGE, EVENT, ORDER
from airflow_provider_binlog.spark.target.protocol import COPIES, DELETED, held, source_column
from airflow_provider_binlog.spark.target.sql import comparable

_LACKS = (
    "row images of a table without a key lack columns whose values are not known: set "
    "binlog_row_image=FULL at the source, or name a key with options={...}; then reload the table"
)
_REMOVED = (
    "rows were deleted that the log does not have, or not as often, and there is no lake table: "
    "load the table from a snapshot"
)


def count_copies(
    changes: DataFrame, segment: Segment, *, keep: Keep
) -> tuple[DataFrame, Collapsed]:
    """Return different rows with their `COPIES`, and how many these are; never none of a row.

    Raises:
        ReloadNeededError: The row images do not hold the rows.
    """
    names = [source_column(index) for index in range(len(segment.columns))]
    types = dict(zip(names, segment.columns.values(), strict=True))
    if segment.groups:
        changes = _complete(changes, segment)
    groups = [F.expr(comparable(name, types[name])).alias(f"by_{name}") for name in names]
    copies = F.sum(F.when(is_end(), -1).otherwise(1)).alias(COPIES)
    is_whole = F.bool_and("whole") if segment.groups else F.expr("true")
    rows = keep(
        changes.groupBy(*groups)
        .agg(
            *(F.any_value(name).alias(name) for name in names),
            copies,
            F.count(F.lit(1)).alias(CHANGES),
            is_whole.alias("whole"),
        )
        .select(*names, COPIES, CHANGES, "whole")
    )
    found = rows.agg(
        F.coalesce(F.sum(CHANGES), F.lit(0)),
        F.coalesce(F.sum(F.greatest(-F.col(COPIES), F.lit(0))), F.lit(0)),
        F.coalesce(F.sum(F.greatest(F.col(COPIES), F.lit(0))), F.lit(0)),
        F.bool_and("whole"),
    ).collect()[0]
    if found[3] is False:
        raise ReloadNeededError(_LACKS)
    counted = rows.where(f"{COPIES} != 0").select(*names, COPIES)
    return counted, Collapsed(changes=found[0], deletes=found[1], upserts=found[2])


def repeat_copies(rows: DataFrame, counts: Collapsed) -> DataFrame:
    """Return the copies of rows that are all that there are.

    Raises:
        ReloadNeededError: There are less than none of a row.
    """
    if counts.deletes:
        raise ReloadNeededError(_REMOVED)
    names = [name for name in rows.columns if name != COPIES]
    copies = rows.select(*names, F.explode(F.sequence(F.lit(1).cast("bigint"), COPIES)))
    return copies.select(*names, F.expr("false").alias(DELETED))


def _complete(changes: DataFrame, segment: Segment) -> DataFrame:
    """Return after-images with what they lack of their before-images, and whether all are whole."""
    # Both images of an update are in one event, one directly after the other.
    in_event = Window.partitionBy(EVENT).orderBy(ORDER)
    is_after = F.col(CHANGE) == ChangeType.UPDATE_POSTIMAGE.value
    before = F.lag(F.col(CHANGE)).over(in_event) == ChangeType.UPDATE_PREIMAGE.value
    names = list(segment.columns)
    values: dict[str, Column] = {}
    flags = []
    for number, group in enumerate(segment.groups):
        flag = held(number)
        lacks = is_after & ~F.col(flag) & before
        for name in group:
            column = source_column(names.index(name))
            values[column] = F.when(lacks, F.lag(column).over(in_event)).otherwise(F.col(column))
        flags.append(F.when(lacks, F.lag(flag).over(in_event)).otherwise(F.col(flag)))
    return changes.withColumns(values | {"whole": reduce(and_, flags)})
