"""Another type for a column of an Iceberg table, where Iceberg does not change it in place.

The column is copied into one of the new type, which takes its name in the commit that drops it:
whoever reads the table finds the values at every moment, and a merge that is killed leaves a copy
which the next one drops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.lake.iceberg_table import load_table
from airflow_provider_binlog.spark.lake.table_format import claim_again
from airflow_provider_binlog.spark.plan.evolution import COPY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy_column(session: SparkSession, target: str, name: str, type_: str) -> None:
    """Give a column of an Iceberg table a type that holds all of its values.

    Args:
        session: The table's session.
        target: Quoted name of the table.
        name: The column's name.
        type_: The new type.
    """
    session.sql(merge_sql.add_columns(target, {COPY: type_}))
    session.sql(merge_sql.set_column(target, COPY, name)).collect()
    table = load_table(session, target)
    ids = table.column_ids
    transaction = table.java.newTransaction()
    transaction.updateSchema().deleteColumn(name).renameColumn(COPY, name).commit()
    found = claim_again(table.properties, {ids[name]: ids[COPY]})
    for property_, claims in found.items():
        transaction.updateProperties().set(property_, claims).commit()
    transaction.commitTransaction()
