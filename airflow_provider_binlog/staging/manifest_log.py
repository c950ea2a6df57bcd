"""The manifests of one source, an append-only log, and the table of each name after them.

A manifest's key is created only if it is absent: of two runs that staged the same range exactly
one commits its manifest. Of a table that the next ranges do not touch, the newest schema file of
its name says all that is known; they are written from a committed manifest alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConflictError, ManifestError, error_context
from airflow_provider_binlog.manifest import Manifest, check_follows
from airflow_provider_binlog.position import Position, SourceIdentity, is_contiguous
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    TableName,
    TableState,
)
from airflow_provider_binlog.staging.paths import (
    StoredFiles,
    find_manifest,
    find_past_manifest,
    list_manifests,
    manifest_name,
    manifest_path,
    maybe_sequence,
    read_manifest,
    schema_folder,
)
from airflow_provider_binlog.stored_json import StoredFormat

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore


class ManifestLog:
    """The manifests of `source` in `store`."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store = store
        self._files = StoredFiles(store, source)

    def key(self, sequence: int) -> str:
        """Return the key under which a manifest is stored."""
        return self._files.locate(manifest_path(sequence))

    def sequences(self) -> list[int]:
        """Return the numbers of all manifests, ascending, from one listing."""
        return list_manifests(self._files)

    def load(self, sequence: int) -> Manifest:
        """Return one manifest; see `read_manifest`."""
        return read_manifest(self._files, sequence)

    def maybe_load(self, sequence: int) -> Manifest | None:
        """Return one manifest; None if there is none of this number; see `find_manifest`."""
        return find_manifest(self._files, sequence)

    def load_past(self, sequence: int) -> Manifest | None:
        """Return one manifest, also if its parts were removed; see `find_past_manifest`."""
        return find_past_manifest(self._files, sequence)

    def latest(self) -> Manifest | None:
        """Return the newest manifest; None if the source has none yet."""
        sequences = self.sequences()
        return self.load(sequences[-1]) if sequences else None

    def commit(self, manifest: Manifest) -> str:
        """Add a manifest to the log, which makes its parts visible. Return its key.

        Committing the same manifest again changes nothing.

        Raises:
            ManifestError: The previous manifest is missing, or does not stop where this one starts.
            ConflictError: Another run committed this number first.
        """
        if manifest.sequence > 1:
            check_follows(self.load(manifest.sequence - 1).end, manifest)
        key, data = self.key(manifest.sequence), manifest.encode()
        try:
            self._store.create(key, data)
        except ConflictError:
            if self._store.read(key) != data:
                raise
        return key

    def reuse(self, sequence: int, identity: SourceIdentity, start: Position) -> Manifest | None:
        """Return the manifest that already has the number `sequence`; None if there is none.

        Raises:
            ConflictError: That manifest does not start where the run starts.
        """
        manifest = self.maybe_load(sequence)
        if manifest is None:
            return None
        if not is_contiguous(start, identity, manifest.start, manifest.identity):
            raise ConflictError(
                "this sequence number is taken by another range: does the checkpoint lag behind "
                "the manifests, or do two sources share a name?",
                key=self.key(sequence),
                holds=manifest.start,
                wanted=start,
            )
        return manifest


FORMAT = StoredFormat("airflow-provider-binlog/schema", 1, "a schema file")

_WRITERS = 8


@dataclass(frozen=True)
class SchemaFile:
    """The table of a name after a manifest; None where no table has the name any more.

    The name of a database that was dropped is (database, "").
    """

    sequence: int
    name: TableName
    state: TableState | None


class SchemaFiles:
    """The schema files of `source` in `store`."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store = store
        self._source = source

    def publish(self, manifest: Manifest) -> None:
        """Write the files of a committed manifest: again, where an earlier run did already."""
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(self._write, files_of(manifest)))

    def _write(self, file: SchemaFile) -> None:
        folder = self._folder(file.name)
        self._store.write(f"{folder}/{manifest_name(file.sequence)}", FORMAT.encode(file))

    def find(self, name: TableName, *, before: int) -> SchemaFile | None:
        """Return the newest file of a name from below a sequence; None if there is none."""
        folder = self._folder(name)
        newest = self._newest(folder, before)
        if newest is not None and newest.name != name:
            raise ManifestError(
                "a schema file under another's key", folder=folder, name=newest.name
            )
        return newest

    def find_newest(self, name: TableName, latest: Manifest | None) -> SchemaFile | None:
        """Return what is known of a name after the newest manifest; None if nothing is."""
        if latest is None:
            return None
        for file in files_of(latest, all_tables=True):
            if file.name == name:
                return file
        return self.find(name, before=latest.sequence)

    def _folder(self, name: TableName) -> str:
        database, table = name
        return schema_folder(self._source, database, table or None)

    def find_all(self, database: str, *, before: int) -> Iterator[SchemaFile]:
        """Yield the newest file of every name in a database from below a sequence."""
        around = schema_folder(self._source, database)
        for folder in self._store.folders(around):
            newest = self._newest(f"{around}/{folder}", before)
            if newest is not None:
                yield newest

    def _newest(self, folder: str, before: int) -> SchemaFile | None:
        numbers = map(maybe_sequence, self._store.list(folder))
        older = [number for number in numbers if number is not None and number < before]
        if not older:
            return None
        key = f"{folder}/{manifest_name(max(older))}"
        with error_context(key=key):
            return FORMAT.decode(SchemaFile, self._store.read(key))


def files_of(manifest: Manifest, *, all_tables: bool = False) -> list[SchemaFile]:
    """Return the files that a manifest gives rise to: of names whose table, or schema, changed."""
    live = {table.name: table for table in manifest.tables if not table.dropped}
    names = {table.name for table in manifest.tables if table.changed or all_tables}
    names |= {(database, "") for database in manifest.dropped_databases}
    for statement in manifest.statements:
        for action in statement.actions:
            if isinstance(action, CreateTable | DropTable):
                names.add(action.name)
            elif isinstance(action, RenameTable):
                names |= {action.old, action.new}
    return [
        SchemaFile(manifest.sequence, name, live[name].state if name in live else None)
        for name in sorted(names)
    ]
