"""What changed in the shop's MySQL since the last run, merged into lakehouse tables.

The tasks of `binlog_shop` one by one, without snapshots: for a database whose log is complete. The
settings at the top come from the environment, where a production DAG would have constants.
"""

from __future__ import annotations

import json
import os
from typing import Any

from airflow.sdk import DAG

from airflow_provider_binlog import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
    BinlogMergeOperator,
    BinlogPositionSensor,
    BinlogSource,
)

SCHEDULE = os.environ.get("BINLOG_CHANGES_SCHEDULE")
SHOP = BinlogSource("shop", start=os.environ.get("BINLOG_SHOP_START", "earliest"))
TABLES = os.environ.get("BINLOG_SHOP_TABLES", "shop.*").split(",")
STAGING_PATH = os.environ.get("BINLOG_SHOP_STAGING", "file:///tmp/binlog_shop/staging")
FORMAT: Any = os.environ.get("BINLOG_SHOP_FORMAT", "delta")
LAKE = os.environ.get("BINLOG_SHOP_LAKE", "file:///tmp/binlog_shop/lake")
SPARK = json.loads(os.environ.get("BINLOG_SHOP_SPARK", "{}"))
"""More arguments of the SparkSubmitOperator: conf, packages, jars, driver_memory, ..."""

with DAG("binlog_changes", schedule=SCHEDULE, catchup=False, max_active_runs=1):
    changes = BinlogPositionSensor(task_id="changes", source=SHOP, when_nothing_new="skip")
    stage = BinlogExtractOperator(
        task_id="stage",
        source=SHOP,
        start=changes.output,
        tables=TABLES,
        staging_path=STAGING_PATH,
    )
    merge = BinlogMergeOperator(
        task_id="merge", staged=stage.output, format=FORMAT, lake=LAKE, **SPARK
    )
    merge >> BinlogCheckpointOperator(task_id="checkpoint", staged=stage.output)
