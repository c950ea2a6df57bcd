"""Delta tables that follow a database within seconds: runs that read its log without a pause."""

from __future__ import annotations

from datetime import timedelta

from airflow_provider_binlog import BinlogSource, binlog_to_lake_dag, delta_conf

binlog_to_lake_dag(
    "binlog_follow",
    BinlogSource("shop", start="now"),
    schedule="@continuous",
    follow=timedelta(minutes=55),
    tables=["shop.*"],
    staging_path="s3://lake_s3@lake/staging",
    format="delta",
    lake="s3://lake/tables",
    merge={"conf": delta_conf()},
)
