"""One merge of a source into a lake, in the process of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.merge.run import opened_merges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.job.options import MergeOptions, Report


def merge_all(spark: SparkSession, options: MergeOptions) -> Report:
    """Merge what is new into every table."""
    with opened_merges(spark, options) as (merge, _):
        return merge(lambda *_: None)
