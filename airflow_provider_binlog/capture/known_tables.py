"""Tables before a range: from the previous manifest, else from schema files.

The columns of a table that was loaded from a snapshot, and has not been logged since, come from the
snapshot: a statement that alters the table is applied to them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.schema_history.tables import (
    NO_TABLE,
    NOTHING_KNOWN,
    NoTable,
    TableLookup,
)
from airflow_provider_binlog.staging.manifest_log import SchemaFile, SchemaFiles
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema import Schema, TableName
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.staging.manifest_log import ManifestLog
    from airflow_provider_binlog.staging.object_store import ObjectStore


def known_tables(
    store: ObjectStore, source_name: str, log: ManifestLog, before: Manifest | None
) -> TableLookup:
    """Return a lookup of tables after a committed manifest, and write its schema files.

    Schema files are read when a name is first looked up.
    """
    if before is None:
        return NOTHING_KNOWN
    files = SchemaFiles(store, source_name)
    files.publish(before)
    tables = _KnownTables(files, log, before)
    snapshots = _SnapshotSchemas(StoredFiles(store, source_name), tables.captures_since)
    return TableLookup(tables.find, tables.find_all, lambda name: snapshots.find(name, before))


class _KnownTables:
    def __init__(self, files: SchemaFiles, log: ManifestLog, before: Manifest) -> None:
        self._files = files
        self._log = log
        self._before = before
        self._live = {table.name: table.state for table in before.tables if not table.dropped}
        self._cache: dict[TableName, TableState | NoTable | None] = {}
        # By database: the schema file of its last drop, which covers tables in no manifest.
        self._dropped: dict[str, SchemaFile | None] = {}
        # By the sequence of the last manifest under some globs: the globs, and the first manifest.
        self._filters = {before.sequence: (_filter_of(before), before.captured_since)}

    def find(self, name: TableName) -> TableState | NoTable | None:
        if name not in self._cache:
            self._cache[name] = self._find(name)
        return self._cache[name]

    def find_all(self, database: str) -> list[TableState]:
        names = {name for name in self._live if name[0] == database}
        files = self._files.find_all(database, before=self._before.sequence + 1)
        names |= {file.name for file in files}
        states = map(self.find, sorted(names))
        return [state for state in states if isinstance(state, TableState)]

    def _find(self, name: TableName) -> TableState | NoTable | None:
        at = self._before.sequence
        file = (
            SchemaFile(at, name, self._live[name])
            if name in self._live
            else self._files.find(name, before=at + 1) or self._find_dropped(name[0])
        )
        # A file from before a time in which the table was not captured may be out of date.
        if file is None or not self._was_captured(name, since=file.sequence):
            return None
        return NO_TABLE if file.state is None else file.state

    def _find_dropped(self, database: str) -> SchemaFile | None:
        if database not in self._dropped:
            before = self._before.sequence + 1
            self._dropped[database] = self._files.find((database, ""), before=before)
        return self._dropped[database]

    def captures_since(self, name: TableName, at: Position) -> bool:
        """Whether all changes of a table from a position on are staged, under the same globs."""
        first = self._first
        return (
            _filter_of(self._before).matches(*name)
            and first is not None
            and first.identity == self._before.identity
            and first.start.coordinates <= at.coordinates
        )

    @cached_property
    def _first(self) -> Manifest | None:
        """The first of the consecutive manifests with the globs of the last one."""
        return self._log.maybe_load(self._before.captured_since)

    def _was_captured(self, name: TableName, *, since: int) -> bool:
        """Whether a name has been captured in every range from one on."""
        at = self._before.sequence
        while True:
            if at not in self._filters:
                manifest = self._log.maybe_load(at)
                if manifest is None:
                    return False
                self._filters[at] = _filter_of(manifest), manifest.captured_since
            captured, first = self._filters[at]
            if not captured.matches(*name):
                return False
            if first <= since:
                return True
            at = first - 1


class _SnapshotSchemas:
    """The columns of tables in their snapshots."""

    def __init__(
        self, files: StoredFiles, captures_since: Callable[[TableName, Position], bool]
    ) -> None:
        self._files = files
        self._captures_since = captures_since

    @cached_property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self._files)

    def find(self, name: TableName, before: Manifest) -> Schema | None:
        """Return the schema of a table's newest snapshot before the stop of a manifest.

        Without a later statement in the staged log, the table still has this schema. Snapshots
        after the stop do not count: a range that is staged again must get the same schemas.
        """
        snapshots = map(self._read, reversed(self._snapshots.ids_of(name)))
        reached = (
            snapshot
            for snapshot in snapshots
            if snapshot is not None
            # The columns of an adopted table were read at some time after its position.
            and not snapshot.adopts
            and snapshot.identity == before.identity
            and snapshot.high.coordinates <= before.stop.coordinates
        )
        newest = next(reached, None)
        if newest is None or not self._captures_since(name, newest.high):
            return None
        # The policies decide the types of columns.
        same_policies = (newest.zero_dates, newest.invalid_text) == (
            before.zero_dates,
            before.invalid_text,
        )
        return newest.schema if same_policies else None

    def _read(self, snapshot_id: str) -> SnapshotManifest | None:
        try:
            return self._snapshots.read(snapshot_id)
        except ManifestError:
            return None  # the load that needs its rows raises the error


def _filter_of(manifest: Manifest) -> TableFilter:
    return TableFilter(manifest.include, manifest.exclude)
