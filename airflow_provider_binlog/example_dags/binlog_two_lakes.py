"""One DAG stages, others merge, each into its own tables and at its own pace.

The checkpoint moves as soon as changes are staged. Each lake table records its own applied
sequence, so a merge may run late, fail, or be added next year.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from airflow_provider_binlog.operators.checkpoint import BinlogCheckpointOperator
from airflow_provider_binlog.operators.extract import BinlogExtractOperator
from airflow_provider_binlog.operators.merge import BinlogMergeOperator
from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor
from airflow_provider_binlog.spark.session_conf import delta_conf, iceberg_conf

STAGING = "s3://lake_s3@lake/staging"
STAGED = {"source": "shop", "staging_path": STAGING}
SHOP_CHANGES = Asset("shop_changes", uri="s3://lake/staging/shop")

with DAG("binlog_stage", schedule="*/5 * * * *", catchup=False, max_active_runs=1):
    changes = BinlogPositionSensor(
        task_id="changes", source="shop", start="earliest", when_nothing_new="skip"
    )
    stage = BinlogExtractOperator(
        task_id="stage",
        source="shop",
        start=changes.output,
        tables=["shop.*"],
        staging_path=STAGING,
        outlets=[SHOP_CHANGES],
    )
    checkpoint = BinlogCheckpointOperator(task_id="checkpoint", staged=stage.output)

with DAG("binlog_merge_delta", schedule=[SHOP_CHANGES], max_active_runs=1):
    BinlogMergeOperator(
        task_id="merge", staged=STAGED, format="delta", lake="s3://lake/tables", conf=delta_conf()
    )

with DAG("binlog_merge_iceberg", schedule="@daily", catchup=False, max_active_runs=1):
    BinlogMergeOperator(
        task_id="merge",
        staged=STAGED,
        format="iceberg",
        lake="lake",
        tables=["shop.orders", "shop.order_items"],
        conf=iceberg_conf("lake", "s3a://lake/warehouse"),
    )
