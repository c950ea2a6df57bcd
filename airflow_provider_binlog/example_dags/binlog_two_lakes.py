"""One DAG stages, others merge, each into its own tables and at its own pace.

The checkpoint moves as soon as changes are staged. Each lake table records its own applied
sequence, so a merge may run late, fail, or be added next year.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from airflow_provider_binlog import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
    BinlogMergeOperator,
    BinlogPositionSensor,
    BinlogSource,
    delta_conf,
    iceberg_conf,
)

SHOP = BinlogSource("shop", start="earliest")
STAGING = "s3://lake_s3@lake/staging"
STAGED = {"source": SHOP.name, "staging_path": STAGING}
SHOP_CHANGES = Asset("shop_changes", uri="s3://lake/staging/shop")

with DAG("binlog_stage", schedule="*/5 * * * *", catchup=False, max_active_runs=1):
    changes = BinlogPositionSensor(task_id="changes", source=SHOP, when_nothing_new="skip")
    stage = BinlogExtractOperator(
        task_id="stage",
        source=SHOP,
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
