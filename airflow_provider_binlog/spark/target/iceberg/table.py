"""One Iceberg table as it is loaded: its columns, its snapshots, and the applied mark.

Each merge's snapshot has its mark as a property. Compactions and writes of others have none: the
mark is that of the last ancestor that has one. Ancestors expire; what they said is in the table's
previous metadata files.
"""

# ruff: noqa: SLF001  Iceberg takes Java's session.

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from airflow_provider_binlog.errors import MALFORMED
from airflow_provider_binlog.spark.target.jvm import java_class, read_map, set_active
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    TABLE_ID,
    Contents,
    Mark,
    read_copied,
    rows_of_another,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

APPLIED = "binlog.applied"
"""Property of a snapshot: the applied mark. As a table property, set by hand, `{"applied": "7",
"snapshot": 123}`: the mark of that snapshot."""

CONTAINS_TABLE = "binlog.table_id"
"""Property of a snapshot: the id of the table whose rows it has; empty if the merge did not say."""

LOADED = "binlog.loaded"
"""Property of a snapshot: the id of the staged snapshot that the table was last loaded from; empty
if from none."""

WRITER = "binlog.source"
"""Property of a snapshot: the name of the source whose merge made it."""

_COMMIT_PROPERTY = "spark.sql.iceberg.snapshot-property"
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
_MISSING_CLASSES = ("NoSuchNamespaceException", "NoSuchTableException")


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a table.

    Attributes:
        id: Its number.
        parent: The snapshot that it was built on; None for the first one.
        summary: Its properties.
    """

    id: int
    parent: int | None
    summary: dict[str, str]


class IcebergTable:
    """A table as it was when it was loaded.

    Args:
        session: The session that it was loaded with.
        table: Java's.
    """

    def __init__(self, session: SparkSession, table: Any) -> None:
        self.java = table
        self._session = session
        self._snapshots: dict[int, Snapshot] = {}
        self._metadata: Any = None
        self._previous: list[Any] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return read_map(self._session, self.java.properties())

    @property
    def columns(self) -> dict[str, str]:
        """Name and Spark type of each column, in order."""
        util = java_class(self._session, "org.apache.iceberg.spark.SparkSchemaUtil")
        fields = StructType.fromJson(json.loads(util.convert(self.java.schema()).json()))
        return {field.name: field.dataType.simpleString() for field in fields}

    @property
    def column_ids(self) -> dict[str, str]:
        """The field ids of its columns by name."""
        parser = java_class(self._session, "org.apache.iceberg.SchemaParser")
        fields = json.loads(parser.toJson(self.java.schema()))["fields"]
        return {str(field["name"]): str(field["id"]) for field in fields}

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
        """Return a snapshot, also one that expired; None if no metadata file of the table has it.

        Metadata files are read one by one, the newest first.
        """
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
        read = Snapshot(value["snapshot-id"], parent, summary)
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
    by_hand = _read_by_hand(properties)
    at, written, copied = current, False, frozenset[str]()
    while at is not None:
        if at in by_hand:
            return Contents(by_hand[at], snapshot=None)
        snapshot = find_snapshot(at)
        if snapshot is None:
            return (
                f"snapshot {at} expired, and with it what was applied: reload the table, or set "
                f"the table property {APPLIED} to "
                f'{{"applied": "MANIFEST", "snapshot": {current}}} if you know it'
            )
        # Also of the copy itself, whose merge may have been killed.
        summary = snapshot.summary
        copied |= read_copied(summary)
        if APPLIED in summary and (writer := summary.get(WRITER, "")) != source:
            return rows_of_another(writer)
        if APPLIED in summary:
            mark, table = Mark.parse(summary[APPLIED]), summary.get(CONTAINS_TABLE)
            return Contents(mark, table or None, summary.get(LOADED, ""), copied)
        at, written = snapshot.parent, True
    # Whoever loads a table by hand sets no table id; the first merge does.
    replaced = written and TABLE_ID in properties
    if replaced:
        return "no snapshot of the table is that of a merge: it was replaced"
    return Contents(NOTHING)


def _read_by_hand(properties: Mapping[str, str]) -> dict[int, Mark]:
    try:
        value = json.loads(properties[APPLIED])
        return {int(value["snapshot"]): Mark.parse(str(value["applied"]))}
    except MALFORMED:
        return {}
