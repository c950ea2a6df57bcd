"""Changes of Iceberg columns that Spark's ALTER TABLE does not have.

A column whose type Iceberg does not change in place is copied into one of the new type, which takes
its name in the commit that drops it: whoever reads the table finds the values at every moment, and
a merge that is killed leaves a copy which the next one drops. Rows that someone else commits in
between are not in the copy.

In a table of format version 3 a column is added with its initial default: rows from before read it,
and no file is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.spark.plan.evolution import COPY
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.iceberg.table import commit_properties, load_table
from airflow_provider_binlog.spark.target.jvm import java_class
from airflow_provider_binlog.spark.target.properties import claim_again
from airflow_provider_binlog.spark.target.state import COPIED, read_copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.target.iceberg.table import IcebergTable

_FORMAT_VERSION = 3


def copied_property(copied: Iterable[str]) -> dict[str, str]:
    """Return the property that says which copied columns have their values, by their ids."""
    return {COPIED: ",".join(sorted(copied))}


def copy_column(
    session: SparkSession, target: str, name: str, type_: str, *, copied: frozenset[str]
) -> frozenset[str]:
    """Give a column of an Iceberg table a type that holds all of its values.

    Args:
        session: The table's session.
        target: Quoted name of the table.
        name: The column's name.
        type_: The new type.
        copied: Columns that were copied before, and have their values.

    Returns those columns, and the new one.

    Raises:
        TargetConflictError: Another merge committed meanwhile. If it did so in the last moment, the
            property says that the column was lost, and the next merge makes the table `stale`.
    """
    session.sql(merge_sql.add_columns(target, {COPY: type_}))
    table = load_table(session, target)
    before, ids = table.current, table.column_ids
    copied |= {ids[COPY]}
    with commit_properties(session, copied_property(copied)):
        session.sql(merge_sql.set_column(target, COPY, name)).collect()
    table = load_table(session, target)
    written = table.current
    since = [*table.snapshots(until=None if before is None else before.id)]
    if len(since) > 1:
        raise _conflict(target, name)
    transaction = table.java.newTransaction()
    transaction.updateSchema().deleteColumn(name).renameColumn(COPY, name).commit()
    properties = claim_again(table.properties, {ids[name]: ids[COPY]})
    if since:
        properties |= copied_property(read_copied(table.properties) | {ids[COPY]})
    for property_, claims in properties.items():
        transaction.updateProperties().set(property_, claims).commit()
    transaction.commitTransaction()
    swapped = load_table(session, target)
    if swapped.current != written:
        lost = claim_again(swapped.properties, {ids[COPY]: ids[name]})
        session.sql(merge_sql.set_properties(target, lost))
        raise _conflict(target, name)
    return copied


def _conflict(target: str, column: str) -> TargetConflictError:
    return TargetConflictError(
        "another merge committed to the target while a column was copied",
        target=target,
        column=column,
    )


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
