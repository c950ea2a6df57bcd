"""The shop's database, older than its log, loaded into lakehouse tables and kept equal there.

`make demo` runs this file as it is. The settings at the top come from the environment, where a
production DAG would have constants.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

from airflow_provider_binlog import BinlogSource, TableOptions, binlog_to_lake_dag

SCHEDULE = os.environ.get("BINLOG_SHOP_SCHEDULE")
SHOP = BinlogSource("shop", start=os.environ.get("BINLOG_SHOP_START", "earliest"))
TABLES = os.environ.get("BINLOG_SHOP_TABLES", "shop.*").split(",")
STAGING_PATH = os.environ.get("BINLOG_SHOP_STAGING", "file:///tmp/binlog_shop/staging")
FORMAT: Any = os.environ.get("BINLOG_SHOP_FORMAT", "delta")
LAKE = os.environ.get("BINLOG_SHOP_LAKE", "file:///tmp/binlog_shop/lake")
SPARK = json.loads(os.environ.get("BINLOG_SHOP_SPARK", "{}"))
"""More arguments of the SparkSubmitOperator: conf, packages, jars, driver_memory, ..."""
SNAPSHOT = json.loads(os.environ.get("BINLOG_SHOP_SNAPSHOT", "{}"))
"""More arguments of the BinlogSnapshotOperator: chunk_bytes, pool, ..."""
FOLLOW = float(os.environ.get("BINLOG_SHOP_FOLLOW", "0"))
"""For how many seconds a run follows the log."""

dag = binlog_to_lake_dag(
    "binlog_shop",
    SHOP,
    schedule=SCHEDULE,
    tables=TABLES,
    staging_path=STAGING_PATH,
    format=FORMAT,
    lake=LAKE,
    # Of tables without a key: equal rows are counted.
    options={"*": TableOptions(mode="multiset")},
    snapshot=SNAPSHOT,
    merge=SPARK,
    follow=timedelta(seconds=FOLLOW) if FOLLOW else None,
)
