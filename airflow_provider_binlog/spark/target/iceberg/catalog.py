"""Iceberg tables: the applied mark is a property of the snapshot that holds the data.

Iceberg does not look at it. That two merges of one range do not both count is up to its conflict
detection, which needs serializable isolation and a MERGE that may update (an insert-only one is
committed as an append, without any check); and that a merge did not build on another's state is
checked after each commit.

Compactions and writes of others have no mark: the table's is that of the last ancestor that has
one. Ancestors expire; what they said is in the table's previous metadata files.
"""

# ruff: noqa: SLF001  Iceberg takes Java's session.

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.
from pyspark.sql.types import StructType

from airflow_provider_binlog.errors import MergeError, TargetConflictError
from airflow_provider_binlog.schema import AlterField
from airflow_provider_binlog.spark.names import target_name
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.staged.types import widens
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.jvm import java_class, set_active
from airflow_provider_binlog.spark.target.layout import Layout
from airflow_provider_binlog.spark.target.properties import count_from_1
from airflow_provider_binlog.spark.target.protocol import Commit, conflict
from airflow_provider_binlog.spark.target.spark_target import Change
from airflow_provider_binlog.spark.target.sql import alter_statements
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    TABLE_ID,
    Barrier,
    Comments,
    Contents,
    ForeignWrite,
    Mark,
    TargetState,
    read_contents,
    read_foreign_write,
    read_mode,
    rows_of_another,
)
from airflow_provider_binlog.table_options import TableRules

APPLIED = "binlog.applied"
"""Property of a snapshot: the applied mark."""

CONTAINS_TABLE = "binlog.table_id"
"""Property of a snapshot: the id of the table whose rows it has; empty if the merge did not say."""

LOADED = "binlog.loaded"
"""Property of a snapshot: the id of the staged snapshot that the table was last loaded from; empty
if from none."""

WRITER = "binlog.source"
"""Property of a snapshot: the name of the source whose merge made it."""

BASE = "binlog.base"
"""Property of a snapshot: the id of the one that its merge was planned with; empty for none."""

FOREIGN_WRITE = "binlog.foreign_write"
"""Property of a snapshot: the commit of others that its merge knew of, as JSON, if of any."""

_WRITES = ("append", "delete", "overwrite")

_COMMIT_PROPERTY = "spark.sql.iceberg.snapshot-property"
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
_MISSING_CLASSES = ("NoSuchNamespaceException", "NoSuchTableException")
_ISOLATION = "write.merge.isolation-level"
_COUNTED = "spark.merge-into.num-target-rows"
# What REST catalogs answer that create no table with its rows: AWS Glue's, and that of S3 Tables.
_UNSTAGED = re.compile(r"\bstage[-_ ]?create\b.*\bnot supported", re.IGNORECASE)

# What every Iceberg table has already.
_RESERVED = {
    *("_deleted", "_file", "_last_updated_sequence_number", "_partition", "_pos", "_row_id"),
    "_spec_id",
}

_VERSION = "format-version"
_MERGE_MODE = "write.merge.mode"
# To read and write so much takes less than to read files of rows and deletes of some ten merges.
_REWRITTEN_BYTES = 4 << 20

NEW_TABLE = {
    _VERSION: "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    _ISOLATION: "serializable",
    # Each commit adds manifests, all of which the next MERGE reads. Iceberg would wait for 100.
    "commit.manifest.min-count-to-merge": "10",
}


class IcebergLake:
    """Iceberg tables of one catalog; see `LakeFormat`.

    Args:
        source: Name of the source.
        catalog: The catalog's name in Spark's settings.
        options: Those of the tables.
        properties: Table properties of new tables.
    """

    provider = "iceberg"
    # A MERGE shuffles the target however few the source rows are.
    filters = True

    def __init__(
        self, source: str, catalog: str, options: TableRules, properties: Mapping[str, str]
    ) -> None:
        self._source = source
        self._catalog = catalog
        self._options = options
        self._properties = dict(properties)
        # Each session would keep its own stale copy of a table for half a minute.
        self.settings: Mapping[str, str] = {f"spark.sql.catalog.{catalog}.cache-enabled": "false"}

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
        contents, unknown = read_contents(
            find_contents(current, table.find_snapshot, properties, source=self._source)
        )
        columns = table.columns
        return TargetState(
            columns=columns,
            column_ids=table.column_ids,
            properties=properties,
            contents=contents,
            files=int(summary.get("total-data-files", 0)),
            bytes=int(summary.get("total-files-size", 0)),
            is_empty=snapshot is None or summary.get("total-data-files") == "0",
            snapshot=current,
            unknown=unknown,
            find_barrier=partial(find_barrier, columns=columns),
            comments=Comments(properties.get("comment", ""), table.comments),
        )

    def new_column_ids(self, change: Change) -> dict[str, str]:
        """Return the ids that the columns of a new table get; see `LakeFormat`."""
        return count_from_1(change.columns)

    def create_as(
        self, session: SparkSession, change: Change, properties: Mapping[str, str]
    ) -> None:
        """Make a table with rows; see `LakeFormat`."""
        target, columns = change.table, change.columns
        _check_names(target, columns)
        options = self._options.of(change.owner.name)
        layout, chosen = Layout.of(options), self._properties | dict(options.properties or {})
        new = NEW_TABLE | _merge_mode(change.rows.rows.bytes)
        properties = new | chosen | layout.properties | dict(properties)
        if layout.sort_by:
            # Rows are sorted that are written once the table has the order.
            self._create_and_fill(session, change, properties, layout.clause(columns))
            return
        statement = merge_sql.create_table_as(
            target,
            provider=self.provider,
            columns=columns,
            properties=properties,
            layout=layout.clause(columns),
        )
        try:
            with commit_properties(session, _said_of(change)):
                session.sql(statement)
        except (Py4JJavaError, PySparkException) as error:
            if not _UNSTAGED.search(str(error)):
                raise
            self._create_and_fill(session, change, properties, layout.clause(columns))

    def _create_and_fill(
        self, session: SparkSession, change: Change, properties: Mapping[str, str], layout: str
    ) -> None:
        target, columns = change.table, change.columns
        session.sql(
            merge_sql.create_table(
                target,
                provider=self.provider,
                columns=columns,
                properties=properties,
                layout=layout,
            )
        )
        state = self.find_state(session, target)
        if state is None:
            raise TargetConflictError("another writer dropped the target", target=target)
        query = merge_sql.rows_to_keep({name: at for at, name in enumerate(columns)})
        self.overwrite(session, change, state, query)

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> None:
        """Change the columns; see `LakeFormat`."""
        _check_names(target, [*evolution.added, *evolution.renamed.values()])
        _check_dependants(session, target, state, evolution.dropped)
        for statement in alter_statements(target, state.columns, evolution):
            session.sql(statement)

    def merge(
        self, session: SparkSession, change: Change, state: TargetState, statement: str
    ) -> Commit | None:
        """Run a MERGE; see `LakeFormat`."""
        chosen = self._properties | dict(self._options.of(change.owner.name).properties or {})
        mode = _merge_mode(state.bytes)
        if _MERGE_MODE not in chosen and not mode.items() <= state.properties.items():
            session.sql(merge_sql.set_properties(change.table, mode))
        with commit_properties(session, _said_of(change)):
            session.sql(statement)
        return _check_commit(session, change.table, state)

    def overwrite(
        self, session: SparkSession, change: Change, state: TargetState, query: str
    ) -> Commit | None:
        """Replace every row; see `LakeFormat`."""
        order = Layout.of(self._options.of(change.owner.name)).order
        if order and state.is_empty and state.applied == NOTHING:
            # Also that of a merge which was killed once it had made the table.
            session.sql(f"ALTER TABLE {change.table} WRITE ORDERED BY {order}")
        writer = session.sql(query).writeTo(change.table).option("isolation-level", "serializable")
        if state.snapshot is not None:
            writer = writer.option("validate-from-snapshot-id", str(state.snapshot))
        with commit_properties(session, _said_of(change)):
            writer.overwrite(F.expr("true"))
        return _check_commit(session, change.table, state)


def _merge_mode(size: int) -> dict[str, str]:
    """Return the property that says how a MERGE changes a table of so many bytes.

    Of a small one it rewrites the files that may hold the rows, which stay few then. Of a larger
    one it writes what is new, and which rows are deleted.
    """
    return {_MERGE_MODE: "copy-on-write" if size <= _REWRITTEN_BYTES else "merge-on-read"}


def _said_of(change: Change) -> dict[str, str]:
    """Return the properties of a commit of rows."""
    contents = change.contents
    foreign_write = contents.foreign_write
    noted = {} if foreign_write is None else {FOREIGN_WRITE: json.dumps(asdict(foreign_write))}
    return noted | {
        WRITER: change.owner.source,
        BASE: "" if change.base is None else str(change.base),
        "binlog.stop": change.stop,
        APPLIED: str(contents.mark),
        CONTAINS_TABLE: contents.table or "",
        LOADED: contents.snapshot or "",
    }


def _check_commit(session: SparkSession, target: str, state: TargetState) -> Commit:
    """Return what a commit did; raise TargetConflictError if it was not built on `state`.

    The table's mark is that of the last snapshot that has one, also if that is the smaller one: a
    retry merges what is missing.
    """
    since = load_table(session, target).snapshots(until=state.snapshot)
    marked = [snapshot for snapshot in since if APPLIED in snapshot.summary]
    if len(marked) != 1:
        raise conflict(target)
    (snapshot,) = marked
    actions = ("inserted", "updated", "deleted")
    texts = {action: snapshot.summary.get(f"{_COUNTED}-{action}") for action in actions}
    counts = {action: None if text is None else int(text) for action, text in texts.items()}
    return Commit(**counts, version=snapshot.id)


def _check_names(target: str, columns: Iterable[str]) -> None:
    taken = sorted(name for name in columns if name.lower() in _RESERVED)
    if taken:
        raise MergeError(
            "Iceberg keeps this name for itself: rename the column at the source, choose another "
            "prefix if an option adds it, or use Delta",
            target=target,
            column=",".join(taken),
        )


def _check_dependants(
    session: SparkSession, target: str, state: TargetState, lost: Sequence[str]
) -> None:
    """Refuse to drop columns without which Iceberg writes no row any more.

    It finds no partition without one that the table is partitioned by, or was, and no order.
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
                f"the lake table {how} by a column that was dropped: {repair} it from a snapshot",
                target=target,
                column=",".join(needed),
            )


def find_barrier(evolution: Evolution, *, columns: Mapping[str, str]) -> Barrier | None:
    """Return why an Iceberg table with these columns cannot follow a change; None if it can."""
    changes = {
        name: (columns[evolution.columns[name]], type_) for name, type_ in evolution.widened.items()
    }
    refused = {name: types for name, types in changes.items() if not widens(*types)}
    if not refused:
        return None
    fields = {id_ for id_, name in evolution.fields.items() if name in refused}
    texts = (f"{name} from {before} to {now}" for name, (before, now) in refused.items())
    return Barrier(
        f"Iceberg does not change the type of a column so: {', '.join(texts)}",
        lambda action: isinstance(action, AlterField) and action.field in fields,
    )


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a table, its properties, and the one it was built on; None for the first.

    The `time` is in milliseconds since 1970.
    """

    id: int
    parent: int | None
    summary: dict[str, str]
    time: int | None = None


class IcebergTable:
    """A table as it was when it was loaded, by a session: Java's `table`."""

    def __init__(self, session: SparkSession, table: Any) -> None:
        self.java = table
        self._session = session
        self._snapshots: dict[int, Snapshot] = {}
        self._metadata: Any = None
        self._previous: list[Any] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties, and the version of its format."""
        version = str(self.java.operations().current().formatVersion())
        # The entries of a map, one by one, would cost as much as a commit.
        mapper = java_class(self._session, "com.fasterxml.jackson.databind.ObjectMapper")()
        texts: dict[str, str] = json.loads(mapper.writeValueAsString(self.java.properties()))
        return texts | {_VERSION: version}

    @property
    def columns(self) -> dict[str, str]:
        """Name and Spark type of each column, in order."""
        util = java_class(self._session, "org.apache.iceberg.spark.SparkSchemaUtil")
        fields = StructType.fromJson(json.loads(util.convert(self.java.schema()).json()))
        return {field.name: field.dataType.simpleString() for field in fields}

    @cached_property
    def _fields(self) -> list[dict[str, Any]]:
        parser = java_class(self._session, "org.apache.iceberg.SchemaParser")
        fields: list[dict[str, Any]] = json.loads(parser.toJson(self.java.schema()))["fields"]
        return fields

    @property
    def column_ids(self) -> dict[str, str]:
        """The field ids of its columns by name."""
        return {str(field["name"]): str(field["id"]) for field in self._fields}

    @property
    def comments(self) -> dict[str, str]:
        """The comments of its columns by name, of those that have any."""
        return {str(field["name"]): field["doc"] for field in self._fields if "doc" in field}

    @property
    def partitioned_by(self) -> set[str]:
        """The field ids of columns that it is partitioned by, or was."""
        parser = java_class(self._session, "org.apache.iceberg.PartitionSpecParser")
        specs = [json.loads(parser.toJson(spec)) for spec in self.java.specs().values()]
        return {str(field["source-id"]) for spec in specs for field in spec["fields"]}

    @property
    def ordered_by(self) -> set[str]:
        """The field ids of columns that its rows are sorted or identified by."""
        parser = java_class(self._session, "org.apache.iceberg.SortOrderParser")
        order = json.loads(parser.toJson(self.java.sortOrder()))
        identifiers = map(str, self.java.schema().identifierFieldIds())
        return {*identifiers, *(str(field["source-id"]) for field in order["fields"])}

    @property
    def current(self) -> Snapshot | None:
        """The current snapshot; None if there is none."""
        return self._read(self.java.currentSnapshot())

    def snapshots(self, *, until: int | None) -> Iterator[Snapshot]:
        """Yield the current snapshot and its ancestors, the newest first, up to one exclusive."""
        snapshot = self.current
        while snapshot is not None and snapshot.id != until:
            yield snapshot
            if snapshot.parent in (None, until):
                return
            snapshot = self._read(self.java.snapshot(snapshot.parent))

    def find_snapshot(self, number: int) -> Snapshot | None:
        """Return a snapshot, also an expired one; None if no metadata file has it."""
        if number in self._snapshots:
            return self._snapshots[number]
        snapshot = self.java.snapshot(number)
        if snapshot is None and self._metadata is not None:
            snapshot = self._metadata.snapshot(number)
        while snapshot is None and self._read_previous():
            snapshot = self._metadata.snapshot(number)
        return self._read(snapshot)

    def _read(self, snapshot: Any) -> Snapshot | None:
        if snapshot is None:
            return None
        parser = java_class(self._session, "org.apache.iceberg.SnapshotParser")
        value = json.loads(parser.toJson(snapshot))
        parent, summary = value.get("parent-snapshot-id"), value.get("summary", {})
        read = Snapshot(value["snapshot-id"], parent, summary, value.get("timestamp-ms"))
        return self._snapshots.setdefault(read.id, read)

    def _read_previous(self) -> bool:
        """Read the metadata file before the last one that was read; return whether there is one."""
        operations = self.java.operations()
        if self._previous is None:
            self._previous = [entry.file() for entry in operations.current().previousFiles()]
        if not self._previous:
            return False
        parser = java_class(self._session, "org.apache.iceberg.TableMetadataParser")
        self._metadata = parser.read(operations.io(), self._previous.pop())
        return True


@contextmanager
def commit_properties(session: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Give properties to the snapshots that the session commits meanwhile, and to no others."""
    settings = {f"{_COMMIT_PROPERTY}.{name}": value for name, value in properties.items()}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def load_table(session: SparkSession, target: str) -> IcebergTable:
    """Return the table of a quoted name as it is now."""
    # A catalog is loaded with the settings of the thread's session.
    set_active(session)
    util = java_class(session, "org.apache.iceberg.spark.Spark3Util")
    return IcebergTable(session, util.loadIcebergTable(session._jsparkSession, target))


def find_table(session: SparkSession, target: str) -> IcebergTable | None:
    """Return the table of a quoted name as it is now; None if there is none."""
    try:
        return load_table(session, target)
    except AnalysisException as error:
        if error.getCondition() not in _MISSING:
            raise
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() not in _MISSING_CLASSES:
            raise
    return None


def find_contents(
    current: int | None,
    find_snapshot: Callable[[int], Snapshot | None],
    properties: Mapping[str, str],
    *,
    source: str,
) -> Contents | str:
    """Return what a snapshot contains, or why that cannot be determined.

    Args:
        current: The snapshot; None for a table without any.
        find_snapshot: Returns a snapshot; None if it expired, and no metadata file has it.
        properties: The table's.
        source: Name of the source.
    """
    at, written, foreign_write = current, False, None
    while at is not None:
        snapshot = find_snapshot(at)
        if snapshot is None:
            return f"snapshot {at} expired, and with it what was applied: reload the table"
        summary = snapshot.summary
        if APPLIED in summary and (writer := summary.get(WRITER, "")) != source:
            return rows_of_another(writer)
        if APPLIED in summary:
            mark, table = Mark.parse(summary[APPLIED]), summary.get(CONTAINS_TABLE)
            meanwhile = [*_list_meanwhile(snapshot, find_snapshot)]
            # One that expired may have been a merge's.
            overtaken = any(not between or APPLIED in between.summary for _, between in meanwhile)
            if overtaken and not read_mode(properties).may_repeat:
                return (
                    "two merges committed to it at once, as far as its snapshots say, some changes "
                    "twice: reload the table"
                )
            noted = read_foreign_write(json.loads(summary.get(FOREIGN_WRITE, "null")))
            first = noted or _find_first_write(meanwhile) or foreign_write
            return Contents(mark, table or None, summary.get(LOADED, ""), first)
        foreign_write = _find_write(snapshot) or foreign_write
        at, written = snapshot.parent, True
    # Whoever loads a table by hand sets no table id; the first merge does.
    if written and TABLE_ID in properties:
        return "no snapshot of the table is that of a merge: it was replaced"
    return Contents(NOTHING)


def _find_write(snapshot: Snapshot) -> ForeignWrite | None:
    """Return a snapshot of others as a write; None if it left all rows as they were."""
    summary = snapshot.summary
    operation = summary.get("operation")
    if operation not in _WRITES or summary.get("changed-partition-count") == "0":
        return None
    user = " ".join(filter(None, map(summary.get, ("user", "engine-name", "app-id"))))
    return ForeignWrite.of(snapshot.id, operation, user, snapshot.time)


def _list_meanwhile(
    merged: Snapshot, find_snapshot: Callable[[int], Snapshot | None]
) -> Iterator[tuple[int, Snapshot | None]]:
    """Yield the snapshots between a merge's plan and its commit, the last first, with their ids.

    The last that is yielded is another merge's, or None for one that expired, if there is such.
    """
    base, at = merged.summary.get(BASE), merged.parent
    while base is not None and at is not None and str(at) != base:
        snapshot = find_snapshot(at)
        yield at, snapshot
        if snapshot is None or APPLIED in snapshot.summary:
            return
        at = snapshot.parent


def _find_first_write(meanwhile: Sequence[tuple[int, Snapshot | None]]) -> ForeignWrite | None:
    """Return the first of these snapshots that others wrote, and no merge; None without."""
    for at, snapshot in reversed(meanwhile):
        if snapshot is None:
            return ForeignWrite(at, "expired")
        if APPLIED not in snapshot.summary and (write := _find_write(snapshot)):
            return write
    return None
