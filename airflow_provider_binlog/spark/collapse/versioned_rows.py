"""Rows of a history: what every transaction left of a key, in place of the last change alone.

A target folds them onto the versions that it has; see `VersionedRows`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.spark.collapse.kept_rows import CHANGES, Keep, is_end
from airflow_provider_binlog.spark.collapse.partial_rows import collapse_images, refuse_lacking
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.staged.changes import BASED, ORDER, TRANSACTION
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.modes import END, START
from airflow_provider_binlog.spark.target.protocol import (
    DELETED,
    LACKS,
    NUMBER,
    held,
    source_column,
)
from airflow_provider_binlog.spark.target.versions import versions_to_write


def version_rows(changes: DataFrame, segment: Segment, *, has_rows: bool, keep: Keep) -> DataFrame:
    """Return the rows of a key after each transaction, with their `NUMBER` and `CHANGES`.

    Of a segment with a base, the first one of a key is what the row was at that moment.

    Raises:
        ReloadNeededError: Values are neither in the range nor in the target.
    """
    names = [source_column(at) for at in range(len(segment.target_columns))]
    in_order = Window.partitionBy(*map(source_column, segment.key_numbers)).orderBy(ORDER)
    based = [] if segment.base is None else [BASED]
    own = [ORDER, TRANSACTION]
    if segment.groups:
        states = collapse_images(changes, segment, running=own)
    else:
        count = F.count(F.lit(1)).over(in_order)
        states = changes.select(*names, is_end().alias(DELETED), count.alias(CHANGES), *based, *own)
    following = F.lead(TRANSACTION).over(in_order)
    last = states.withColumn("following", following).where(f"NOT following <=> {TRANSACTION}")
    before = F.lag(CHANGES).over(in_order)
    last = last.withColumns(
        {
            NUMBER: F.col(CHANGES),
            CHANGES: F.col(CHANGES) - F.coalesce(before, F.lit(0)),
            "begins": before.isNull(),
        }
    )
    if segment.base is not None:
        # A key that is in no row from before the base had no row then.
        absent = F.col("begins") & ~F.col(BASED)
        twice = F.when(absent, F.expr("array(true, false)")).otherwise(F.expr("array(false)"))
        start = names[[*segment.target_columns].index(segment.mode.names[START])]
        added, at = F.col("added"), F.timestamp_micros(F.lit(segment.base.at))
        last = last.withColumn("added", F.explode(twice)).withColumns(
            {
                DELETED: F.col(DELETED) | added,
                NUMBER: F.when(added, 0).otherwise(F.col(NUMBER)),
                CHANGES: F.when(added, 0).otherwise(F.col(CHANGES)),
                start: F.when(added | F.col(BASED), at).otherwise(F.col(start)),
            }
        )
    flags = [*(held(number) for number in range(len(segment.groups))), LACKS]
    rows = keep(last.select(*names, DELETED, NUMBER, CHANGES, *(flags if segment.groups else ())))
    if segment.groups:
        refuse_lacking(rows, segment, has_rows=has_rows)
    return rows


def fold_alone(rows: DataFrame, segment: Segment) -> DataFrame:
    """Return the versions that rows make of which the target has none."""
    rows.createOrReplaceTempView(merge_sql.COLLAPSED)
    query = versions_to_write(
        segment.target_columns,
        source=merge_sql.COLLAPSED,
        key=segment.key,
        start=segment.mode.names[START],
        end=segment.mode.names[END],
        tracked=segment.tracked,
    )
    return rows.sparkSession.sql(query)
