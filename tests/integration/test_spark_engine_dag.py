"""Snapshots and a backlog that Spark's executors read, in a DAG whose tasks Airflow supervises."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from tests.fixtures.mysql import Database, flush_log
from tests.support.snapshots import fill, read_parts, rows_of
from tests.support.staged import apply_all
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server

# Each of its three applications starts a driver, a master, a worker and an executor.
pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

DAG = """
from airflow.sdk import DAG
from airflow_provider_binlog import (
    BinlogCheckpointOperator, BinlogCommitOperator, BinlogPlanOperator, BinlogSnapshotOperator,
    BinlogSnapshotPlanOperator, BinlogSource, BinlogSubRangeOperator,
)

STAGING = {{
    "source": BinlogSource("shop", start="{start}"), "staging_path": "{folder}/staging"
}}
SPARK = {{"engine": "spark", "parallelism": 2, "spark": {{"conf": {conf}}}}}

with DAG("on_spark", schedule=None):
    tables = BinlogSnapshotPlanOperator(
        task_id="tables", tables=["{database}.*"], engine="spark", **STAGING
    )
    snapshot = BinlogSnapshotOperator.partial(
        task_id="snapshot", chunk_bytes=4096, **SPARK, **STAGING
    ).expand_kwargs(tables.output)
    plan = BinlogPlanOperator(
        task_id="plan", tables=["{database}.*"], target_bytes="1 B", **STAGING
    )
    sub_ranges = BinlogSubRangeOperator(
        task_id="sub_ranges", sub_range=plan.output, **SPARK, **STAGING
    )
    commit = BinlogCommitOperator(task_id="commit", sub_ranges=sub_ranges.output, **STAGING)
    snapshot >> plan
    BinlogCheckpointOperator(task_id="checkpoint", staged=commit.output)
"""


def test_executors_read_for_supervised_tasks(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    create_dag: Callable[..., Airflow],
    spark_environment: SparkEnvironment,
    tmp_path: Path,
) -> None:
    database = create_database(mysql97)
    file = flush_log(mysql97)
    fill(database)
    database.execute(
        *("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"),
        *("FLUSH BINARY LOGS", "UPDATE t SET a = a + 1"),
        *("FLUSH BINARY LOGS", "DELETE FROM t WHERE id = 1"),
    )
    python = tmp_path / "executors-python"
    python.write_text(f'#!/bin/sh\necho run >> {tmp_path}/run\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    conf = {
        **{name: spark_environment.conf[name] for name in ("spark.local.dir", "spark.ui.enabled")},
        "spark.pyspark.python": str(python),
        "spark.pyspark.driver.python": sys.executable,
    }
    text = DAG.format(
        start=f"{file}:4", folder=tmp_path, database=database.name, conf=json.dumps(conf)
    )
    # Executors that are processes of their own, which are sent what they import.
    master = {"conn_type": "spark", "host": "local-cluster[1,2,1024]"}
    airflow = create_dag(
        text,
        mysql97,
        **spark_environment.variables,
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps(master),
    )
    airflow.call("supervise_tasks")

    states = airflow.run_dag("on_spark")

    assert set(states.values()) == {"success"}, states
    assert (tmp_path / "run").exists()
    assert airflow.returned("commit")["changes"]["delete"] == 1
    assert airflow.checkpoint()["sequence"] == 1
    store = open_store(f"file://{tmp_path}/staging")
    _, tables = apply_all(store, "shop")
    assert [row["a"] for row in tables["t"].values()] == [3]
    assert len(tables["numbers"]) == 400
    taken = [
        SnapshotManifest.decode(each.read_bytes())
        for each in (tmp_path / "staging" / "shop" / "snapshots").glob("*.json")
    ]
    numbers, t = sorted(taken, key=lambda each: each.table)
    assert [row["id"] for row in rows_of(read_parts(store, numbers.parts))] == list(range(400))
    assert len(numbers.chunks) > 2
    assert rows_of(read_parts(store, t.parts)) == [{"id": 2, "a": 3}]
