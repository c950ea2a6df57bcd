"""Spark sessions of the merge: what a cluster has to be given, and what the merge sets by itself.

What values depend on is pinned, whatever the cluster's defaults are. What only makes a commit cheap
gives way to a setting of the user's.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_EXTENSIONS = "spark.sql.extensions"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def delta_conf() -> dict[str, str]:
    """Return the settings that make Delta tables readable and writable."""
    return {
        _EXTENSIONS: _DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def iceberg_conf(catalog: str, warehouse: str) -> dict[str, str]:
    """Return the settings of an Iceberg catalog that is a folder.

    Such a catalog commits by renaming a file: safe on a file system and on HDFS; on an object store
    only while one job at a time writes. Any other catalog of Iceberg serves as well.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    return {
        _EXTENSIONS: _ICEBERG_EXTENSION,
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "hadoop",
        f"{prefix}.warehouse": warehouse,
        # Each session of the job would keep its own stale copy of a table for half a minute.
        f"{prefix}.cache-enabled": "false",
    }


_PINNED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # What is collected on the driver, and sent back, is neither shifted nor rebased.
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    # Else a backslash in a key or a default would stand for two.
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.caseSensitive": "false",
    # A missing or damaged file is an error, whatever the cluster's defaults are.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    # Else `${env:...}` in a name or a default would become a variable of the job's environment.
    "spark.sql.variable.substitute": "false",
    # Else a name in quotes would be a pattern.
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # PySpark takes no 0, Spark's word for any number.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Few rows of Arrow's are part of a plan.
    "spark.sql.execution.arrow.localRelationThreshold": "48MB",
}
_CHEAP = {
    # Delta sorts the few files of a small table's log into 50 partitions, at each commit.
    "spark.databricks.delta.snapshotPartitions": "1",
    # The files that are read are known: no job is needed to list them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
_ADAPTIVE = "spark.sql.adaptive.enabled"
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
_FILTER = "spark.sql.optimizer.runtime.bloomFilter."
_PARTITIONS = "spark.sql.shuffle.partitions"
# A plan for a handful of rows runs sooner than it is compiled.
_FEW = {
    _ADAPTIVE: "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # Few files are there, and a job to find those whose rows change takes longer than to write all.
    "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false",
}
_MANY = {_ADAPTIVE: "true"}

_PARTITION_BYTES = 32 << 20
_PARTITIONS_MAX = 1000

FILTER_KEYS_MAX = 8 << 20
"""The most keys that a Bloom filter may have: Spark allows it eight bits for each of so many."""

# Two of a hundred keys that it does not have pass it.
_BITS_PER_KEY = 8


def job_settings() -> dict[str, str]:
    """Return the settings of the job, which has to start with them, where the user has none.

    Delta reads a table's log with the settings of the job's first session, whoever asks for it.
    """
    return _CHEAP | {
        # Small tables do not wait for the tasks of a large one.
        "spark.scheduler.mode": "FAIR",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        # Else PySpark sends the JVM the line of Python of each expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


def configure(session: SparkSession, settings: Mapping[str, str], *, few: bool) -> None:
    """Prepare a session of the merge; `few` is whether few rows are read, and few are there."""
    for name, value in (_PINNED | dict(settings) | (_FEW if few else _MANY)).items():
        # Spark warns of each deprecated one that is set, whatever its value is.
        if session.conf.get(name, None) != value:
            session.conf.set(name, value)
    for name, value in _CHEAP.items():
        if session.conf.get(name, None) is None:
            session.conf.set(name, value)


def share(session: SparkSession) -> None:
    """Give this thread its share of Spark, whatever the others run."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)


def set_partitions(session: SparkSession, size: int) -> None:
    """Prepare shuffles of as many bytes in memory."""
    session.conf.set(_PARTITIONS, str(count_partitions(size)))


def raise_partitions(session: SparkSession, size: int) -> None:
    """Prepare shuffles of as many bytes, unless what is set is near: rows may lie so already."""
    wanted = count_partitions(size)
    if wanted >= 2 * int(str(session.conf.get(_PARTITIONS))):
        session.conf.set(_PARTITIONS, str(wanted))


@contextmanager
def fixed_partitions(session: SparkSession) -> Iterator[None]:
    """Let the plans of the body say how their rows are partitioned: adaptive ones do not."""
    with _overridden(session, {_ADAPTIVE: "false"}):
        yield


@contextmanager
def filtered_target(session: SparkSession, keys: int) -> Iterator[None]:
    """Let a MERGE of the body drop most rows of the target that none of the keys has, unshuffled.

    Spark computes a Bloom filter of the source's keys first, if the source is what a comparison
    selects of some rows, and no side is small enough to be broadcast. There are `keys` of them, at
    most `FILTER_KEYS_MAX`.
    """
    wanted = {
        "enabled": "true",
        "applicationSideScanSizeThreshold": "0",
        "creationSideThreshold": str((1 << 63) - 1),
        "expectedNumItems": str(keys),
        "maxNumItems": str(FILTER_KEYS_MAX),
        "numBits": str(_BITS_PER_KEY * keys),
        "maxNumBits": str(_BITS_PER_KEY * FILTER_KEYS_MAX),
    }
    settings = {_FILTER + name: value for name, value in wanted.items()}
    with _overridden(session, settings | {_BROADCAST: "-1"}):
        yield


@contextmanager
def _overridden(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: str(session.conf.get(name)) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def count_partitions(size: int) -> int:
    """Return in how many parts bytes in memory are computed."""
    return min(max(math.ceil(size / _PARTITION_BYTES), 1), _PARTITIONS_MAX)


class Sessions:
    """The sessions of a merge, with what the lake needs in each of them."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self._spark = spark
        self._settings = dict(settings)
        self._made: dict[tuple[str, bool], SparkSession] = {}

    def get(self, *, few: bool = False) -> SparkSession:
        """Return the session of threads of this name; `few` is for few rows, merged into few."""
        key = threading.current_thread().name, few
        if key not in self._made:
            made = self._spark.newSession()
            configure(made, self._settings, few=few)
            self._made[key] = made
        return self._made[key]
