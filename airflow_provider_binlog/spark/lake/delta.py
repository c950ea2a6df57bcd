"""Delta tables: the applied mark is a transaction id, which Delta commits and checks."""

# ruff: noqa: SLF001, ARG002  The way to the JVM is `_jvm`; Delta checks without the state.

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from airflow_provider_binlog.names import encode_name
from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.lake.column_changes import alter_statements
from airflow_provider_binlog.spark.lake.table_format import Applied, Commit, TargetState
from airflow_provider_binlog.spark.mark import NOTHING, Mark
from airflow_provider_binlog.spark.names import catalog_name, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.plan.evolution import Evolution

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
# Otherwise every later write of the session would be skipped as one that was done.
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
# The source rows are computed once and kept already.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"

_NEW_TABLE = {
    # Columns can be dropped and renamed, and have any name.
    "delta.columnMapping.mode": "name",
}
_STATEMENT_BITS = 21
_COLUMN_ID = "delta.columnMapping.id"


class DeltaLake:
    """Delta tables below a folder, or in a catalog.

    Args:
        source: Name of the source; part of the transaction id.
        root: Folder of the tables, `<root>/<database>/<table>`, where no `template` is given.
        template: Name in a catalog, from `{database}` and `{table}`.
        properties: Table properties of new tables.
    """

    def __init__(
        self, source: str, root: str, template: str | None, properties: Mapping[str, str]
    ) -> None:
        self._application = f"binlog:{source}"
        self._root = root.rstrip("/")
        self._template = template
        self._properties = dict(properties)

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of a table; see `Lake`."""
        if self._template is not None:
            return catalog_name(self._template, database=database, table=table)
        path = f"{self._root}/{encode_name(database)}/{encode_name(table)}"
        return f"delta.{quote_identifier(path)}"

    def find_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the state of a table; see `Lake`."""
        snapshot = self._maybe_snapshot(session, target)
        if snapshot is None:
            return None
        schema = StructType.fromJson(json.loads(snapshot.schema().json()))
        applied = snapshot.transactions().get(self._application)
        return TargetState(
            columns={field.name: field.dataType.simpleString() for field in schema},
            column_ids={
                field.name: str(field.metadata.get(_COLUMN_ID, field.name)) for field in schema
            },
            properties=_to_dict(snapshot.metadata().configuration()),
            applied=_mark_of(int(applied.get())) if applied.isDefined() else NOTHING,
            files=int(snapshot.numOfFiles()),
            bytes=int(snapshot.sizeInBytes()),
            is_empty=int(snapshot.numOfFiles()) == 0,
            snapshot=int(snapshot.version()),
        )

    def create(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        """Make an empty table; see `Lake`."""
        if self._template is not None and (namespace := target.rpartition(".")[0]):
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        everything = _NEW_TABLE | self._properties | dict(properties)
        session.sql(
            merge_sql.create_table(target, provider="delta", columns=columns, properties=everything)
        )

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> None:
        """Change the columns; see `Lake`."""
        # Features that Delta switches on by itself for a new table, but not for an old one.
        needed = {}
        if "timestamp_ntz" in evolution.added.values():
            needed["delta.feature.timestampNtz"] = "supported"
        if evolution.widened:
            needed["delta.enableTypeWidening"] = "true"
        missing = {
            name: value for name, value in needed.items() if state.properties.get(name) != value
        }
        if missing:
            session.sql(merge_sql.set_properties(target, missing))
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
        # One row of counts; none if Delta found the transaction done.
        rows = session.sql(statement).collect()
        if not rows:
            return None
        counts = rows[0]
        return Commit(
            inserted=counts["num_inserted_rows"],
            updated=counts["num_updated_rows"],
            deleted=counts["num_deleted_rows"],
        )

    def overwrite(
        self, session: SparkSession, target: str, state: TargetState, query: str, applied: Applied
    ) -> Commit | None:
        """Replace every row; see `Lake`."""
        self._set_applied(session, applied)
        session.sql(f"INSERT OVERWRITE TABLE {target} {query}").collect()
        return Commit()

    def _set_applied(self, session: SparkSession, applied: Applied) -> None:
        note = {"source": applied.source, "applied": str(applied.mark), "stop": applied.stop}
        session.conf.set(_MATERIALIZE, "none")
        session.conf.set(_NOTE, json.dumps(note, ensure_ascii=False))
        session.conf.set(_APPLICATION, self._application)
        session.conf.set(_VERSION, str(_version_of(applied.mark)))
        session.conf.set(_RESET, "true")

    def _maybe_snapshot(self, session: SparkSession, target: str) -> Any:
        """Return Delta's own view of the table as it is now; None if there is none.

        No SQL returns the last version of a transaction id.
        """
        jvm: Any = session.sparkContext._jvm
        java_session = session._jsparkSession
        log = jvm.org.apache.spark.sql.delta.DeltaLog
        if self._template is None:
            path = target.removeprefix("delta.`").removesuffix("`").replace("``", "`")
            snapshot = log.forTableWithSnapshot(java_session, path)._2()
        else:
            if not session.catalog.tableExists(target):
                return None
            parser = java_session.sessionState().sqlParser()
            identifier = parser.parseTableIdentifier(target)
            snapshot = log.forTableWithSnapshot(java_session, identifier)._2()
        return snapshot if snapshot.version() >= 0 else None


def _version_of(mark: Mark) -> int:
    """Return a mark as one number, which grows with it."""
    return mark.sequence << _STATEMENT_BITS | mark.statements


def _mark_of(version: int) -> Mark:
    return Mark(version >> _STATEMENT_BITS, version & ((1 << _STATEMENT_BITS) - 1))


def _to_dict(scala_map: Any) -> dict[str, str]:
    items = scala_map.iterator()
    found = {}
    while items.hasNext():
        item = items.next()
        found[str(item._1())] = str(item._2())
    return found
