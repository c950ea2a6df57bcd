"""Delta tables: the applied mark is a transaction id, which Delta commits and checks."""

# ruff: noqa: SLF001  PySpark has no other access to the JVM.

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_provider_binlog.changes import CHANGE_TYPE
from airflow_provider_binlog.schema import Action, AddField, AlterField, DropField, RenameField
from airflow_provider_binlog.spark.names import is_folder, target_name
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.delta.log import (
    Totals,
    check_commits,
    find_contents,
    find_totals,
    read_commit,
    transaction_version,
    write_note,
)
from airflow_provider_binlog.spark.target.jvm import java_class, set_active
from airflow_provider_binlog.spark.target.layout import Layout
from airflow_provider_binlog.spark.target.properties import claim_again, count_from_1
from airflow_provider_binlog.spark.target.protocol import Commit
from airflow_provider_binlog.spark.target.spark_target import Change
from airflow_provider_binlog.spark.target.sql import alter_statements
from airflow_provider_binlog.spark.target.state import Barrier, Comments, TargetState, read_contents
from airflow_provider_binlog.table_options import TableRules

MAPPING = "delta.columnMapping.mode"
COLUMN_MAPPING = {MAPPING: "name"}
"""The property with which columns can be dropped and renamed, and have any name."""

_WIDENING = "delta.enableTypeWidening"
_FEATURE = "delta.feature."
_SUPPORTED = "supported"
_NTZ = f"{_FEATURE}timestampNtz"
_NAMES = {
    MAPPING: "column mapping",
    _WIDENING: "type widening",
    _NTZ: "timestamps without a time zone",
}
_MAPPED_CHARACTERS = frozenset(" ,;{}()\n\t=")

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
# Otherwise every later write of the session would be skipped as one that was done.
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
# The source rows are the same whenever they are read.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"

_FEED = "delta.enableChangeDataFeed"
_FEED_DEFAULT = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
_COLUMN_ID = "delta.columnMapping.id"


class DeltaLake:
    """Delta tables below a folder, or in a catalog; see `LakeFormat`.

    Args:
        source: Name of the source; part of the transaction id.
        root: Folder of the tables that have no name in a catalog, `<root>/<database>/<table>`.
        options: Those of the tables.
        properties: Table properties of new tables.
        upgrade: Whether existing tables get features that a change of their columns needs.
    """

    provider = "delta"
    # Names without a catalog are Delta's, whichever catalog others of the cluster use.
    settings: Mapping[str, str] = {"spark.sql.defaultCatalog": "spark_catalog"}
    # Delta can broadcast few source rows instead.
    filters = False

    def __init__(
        self,
        source: str,
        root: str,
        options: TableRules,
        properties: Mapping[str, str],
        *,
        upgrade: bool = True,
    ) -> None:
        self._source = source
        self._upgrade = upgrade
        self._application = f"binlog:{source}"
        self._root = root
        self._options = options
        self._properties = dict(properties)

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of a table; see `LakeFormat`."""
        return target_name("delta", self._root, self._options, database, table)

    def find_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the state of a table; see `LakeFormat`."""
        snapshot = self._maybe_snapshot(session, target)
        if snapshot is None:
            return None
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        check_commits(protocol, target)
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        schema = StructType.fromJson(json.loads(metadata["schemaString"]))
        totals = find_totals(session, snapshot)
        fence = self._find_fence(totals)
        version = int(snapshot.version())
        read = partial(read_commit, session, snapshot)
        contents, unknown = read_contents(
            find_contents(read, version, source=self._source, transaction=fence)
        )
        columns = {field.name: field.dataType.simpleString() for field in schema}
        properties = metadata.get("configuration", {}) | supported_features(protocol)
        state = TargetState(
            columns=columns,
            column_ids={
                field.name: str(field.metadata.get(_COLUMN_ID, field.name)) for field in schema
            },
            properties=properties,
            contents=contents,
            files=totals.files,
            bytes=totals.bytes,
            is_empty=totals.files == 0,
            snapshot=version,
            unknown=unknown,
            fence=fence,
            comments=Comments(
                metadata.get("description", ""),
                {field.name: text for field in schema if (text := field.metadata.get("comment"))},
            ),
        )
        if self._upgrade:
            return state
        barrier = partial(find_barrier, columns=columns, properties=properties)
        return replace(state, find_barrier=barrier)

    def commit_time(self, session: SparkSession, target: str, version: int) -> datetime | None:
        """Return when a version of a table was committed; None if its log does not say."""
        commit = read_commit(session, self._maybe_snapshot(session, target), version) or {}
        at = commit.get("timestamp")
        return None if at is None else datetime.fromtimestamp(at / 1000, UTC)

    def new_column_ids(self, change: Change) -> dict[str, str]:
        """Return the ids that the columns of a new table get; see `LakeFormat`."""
        columns, mode = change.columns, self._new_properties(change)[MAPPING]
        return dict(zip(columns, columns, strict=True)) if mode == "none" else count_from_1(columns)

    def create_as(
        self, session: SparkSession, change: Change, properties: Mapping[str, str]
    ) -> None:
        """Make a table with rows; see `LakeFormat`."""
        # Delta takes what a killed merge wrote for a table, but finds none to replace.
        is_begun = self._is_begun(session, change.table)
        layout = Layout.of(self._options.of(change.owner.name))
        given = self._new_properties(change)
        # Delta makes no table with rows, column mapping and its change data feed in one commit. The
        # feed has a column that a changelog calls so, too.
        feed = given.pop(_FEED, None) or session.conf.get(_FEED_DEFAULT, None)
        own = {} if feed is None else {_FEED: "false"}
        statement = merge_sql.create_table_as(
            change.table,
            provider=self.provider,
            columns=change.columns,
            properties=given | own | layout.properties | dict(properties),
            layout=layout.clause(change.columns),
            command="CREATE OR REPLACE TABLE" if is_begun else "CREATE TABLE",
        )
        with self._noted(session, change, None):
            session.sql(statement)
        if feed is not None and CHANGE_TYPE not in change.columns:
            session.sql(merge_sql.set_properties(change.table, {_FEED: feed}))

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> None:
        """Change the columns; see `LakeFormat`."""
        missing = needed_features(evolution, columns=state.columns, properties=state.properties)
        if missing:
            session.sql(merge_sql.set_properties(target, missing))
        mapped = self.find_state(session, target) if MAPPING in missing else None
        if mapped is not None and (claims := claim_again(mapped.properties, mapped.column_ids)):
            # Its columns had names alone, and have ids now.
            session.sql(merge_sql.set_properties(target, claims))
        for statement in alter_statements(target, state.columns, evolution):
            session.sql(statement)

    def merge(
        self, session: SparkSession, change: Change, state: TargetState, statement: str
    ) -> Commit | None:
        """Run a MERGE; see `LakeFormat`."""
        with self._noted(session, change, state):
            # One row of counts; none if Delta found the transaction done.
            rows = session.sql(statement).collect()
        if not rows:
            return None
        actions = ("inserted", "updated", "deleted")
        counts = {action: rows[0][f"num_{action}_rows"] for action in actions}
        return Commit(**counts, version=int(self._maybe_snapshot(session, change.table).version()))

    def overwrite(
        self, session: SparkSession, change: Change, state: TargetState, query: str
    ) -> Commit | None:
        """Replace every row; see `LakeFormat`."""
        with self._noted(session, change, state):
            session.sql(f"INSERT OVERWRITE TABLE {change.table} {query}")
        # Delta does not say whether it found the transaction done.
        snapshot = self._maybe_snapshot(session, change.table)
        fence = self._find_fence(find_totals(session, snapshot))
        if fence != transaction_version(change.mark, state.fence):
            return None
        return Commit(version=int(snapshot.version()))

    def _new_properties(self, change: Change) -> dict[str, str]:
        """Return the properties of a new table that its author gives."""
        chosen = self._options.of(change.owner.name).properties or {}
        return COLUMN_MAPPING | self._properties | chosen

    @contextmanager
    def _noted(
        self, session: SparkSession, change: Change, before: TargetState | None
    ) -> Iterator[None]:
        """Commit the mark with what the session commits meanwhile, and with nothing else."""
        fence = None if before is None else before.fence
        session.conf.set(_MATERIALIZE, "none")
        session.conf.set(_NOTE, write_note(change))
        session.conf.set(_APPLICATION, self._application)
        session.conf.set(_VERSION, str(transaction_version(change.mark, fence)))
        session.conf.set(_RESET, "true")
        try:
            yield
        finally:
            for name in (_NOTE, _APPLICATION, _VERSION):
                session.conf.unset(name)

    def _find_fence(self, totals: Totals) -> int | None:
        """Return the last version of the source's transaction id; None if there is none."""
        transactions = totals.transactions.iterator()
        while transactions.hasNext():
            transaction = transactions.next()
            if transaction.appId() == self._application:
                return int(transaction.version())
        return None

    def _is_begun(self, session: SparkSession, target: str) -> bool:
        """Whether a folder has that of a log, and no commit: a merge was killed that created it."""
        if not is_folder(target):
            return False
        path = java_class(session, "org.apache.hadoop.fs.Path")(_folder(target), "_delta_log")
        conf: Any = session._jsparkSession.sessionState().newHadoopConf()
        exists = path.getFileSystem(conf).exists(path)
        return bool(exists) and self._maybe_snapshot(session, target) is None

    def _maybe_snapshot(self, session: SparkSession, target: str) -> Any:
        """Return Delta's own view of the table, which no SQL returns; None if there is none."""
        # What no checksum says is computed from a checkpoint in the thread's session.
        set_active(session)
        java_session = session._jsparkSession
        log = java_class(session, "org.apache.spark.sql.delta.DeltaLog")
        if is_folder(target):
            snapshot = log.forTableWithSnapshot(java_session, _folder(target))._2()
        else:
            if not session.catalog.tableExists(target):
                return None
            parser = java_session.sessionState().sqlParser()
            identifier = parser.parseTableIdentifier(target)
            snapshot = log.forTableWithSnapshot(java_session, identifier)._2()
        return snapshot if snapshot.version() >= 0 else None


def _folder(target: str) -> str:
    """Return the folder in the quoted name of a table without a catalog."""
    return target.removeprefix("delta.`").removesuffix("`").replace("``", "`")


def supported_features(protocol: Mapping[str, Any]) -> dict[str, str]:
    """Return the table features of a protocol, as the properties that add them."""
    return {f"{_FEATURE}{feature}": _SUPPORTED for feature in protocol.get("writerFeatures") or ()}


def needed_features(
    evolution: Evolution, *, columns: Mapping[str, str], properties: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of features that a table lacks, and needs before it is evolved.

    Its `properties` include its features, as `supported_features` returns them.
    """
    needed = {}
    types = evolution.added.values()
    # Delta switches it on by itself for a new table, but not for an old one.
    has_ntz = "timestamp_ntz" in columns.values() or properties.get(_NTZ) == _SUPPORTED
    if "timestamp_ntz" in types and not has_ntz:
        needed[_NTZ] = _SUPPORTED
    if evolution.widened and properties.get(_WIDENING) != "true":
        needed[_WIDENING] = "true"
    renames = evolution.dropped or evolution.renamed or any(map(_is_mapped, evolution.added))
    if renames and properties.get(MAPPING, "none") == "none":
        needed |= COLUMN_MAPPING
    return needed


def find_barrier(
    evolution: Evolution, *, columns: Mapping[str, str], properties: Mapping[str, str]
) -> Barrier | None:
    """Return what `needed_features` returns, as a reason not to evolve the table; None without."""
    features = needed_features(evolution, columns=columns, properties=properties)
    if not features:
        return None
    names = " and ".join(words for feature, words in _NAMES.items() if feature in features)
    return Barrier(
        f"the lake table would need {names} for its columns to change as those of "
        "its table (allow that with upgrade=True, or drop the lake table, before the reload)",
        partial(_needs_feature, features),
    )


def _needs_feature(features: Collection[str], action: Action) -> bool:
    """Whether an action may be why a table needs one of these features."""
    if isinstance(action, DropField | RenameField):
        return MAPPING in features
    if isinstance(action, AlterField):
        return _WIDENING in features
    if isinstance(action, AddField):
        return _NTZ in features or (MAPPING in features and _is_mapped(action.name))
    return False


def _is_mapped(name: str) -> bool:
    """Whether only a table with column mapping has columns of such a name."""
    return not _MAPPED_CHARACTERS.isdisjoint(name)
