"""Iceberg tables: the applied mark is a property of the snapshot that holds the data.

Iceberg does not look at it. That two merges of one range do not both count is up to its conflict
detection, which needs serializable isolation and a MERGE that may update (an insert-only one is
committed as an append, without any check); and that a merge did not build on another's state is
checked after each commit.
"""

# ruff: noqa: SLF001  The way to the JVM is PySpark's `_jvm`.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.errors import MergeError, TargetConflictError
from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.lake.column_changes import alter_statements
from airflow_provider_binlog.spark.lake.table_format import Applied, Commit, TargetState
from airflow_provider_binlog.spark.mark import Mark
from airflow_provider_binlog.spark.names import catalog_name, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_provider_binlog.spark.plan.evolution import Evolution

APPLIED = "binlog.applied"
"""Property of a snapshot: the applied mark. As a table property a copy, for when the snapshot
expired."""

_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property"
_ISOLATION = "write.merge.isolation-level"
_COUNTED = "spark.merge-into.num-target-rows"

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
        catalog: The catalog's name in Spark's settings.
        template: Name of a table in it, from `{database}` and `{table}`.
        properties: Table properties of new tables.
    """

    def __init__(self, catalog: str, template: str | None, properties: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._template = template or "{database}.{table}"
        self._properties = dict(properties)

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of a table; see `Lake`."""
        name = catalog_name(self._template, database=database, table=table)
        return f"{quote_identifier(self._catalog)}.{name}"

    def find_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the state of a table; see `Lake`."""
        if not session.catalog.tableExists(target):
            return None
        table = _load(session, target)
        properties = dict(table.properties())
        if properties.get(_ISOLATION, "serializable") != "serializable":
            raise MergeError(
                "two merges at once would both be committed: set the property to 'serializable'",
                target=target,
                property=_ISOLATION,
                found=properties[_ISOLATION],
            )
        snapshot = table.currentSnapshot()
        summary = dict(snapshot.summary()) if snapshot is not None else {}
        fields = session.table(target).schema
        return TargetState(
            columns={field.name: field.dataType.simpleString() for field in fields},
            column_ids={each.name(): str(each.fieldId()) for each in table.schema().columns()},
            properties=properties,
            applied=_applied_mark(table, properties),
            files=int(summary.get("total-data-files", 0)),
            bytes=int(summary.get("total-files-size", 0)),
            is_empty=snapshot is None or summary.get("total-data-files") == "0",
            snapshot=int(snapshot.snapshotId()) if snapshot is not None else None,
        )

    def create(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        """Make an empty table; see `Lake`."""
        _check_names(target, columns)
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {target.rpartition('.')[0]}")
        everything = _NEW_TABLE | self._properties | dict(properties)
        session.sql(
            merge_sql.create_table(
                target, provider="iceberg", columns=columns, properties=everything
            )
        )

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> None:
        """Change the columns; see `Lake`."""
        _check_names(target, [*evolution.added, *evolution.renamed.values()])
        for statement in alter_statements(target, state.columns, evolution):
            session.sql(statement)

    def merge(
        self,
        session: SparkSession,
        target: str,
        state: TargetState,
        statement: str,
        applied: Applied,
    ) -> Commit | None:
        """Run a MERGE; see `Lake`."""
        self._set_applied(session, applied)
        session.sql(statement).collect()
        return self._finish(session, target, state, applied)

    def overwrite(
        self, session: SparkSession, target: str, state: TargetState, query: str, applied: Applied
    ) -> Commit | None:
        """Replace every row; see `Lake`."""
        self._set_applied(session, applied)
        writer = session.sql(query).writeTo(target).option("isolation-level", "serializable")
        if state.snapshot is not None:
            writer = writer.option("validate-from-snapshot-id", str(state.snapshot))
        writer.overwrite(F.expr("true"))
        return self._finish(session, target, state, applied)

    def _set_applied(self, session: SparkSession, applied: Applied) -> None:
        prefix = f"{_SNAPSHOT_PROPERTY}.binlog"
        session.conf.set(f"{prefix}.source", applied.source)
        session.conf.set(f"{prefix}.stop", applied.stop)
        session.conf.set(f"{_SNAPSHOT_PROPERTY}.{APPLIED}", str(applied.mark))

    def _finish(
        self, session: SparkSession, target: str, state: TargetState, applied: Applied
    ) -> Commit:
        """Check what the commit was built on, and copy the applied mark to the properties.

        Raises:
            TargetConflictError: Another merge came between `state` and the commit. The applied
                mark is that of the last snapshot that has one: a retry repeats what is lost.
        """
        since = list(_snapshots(_load(session, target), until=state.snapshot))
        marked = [summary for summary in map(_summary, since) if APPLIED in summary]
        if len(marked) != 1:
            raise TargetConflictError(
                "another merge committed to the target meanwhile", target=target
            )
        session.sql(merge_sql.set_properties(target, {APPLIED: str(applied.mark)}))
        return Commit(*(_count(marked[0], each) for each in ("inserted", "updated", "deleted")))


def _check_names(target: str, columns: Iterable[str]) -> None:
    taken = sorted(name for name in columns if name.lower() in _RESERVED)
    if taken:
        raise MergeError(
            "Iceberg keeps this name for itself: rename the column at the source, or use Delta",
            target=target,
            column=",".join(taken),
        )


def _load(session: SparkSession, target: str) -> Any:
    jvm: Any = session.sparkContext._jvm
    util = jvm.org.apache.iceberg.spark.Spark3Util
    return util.loadIcebergTable(session._jsparkSession, target)


def _snapshots(table: Any, until: int | None) -> Iterator[Any]:
    """Yield the current snapshot and its ancestors, the newest first, down to `until` exclusive."""
    snapshot = table.currentSnapshot()
    while snapshot is not None and snapshot.snapshotId() != until:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


def _summary(snapshot: Any) -> dict[str, str]:
    return dict(snapshot.summary())


def _applied_mark(table: Any, properties: Mapping[str, str]) -> Mark:
    """Return the applied mark: that of the newest snapshot that has one, not the highest one found.

    A compaction's snapshot has none. After a rollback the lower one is right.
    """
    for snapshot in _snapshots(table, until=None):
        summary = _summary(snapshot)
        if APPLIED in summary:
            return Mark.parse(summary[APPLIED])
    return Mark.parse(properties.get(APPLIED, "0"))


def _count(summary: Mapping[str, str], action: str) -> int | None:
    value = summary.get(f"{_COUNTED}-{action}")
    return None if value is None else int(value)
