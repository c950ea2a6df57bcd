"""Delta tables: a marker is a transaction id, committed with the data and checked by Delta."""

# ruff: noqa: SLF001, ARG002  The way to the JVM is `_jvm`; Delta checks without the state.

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from airflow_provider_binlog.names import encode_name
from airflow_provider_binlog.spark import merge_sql
from airflow_provider_binlog.spark.lake.table_format import Commit, Marker, TargetState
from airflow_provider_binlog.spark.names import catalog_name, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
# Otherwise every later write of the session would be skipped as one that was done.
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
# The source rows are made once and kept already.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"

# Characters that Delta stores only under another name, which it then keeps beside the column's.
_MAPPED = re.compile(r"[ ,;{}()\n\t=]")


class DeltaLake:
    """Delta tables below a folder, or in a catalog.

    Args:
        source: Name of the source; part of the transaction id.
        root: Folder of the tables, `<root>/<database>/<table>`, where no `template` is given.
        template: Name in a catalog, from `{database}` and `{table}`.
        properties: Table properties of the tables that are made.
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

    def maybe_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the state of a table; see `Lake`."""
        snapshot = self._maybe_snapshot(session, target)
        if snapshot is None:
            return None
        schema = StructType.fromJson(json.loads(snapshot.schema().json()))
        marker = snapshot.transactions().get(self._application)
        return TargetState(
            columns={field.name: field.dataType.simpleString() for field in schema},
            properties=_to_dict(snapshot.metadata().configuration()),
            marker=int(marker.get()) if marker.isDefined() else 0,
            files=int(snapshot.numOfFiles()),
            bytes=int(snapshot.sizeInBytes()),
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
        mapping = {"delta.columnMapping.mode": "name"} if _needs_mapping(columns) else {}
        everything = mapping | self._properties | dict(properties)
        session.sql(
            merge_sql.create_table(target, provider="delta", columns=columns, properties=everything)
        )

    def add_columns(self, session: SparkSession, target: str, columns: Mapping[str, str]) -> None:
        """Add columns; see `Lake`."""
        # Features that Delta switches on by itself for a new table, but not for an old one.
        needed = {}
        if "timestamp_ntz" in columns.values():
            needed["delta.feature.timestampNtz"] = "supported"
        if _needs_mapping(columns):
            needed["delta.columnMapping.mode"] = "name"
        if needed:
            session.sql(merge_sql.set_properties(target, needed))
        session.sql(merge_sql.add_columns(target, columns))

    def widen_columns(self, session: SparkSession, target: str, columns: Mapping[str, str]) -> None:
        """Widen columns; see `Lake`."""
        session.sql(merge_sql.set_properties(target, {"delta.enableTypeWidening": "true"}))
        for name, type_ in columns.items():
            session.sql(merge_sql.change_type(target, name, type_))

    def merge(
        self, session: SparkSession, target: str, state: TargetState, statement: str, marker: Marker
    ) -> Commit | None:
        """Run a MERGE; see `Lake`."""
        self._set_marker(session, marker)
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
        self, session: SparkSession, target: str, state: TargetState, query: str, marker: Marker
    ) -> Commit | None:
        """Replace every row; see `Lake`."""
        self._set_marker(session, marker)
        session.sql(f"INSERT OVERWRITE TABLE {target} {query}").collect()
        return Commit()

    def _set_marker(self, session: SparkSession, marker: Marker) -> None:
        note = {"source": marker.source, "sequence": marker.sequence, "stop": marker.stop}
        session.conf.set(_MATERIALIZE, "none")
        session.conf.set(_NOTE, json.dumps(note, ensure_ascii=False))
        session.conf.set(_APPLICATION, self._application)
        session.conf.set(_VERSION, str(marker.sequence))
        session.conf.set(_RESET, "true")

    def _maybe_snapshot(self, session: SparkSession, target: str) -> Any:
        """Return Delta's own view of the table as it is now; None if there is none.

        No SQL tells the last version of a transaction id.
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


def _needs_mapping(columns: Mapping[str, str]) -> bool:
    return any(map(_MAPPED.search, columns))


def _to_dict(scala_map: Any) -> dict[str, str]:
    items = scala_map.iterator()
    found = {}
    while items.hasNext():
        item = items.next()
        found[str(item._1())] = str(item._2())
    return found
