"""Columns that an Iceberg table of format version 3 gets together with their initial default.

Rows from before read it, so that no file is written. Spark's ALTER TABLE has no word for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.target.iceberg.table import IcebergTable

_FORMAT_VERSION = 3


def has_initial_defaults(table: IcebergTable) -> bool:
    """Whether the table's format knows initial defaults."""
    return int(table.java.operations().current().formatVersion()) >= _FORMAT_VERSION


def add_columns(
    session: SparkSession,
    table: IcebergTable,
    types: Mapping[str, str],
    defaults: Mapping[str, str],
) -> None:
    """Add columns in one commit.

    Args:
        session: The table's session.
        table: The table as it is now.
        types: Their names and Spark types.
        defaults: SQL of what rows from before hold in them; not NULL.
    """
    util = java_class(session, "org.apache.iceberg.spark.SparkSchemaUtil")
    spark_types = java_class(session, "org.apache.spark.sql.types.DataType")
    update = table.java.updateSchema()
    for name, type_ in types.items():
        java_type = util.convert(spark_types.fromDDL(type_))
        literal = _literal(session, type_, defaults[name]).to(java_type)
        # Without a parent a name with a dot would be one of a nested column.
        update = update.addColumn(None, name, java_type, None, literal)
    update.commit()


def _literal(session: SparkSession, type_: str, sql: str) -> Any:
    """Return a value as a literal of Iceberg that becomes one of the type."""
    value, text = session.sql(f"SELECT {sql}, CAST({sql} AS string)").collect()[0]
    literals = java_class(session, "org.apache.iceberg.expressions.Expressions")
    if type_ == "binary":
        return literals.lit(java_class(session, "java.nio.ByteBuffer").wrap(bytes(value)))
    if type_ in ("boolean", "int", "bigint", "float", "double"):
        return literals.lit(value)
    if type_ in ("timestamp", "timestamp_ntz"):
        # The session's time zone is UTC.
        text = text.replace(" ", "T") + ("+00:00" if type_ == "timestamp" else "")
    return literals.lit(text)
