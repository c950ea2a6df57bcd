"""Iceberg tables: the applied mark is a property of the snapshot that holds the data.

Iceberg does not look at it. That two merges of one range do not both count is up to its conflict
detection, which needs serializable isolation and a MERGE that may update (an insert-only one is
committed as an append, without any check); and that a merge did not build on another's state is
checked after each commit.

A column whose type Iceberg does not change in place is copied into one of the new type, which takes
its name in the commit that drops it: whoever reads the table finds the values at every moment, and
a merge that is killed leaves a copy which the next one drops. Rows that someone else commits in
between are not in the copy.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.errors import MergeError, TargetConflictError
from airflow_provider_binlog.spark.names import target_name
from airflow_provider_binlog.spark.plan.evolution import COPY
from airflow_provider_binlog.spark.staged.types import widens
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.iceberg.table import (
    APPLIED,
    CONTAINS_TABLE,
    LOADED,
    WRITER,
    commit_properties,
    find_contents,
    find_table,
    load_table,
)
from airflow_provider_binlog.spark.target.jvm import java_class
from airflow_provider_binlog.spark.target.properties import claim_again, count_from_1
from airflow_provider_binlog.spark.target.protocol import Commit
from airflow_provider_binlog.spark.target.spark_target import Namespaces
from airflow_provider_binlog.spark.target.sql import alter_statements
from airflow_provider_binlog.spark.target.state import (
    COPIED,
    TargetState,
    read_contents,
    read_copied,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.plan.evolution import Evolution
    from airflow_provider_binlog.spark.target.iceberg.table import IcebergTable
    from airflow_provider_binlog.spark.target.spark_target import Applied
    from airflow_provider_binlog.table_options import TableRules

_ISOLATION = "write.merge.isolation-level"
_COUNTED = "spark.merge-into.num-target-rows"
# What REST catalogs answer that create no table with its rows: AWS Glue's, and that of S3 Tables.
_UNSTAGED = re.compile(r"\bstage[-_ ]?create\b.*\bnot supported", re.IGNORECASE)

# What every Iceberg table has already.
_RESERVED = {
    "_deleted",
    "_file",
    "_last_updated_sequence_number",
    "_partition",
    "_pos",
    "_row_id",
    "_spec_id",
}

_NEW_TABLE = {
    "format-version": "2",
    # A small change rewrites no large file: it writes what is new, and which rows are deleted.
    "write.delete.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    _ISOLATION: "serializable",
}


class IcebergLake:
    """Iceberg tables of one catalog.

    Args:
        source: Name of the source.
        catalog: The catalog's name in Spark's settings.
        options: Those of the tables: their names in it.
        properties: Table properties of new tables.
    """

    def __init__(
        self, source: str, catalog: str, options: TableRules, properties: Mapping[str, str]
    ) -> None:
        self._source = source
        self._catalog = catalog
        self._options = options
        self._properties = dict(properties)
        self._namespaces = Namespaces()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a session; see `LakeFormat`."""
        # Each session would keep its own stale copy of a table for half a minute.
        return {f"spark.sql.catalog.{self._catalog}.cache-enabled": "false"}

    @property
    def filters(self) -> bool:
        """Whether large targets are filtered by the keys; see `LakeFormat`."""
        # A MERGE shuffles the target however few the source rows are.
        return True

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of a table; see `LakeFormat`."""
        return target_name("iceberg", self._catalog, self._options, database, table)

    def find_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the state of a table; see `LakeFormat`."""
        table = find_table(session, target)
        if table is None:
            return None
        properties = table.properties
        if properties.get(_ISOLATION, "serializable") != "serializable":
            raise MergeError(
                "two merges at once would both be committed: set the property to 'serializable'",
                target=target,
                property=_ISOLATION,
                found=properties[_ISOLATION],
            )
        snapshot = table.current
        current = None if snapshot is None else snapshot.id
        summary = {} if snapshot is None else snapshot.summary
        found = find_contents(current, table.find_snapshot, properties, source=self._source)
        contents, unknown = read_contents(found)
        return TargetState(
            columns=table.columns,
            column_ids=table.column_ids,
            properties=properties,
            contents=contents,
            files=int(summary.get("total-data-files", 0)),
            bytes=int(summary.get("total-files-size", 0)),
            is_empty=snapshot is None or summary.get("total-data-files") == "0",
            snapshot=current,
            unknown=unknown,
        )

    def create(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        """Make an empty table; see `LakeFormat`."""
        wanted = self._prepare(session, target, columns, properties)
        session.sql(
            merge_sql.create_table(target, provider="iceberg", columns=columns, properties=wanted)
        )

    def new_column_ids(self, columns: Iterable[str]) -> dict[str, str]:
        """Return the ids that the columns of a new table get; see `LakeFormat`."""
        return count_from_1(columns)

    def create_as(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
        applied: Applied,
    ) -> None:
        """Make a table with rows; see `LakeFormat`."""
        wanted = self._prepare(session, target, columns, properties)
        statement = merge_sql.create_table_as(
            target, provider="iceberg", columns=columns, properties=wanted
        )
        try:
            with commit_properties(session, _said_of(applied, ())):
                session.sql(statement).collect()
        except (Py4JJavaError, PySparkException) as error:
            if not _UNSTAGED.search(str(error)):
                raise
            self.create(session, target, columns, properties)
            self._fill(session, target, columns, applied)

    def _fill(
        self, session: SparkSession, target: str, columns: Iterable[str], applied: Applied
    ) -> None:
        """Give a table that was just created its rows."""
        state = self.find_state(session, target)
        if state is None:
            raise TargetConflictError("another writer dropped the target", target=target)
        query = merge_sql.rows_to_keep({name: at for at, name in enumerate(columns)})
        self.overwrite(session, target, state, query, applied)

    def _prepare(
        self,
        session: SparkSession,
        target: str,
        columns: Iterable[str],
        properties: Mapping[str, str],
    ) -> dict[str, str]:
        """Make the namespace of a new table; return all of the table's properties."""
        _check_names(target, columns)
        self._namespaces.create(session, target.rpartition(".")[0])
        return _NEW_TABLE | self._properties | dict(properties)

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> dict[str, str]:
        """Change the columns; see `LakeFormat`."""
        _check_names(target, [*evolution.added, *evolution.renamed.values()])
        before = {name: state.columns[old] for name, old in evolution.columns.items()}
        wider = evolution.widened
        in_place = {name: type_ for name, type_ in wider.items() if widens(before[name], type_)}
        replaced = [evolution.columns[name] for name in wider if name not in in_place]
        _check_dependants(session, target, state, [*evolution.dropped, *replaced])
        filled, added = dict(evolution.filled), dict(evolution.added)
        with_default = {name: added[name] for name in filled if name in added}
        if with_default and has_initial_defaults(load_table(session, target)):
            filled = {name: sql for name, sql in filled.items() if name not in with_default}
            added = {name: type_ for name, type_ in added.items() if name not in with_default}
        else:
            with_default = {}
        statements = replace(evolution, widened=in_place, added=added)
        for statement in alter_statements(target, state.columns, statements):
            session.sql(statement)
        copied = state.copied
        for name in (name for name in wider if name not in in_place):
            copied = copy_column(session, target, name, wider[name], copied=copied)
        if with_default:
            add_columns(session, load_table(session, target), with_default, evolution.filled)
        return filled

    def merge(
        self,
        session: SparkSession,
        target: str,
        state: TargetState,
        statement: str,
        applied: Applied,
    ) -> Commit | None:
        """Run a MERGE; see `LakeFormat`."""
        with commit_properties(session, _said_of(applied, state.copied)):
            session.sql(statement).collect()
        return _check_commit(session, target, state)

    def overwrite(
        self, session: SparkSession, target: str, state: TargetState, query: str, applied: Applied
    ) -> Commit | None:
        """Replace every row; see `LakeFormat`."""
        writer = session.sql(query).writeTo(target).option("isolation-level", "serializable")
        if state.snapshot is not None:
            writer = writer.option("validate-from-snapshot-id", str(state.snapshot))
        with commit_properties(session, _said_of(applied, state.column_ids.values())):
            writer.overwrite(F.expr("true"))
        return _check_commit(session, target, state)


def _said_of(applied: Applied, copied: Iterable[str]) -> dict[str, str]:
    """Return the properties of a commit of rows."""
    return {
        WRITER: applied.source,
        "binlog.stop": applied.stop,
        APPLIED: str(applied.mark),
        CONTAINS_TABLE: applied.table or "",
        LOADED: applied.snapshot,
    } | copied_property(copied)


def _check_commit(session: SparkSession, target: str, state: TargetState) -> Commit:
    """Return what a commit did, if it was built on `state`.

    Raises:
        TargetConflictError: Another merge came in between. The table's mark is that of the last
            snapshot that has one, also if that is the smaller one: a retry merges what is missing.
    """
    since = load_table(session, target).snapshots(until=state.snapshot)
    marked = [snapshot for snapshot in since if APPLIED in snapshot.summary]
    if len(marked) != 1:
        raise TargetConflictError("another merge committed to the target meanwhile", target=target)
    (snapshot,) = marked
    inserted, updated, deleted = (
        _count(snapshot.summary, action) for action in ("inserted", "updated", "deleted")
    )
    return Commit(
        inserted=inserted,
        updated=updated,
        deleted=deleted,
        version=snapshot.id,
    )


def _check_names(target: str, columns: Iterable[str]) -> None:
    taken = sorted(name for name in columns if name.lower() in _RESERVED)
    if taken:
        raise MergeError(
            "Iceberg keeps this name for itself: rename the column at the source, or use Delta",
            target=target,
            column=",".join(taken),
        )


def _check_dependants(
    session: SparkSession, target: str, state: TargetState, lost: Sequence[str]
) -> None:
    """Refuse to drop columns without which Iceberg writes no row any more.

    It finds no partition without one that the table is partitioned by, or was, and no order.

    Raises:
        MergeError: The table depends on one of them.
    """
    if not lost:
        return
    table = load_table(session, target)
    for ids, how, repair in (
        (table.partitioned_by, "is, or was, partitioned", "drop the lake table, and load"),
        (table.ordered_by, "is sorted or identified", "change that, or drop the table and load"),
    ):
        if needed := [name for name in lost if state.column_ids[name] in ids]:
            raise MergeError(
                f"the lake table {how} by a column that was dropped, or got another type: {repair} "
                "it from a snapshot",
                target=target,
                column=",".join(needed),
            )


def _count(summary: Mapping[str, str], action: str) -> int | None:
    value = summary.get(f"{_COUNTED}-{action}")
    return None if value is None else int(value)


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
