"""The merge by a plain SparkSubmitOperator, for those who have a subclass of their own.

`BinlogMergeOperator` does nothing that cannot be written out: an application, the zip that it
imports, and its arguments.
"""

from __future__ import annotations

from tempfile import gettempdir

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

from airflow_provider_binlog import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
    BinlogPositionSensor,
    BinlogSource,
    delta_conf,
    merge_arguments,
)
from airflow_provider_binlog.spark.job.options import APPLICATION, build_py_files

SHOP = BinlogSource("shop", start="earliest")
STAGING = "s3://lake_s3@lake/staging"


@task
def build_zip() -> str:
    """Write what the merge imports where the next task finds it, and return the path."""
    return str(build_py_files(gettempdir()))  # on one worker; else a folder they share


with DAG("binlog_plain_spark_submit", schedule="@hourly", catchup=False, max_active_runs=1):
    changes = BinlogPositionSensor(
        task_id="changes", source=SHOP, deferrable=True, poke_interval=30
    )
    stage = BinlogExtractOperator(
        task_id="stage",
        source=SHOP,
        start=changes.output,
        tables=["shop.*"],
        staging_path=STAGING,
    )
    merge = SparkSubmitOperator(
        task_id="merge",
        application=str(APPLICATION),
        py_files="{{ ti.xcom_pull(task_ids='build_zip') }}",
        application_args=merge_arguments(
            source=SHOP.name,
            staging_path=STAGING,
            through="{{ ti.xcom_pull(task_ids='stage')['last_sequence'] }}",
            format="delta",
            lake="s3://lake/tables",
        ),
        conf=delta_conf(),
    )
    checkpoint = BinlogCheckpointOperator(task_id="checkpoint", staged=stage.output)
    stage >> build_zip() >> merge >> checkpoint
