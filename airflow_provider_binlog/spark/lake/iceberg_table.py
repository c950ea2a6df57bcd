"""Iceberg's own view of a table: the way to the JVM is PySpark's `_jvm`."""

# ruff: noqa: SLF001

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_table(session: SparkSession, target: str) -> Any:
    """Return Iceberg's table of a quoted name, as it is now."""
    jvm: Any = session.sparkContext._jvm
    util = jvm.org.apache.iceberg.spark.Spark3Util
    return util.loadIcebergTable(session._jsparkSession, target)


def column_ids(table: Any) -> dict[str, str]:
    """Return the field ids of a table's columns by name."""
    return {each.name(): str(each.fieldId()) for each in table.schema().columns()}
