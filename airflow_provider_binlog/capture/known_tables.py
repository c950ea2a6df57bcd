"""The tables known before a range: from the manifest before it, else from schema files.

Of a table that was loaded from a snapshot, and of which nothing was logged since, the snapshot has
the columns: a statement that alters it is followed in them.
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
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.staging.schema_files import SchemaFile, SchemaFiles
from airflow_provider_binlog.staging.snapshots import Snapshots

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
    """Return what is known of tables after a committed manifest, and write its schema files.

    A name is looked up when it is first wanted.
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
        self._live = {each.name: each.state for each in before.tables if not each.dropped}
        self._found: dict[TableName, TableState | NoTable | None] = {}
        # By database: where it was last dropped, with tables that no manifest mentions.
        self._dropped: dict[str, SchemaFile | None] = {}
        # By sequence: a manifest that was the last one under its globs, and they.
        self._filters = {before.sequence: (_filter_of(before), before.captured_since)}

    def find(self, name: TableName) -> TableState | NoTable | None:
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def find_all(self, database: str) -> list[TableState]:
        names = {name for name in self._live if name[0] == database}
        found = self._files.find_all(database, before=self._before.sequence + 1)
        names |= {each.name for each in found}
        states = map(self.find, sorted(names))
        return [state for state in states if isinstance(state, TableState)]

    def _find(self, name: TableName) -> TableState | NoTable | None:
        at = self._before.sequence
        found = (
            SchemaFile(at, name, self._live[name])
            if name in self._live
            else self._files.find(name, before=at + 1) or self._find_dropped(name[0])
        )
        if found is None or not self._was_captured(name, since=found.sequence):
            return None
        return NO_TABLE if found.state is None else found.state

    def _find_dropped(self, database: str) -> SchemaFile | None:
        if database not in self._dropped:
            before = self._before.sequence + 1
            self._dropped[database] = self._files.find((database, ""), before=before)
        return self._dropped[database]

    def captures_since(self, name: TableName, at: Position) -> bool:
        """Whether all changes of a table from a position on are staged, by the same globs."""
        first = self._first
        return (
            _filter_of(self._before).matches(*name)
            and first is not None
            and first.identity == self._before.identity
            and first.start.coordinates <= at.coordinates
        )

    @cached_property
    def _first(self) -> Manifest | None:
        """The first manifest with the globs of the last one, without a gap between them."""
        return self._log.maybe_load(self._before.captured_since)

    def _was_captured(self, name: TableName, *, since: int) -> bool:
        """Whether a name was captured in every range from one on: its changes are staged."""
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
        """Return the schema of a table's newest snapshot that a manifest has reached.

        Whoever finds nothing about the table in the staged log knows that it has this schema still.
        A later snapshot changes nothing of it: a range that is staged again has the same schemas.
        """
        snapshots = map(self._read, reversed(self._snapshots.ids_of(name)))
        reached = (
            each
            for each in snapshots
            if each is not None
            # The columns of an adopted table were read at some time after its position.
            and not each.adopts
            and each.identity == before.identity
            and each.high.coordinates <= before.stop.coordinates
        )
        snapshot = next(reached, None)
        if snapshot is None or not self._captures_since(name, snapshot.high):
            return None
        staged_alike = (snapshot.zero_dates, snapshot.invalid_text) == (
            before.zero_dates,
            before.invalid_text,
        )
        return snapshot.schema if staged_alike else None

    def _read(self, snapshot_id: str) -> SnapshotManifest | None:
        try:
            return self._snapshots.read(snapshot_id)
        except ManifestError:
            return None  # whoever needs its rows says so


def _filter_of(manifest: Manifest) -> TableFilter:
    return TableFilter(manifest.include, manifest.exclude)
