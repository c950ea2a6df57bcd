"""The main job: what changed in MySQL since the last run, merged into Delta tables.

It needs three connections: `binlog_default`, `lake_s3` (type aws), and `spark_default`, whose Spark
has the jars of Delta and of the object store.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_binlog import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
    BinlogMergeOperator,
    BinlogPositionSensor,
    BinlogSource,
    delta_conf,
)

SHOP = BinlogSource("shop", start="earliest")

with DAG("binlog_to_delta", schedule="*/5 * * * *", catchup=False, max_active_runs=1):
    changes = BinlogPositionSensor(task_id="changes", source=SHOP, when_nothing_new="skip")
    stage = BinlogExtractOperator(
        task_id="stage",
        source=SHOP,
        start=changes.output,
        tables=["shop.*"],
        staging_path="s3://lake_s3@lake/staging",
    )
    merge = BinlogMergeOperator(
        task_id="merge",
        staged=stage.output,
        format="delta",
        lake="s3://lake/tables",
        conf=delta_conf(),
    )
    merge >> BinlogCheckpointOperator(task_id="checkpoint", staged=stage.output)
