"""Another type for a column of an Iceberg table, where Iceberg does not change it in place.

The column is copied into one of the new type, which takes its name in the commit that drops it:
whoever reads the table finds the values at every moment, and a merge that is killed leaves a copy
which the next one drops. Rows that someone else commits in between are not in the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.spark.plan.evolution import COPY
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.iceberg.table import commit_properties, load_table
from airflow_provider_binlog.spark.target.properties import claim_again
from airflow_provider_binlog.spark.target.state import COPIED, read_copied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


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
    found = claim_again(table.properties, {ids[name]: ids[COPY]})
    if since:
        found |= copied_property(read_copied(table.properties) | {ids[COPY]})
    for property_, claims in found.items():
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
