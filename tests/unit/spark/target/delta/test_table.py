"""What a Delta table contains, whoever wrote it last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.delta.log import check_commits
from airflow_provider_binlog.spark.target.delta.table import DeltaLake
from airflow_provider_binlog.spark.target.jvm import java_class
from airflow_provider_binlog.table_options import TableRules

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_table_with_a_checkpoint_and_without_a_checksum_is_read_in_any_thread(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As a RESTORE or another engine leaves it, in a job that has not read it yet."""
    target = f"delta.`{tmp_path}/orders`"
    properties = "TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    spark.sql(f"CREATE TABLE {target} (id INT) USING delta {properties}")
    spark.sql(f"INSERT INTO {target} VALUES (1)")
    log = tmp_path / "orders/_delta_log"
    assert list(log.glob("*.checkpoint*"))
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    java_class(spark, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    lake = DeltaLake("shop", str(tmp_path), TableRules(), {})

    with ThreadPoolExecutor(1) as thread:
        state = thread.submit(lake.find_state, spark.newSession(), target).result()

    assert state is not None
    assert (state.files, state.is_empty) == (1, False)


@pytest.mark.parametrize("feature", ["catalogManaged", "coordinatedCommits-preview"])
def test_a_table_whose_catalog_manages_its_commits_is_refused(feature: str) -> None:
    check_commits({"minWriterVersion": 2}, "t")
    check_commits({"writerFeatures": ["columnMapping"]}, "t")

    with pytest.raises(MergeError, match=f"managed by its catalog.*target=t, features={feature}"):
        check_commits({"writerFeatures": ["columnMapping", feature]}, "t")
