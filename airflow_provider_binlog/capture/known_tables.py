"""The tables known before a range: from the manifest before it, else from schema files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.schema_history.tables import NO_TABLE, NOTHING_KNOWN, Known, NoTable
from airflow_provider_binlog.staging.schema_files import SchemaFile, SchemaFiles

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.staging.manifest_log import ManifestLog
    from airflow_provider_binlog.staging.object_store import ObjectStore


def known_tables(
    store: ObjectStore, source_name: str, log: ManifestLog, before: Manifest | None
) -> Known:
    """Return what is known of tables after a committed manifest, and write its schema files.

    A name is looked up when it is first wanted.
    """
    if before is None:
        return NOTHING_KNOWN
    files = SchemaFiles(store, source_name)
    files.publish(before)
    tables = _KnownTables(files, log, before)
    return Known(tables.find, tables.find_all)


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


def _filter_of(manifest: Manifest) -> TableFilter:
    return TableFilter(manifest.include, manifest.exclude)
