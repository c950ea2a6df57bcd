"""The one Spark of a test run: both formats, and catalogs of Iceberg tables: `lake`, `s3lake`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf
from tests.services.jars import catalog_jars
from tests.support.spark_conf import join_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures.spark import SparkEnvironment

_SESSIONS: list[SparkSession] = []
_READERS: list[SparkSession] = []

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    # As the merge runs few rows itself; here also what reads, and Delta where it reads its log.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}


def shared_session(environment: SparkEnvironment) -> SparkSession:
    """Return the session, which ends with the process: the first call starts it."""
    from pyspark.sql import SparkSession

    if _SESSIONS:
        return _SESSIONS[0]
    os.environ.update(environment.variables)
    os.environ.pop("SPARK_HOME", None)
    folder = Path(environment.conf["spark.local.dir"])
    folder.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master("local[2]").appName("tests")
    conf = join_confs(
        environment.conf,
        delta_conf(),
        iceberg_conf("lake", mkdtemp(dir=folder)),
        iceberg_conf("s3lake", "s3a://lake/iceberg"),
        _LOCAL,
    )
    for name, value in conf.items():
        builder = builder.config(name, value)
    _SESSIONS.append(builder.getOrCreate())
    return _SESSIONS[0]


def reading_session(spark: SparkSession) -> SparkSession:
    """Return the session in which tests read lake tables: instants are shown in UTC."""
    if not _READERS:
        _READERS.append(spark.newSession())
        _READERS[0].conf.set("spark.sql.session.timeZone", "UTC")
    return _READERS[0]


def add_catalog(spark: SparkSession, conf: dict[str, str]) -> None:
    """Let all sessions know an Iceberg catalog, by its settings."""
    context: Any = spark.sparkContext._jsc
    for name, value in conf.items():
        if name == "spark.sql.extensions":
            continue
        # Each merge has a session of its own, with the settings of the application; these two may
        # have been in use before.
        context.sc().conf().set(name, value)
        for session in (spark, reading_session(spark)):
            session.conf.set(name, value)


def load_catalog_drivers(spark: SparkSession) -> None:
    """Let the session's catalogs find the drivers of JDBC, beside the classes of Iceberg."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in catalog_jars():
        loader.addURL(jvm.java.net.URL(f"file:{jar}"))
    for driver in ("org.mariadb.jdbc.Driver", "org.sqlite.JDBC"):
        jvm.java.lang.Class.forName(driver, True, loader)
