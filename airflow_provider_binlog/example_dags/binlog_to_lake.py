"""A database that has existed for years, kept equal in Delta tables, by one call.

It needs three connections: `binlog_default`, `lake_s3` (type aws), and `spark_default`, whose Spark
has the jars of Delta and of the object store.
"""

from __future__ import annotations

from airflow_provider_binlog import BinlogSource, binlog_to_lake_dag, delta_conf

binlog_to_lake_dag(
    "binlog_to_lake",
    BinlogSource("shop", start="now"),
    schedule="*/5 * * * *",
    tables=["shop.*"],
    staging_path="s3://lake_s3@lake/staging",
    format="delta",
    lake="s3://lake/tables",
    merge={"conf": delta_conf()},
)
