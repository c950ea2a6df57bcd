"""A Spark, a staging root and a lake that can be put back to an earlier state, to be measured."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf, job_settings
from airflow_provider_binlog.table_options import TableRules
from tests.services.jars import postgresql_jars, spark_home, spark_jars
from tests.services.java import java_home
from tests.support.merges import merge_all
from tests.support.spark_conf import join_confs
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.job.options import Report
    from airflow_provider_binlog.spark.target.spark_target import LakeFormat

CATALOG = "lake"
THREADS = 4


@dataclass
class Cost:
    """What something took: by the clock, and of the processors, of the JVM and of Python."""

    seconds: float = 0.0
    cpu: float = 0.0


class BenchLake:
    """Staging root and lake of one format below a folder.

    Args:
        spark: The session.
        format_: `delta` or `iceberg`.
        folder: For both of them.
    """

    def __init__(self, spark: SparkSession, format_: str, folder: Path) -> None:
        self.spark, self.format, self.folder = spark, format_, folder
        self.store = open_store(f"file://{folder}/live/staging")

    @property
    def lake(self) -> LakeFormat:
        """The tables, as the merge names them."""
        from airflow_provider_binlog.spark.target.delta.table import DeltaLake
        from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake

        if self.format == "iceberg":
            return IcebergLake("bare", CATALOG, TableRules(), {})
        return DeltaLake("bare", f"file://{self.folder}/live/lake", TableRules(), {})

    def merge(self, source: str, *, tables: Sequence[str] = ()) -> Report:
        """Merge what is staged of some tables; of all if none are given.

        Raises:
            RuntimeError: It failed.
        """
        options = MergeOptions(
            staging=f"file://{self.folder}/live/staging",
            source=source,
            format=self.format,
            lake=CATALOG if self.format == "iceberg" else f"file://{self.folder}/live/lake",
            tables=tables,
            threads=THREADS,
            initial_load="changes_only",
        )
        report = merge_all(self.spark, options)
        if report.failed:
            raise RuntimeError(report.to_json())
        return report

    def save(self, name: str) -> None:
        """Keep the present state."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.folder / "live", self.folder / name)

    def restore(self, name: str) -> None:
        """Put everything back to a state that was kept."""
        shutil.rmtree(self.folder / "live")
        shutil.copytree(self.folder / name, self.folder / "live")
        # It would take the older log for damaged.
        jvm: Any = self.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    @contextmanager
    def measure(self) -> Iterator[Cost]:
        """Measure what the body takes."""
        jvm: Any = self.spark.sparkContext._jvm
        jvm.System.gc()
        cost = Cost()
        began, busy = time.perf_counter(), cpu_seconds(self.spark)
        yield cost
        cost.seconds, cost.cpu = time.perf_counter() - began, cpu_seconds(self.spark) - busy


def cpu_seconds(spark: SparkSession) -> float:
    """Return the processor time of the JVM and of Python, so far."""
    gateway: Any = spark.sparkContext._gateway
    stat = Path(f"/proc/{gateway.proc.pid}/stat").read_text(encoding="ascii")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") + time.process_time()


def start_spark(format_: str, folder: Path, *, memory: str) -> SparkSession:
    """Start a Spark on two cores, with no settings but those of a merge job."""
    from pyspark.sql import SparkSession

    os.environ |= {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(spark_home())}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warehouse = f"file://{folder}/live/lake"
    conf = join_confs(
        job_settings(),
        delta_conf(),
        iceberg_conf(CATALOG, warehouse) if format_ == "iceberg" else {},
        {
            "spark.jars": ",".join(str(jar) for jar in spark_jars() + postgresql_jars()),
            "spark.driver.memory": memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(folder / "spark"),
            "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
        },
    )
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
