"""The manifests of one source, an append-only log, and the table of each name after them.

    <source>/manifests/0000000000000042.json
    <source>/schemas/<database>/<table>/0000000000000041.json
    <source>/schemas/<database>/0000000000000041.json          the database was dropped

A manifest's key is its sequence number, and the key is created only if it is absent: of two runs
that staged the same range exactly one commits its manifest. Each manifest starts where the previous
one stops.

A manifest names every table that its range touched with all that is known of it; of a table that
the next ranges do not touch, the newest schema file of its name says the same. Schema files are
written from a committed manifest alone, by the run that stages the range after it: whoever writes
one writes the same bytes, and no run leaves one of a range that is not committed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConflictError, ManifestError, ObjectMissingError
from airflow_provider_binlog.manifest import REPAIR, Manifest, check_follows
from airflow_provider_binlog.position import is_contiguous
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    TableName,
    TableState,
)
from airflow_provider_binlog.staging.paths import (
    manifest_folder,
    manifest_name,
    maybe_sequence,
    schema_folder,
)
from airflow_provider_binlog.stored_json import StoredFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.staging.object_store import ObjectStore


class ManifestLog:
    """The manifests of `source` in `store`."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store = store
        self._folder = manifest_folder(source)

    def key(self, sequence: int) -> str:
        """Return the key under which a manifest is stored."""
        return f"{self._folder}/{manifest_name(sequence)}"

    def sequences(self) -> list[int]:
        """Return the numbers of all manifests, ascending, from one listing."""
        numbers = map(maybe_sequence, self._store.list(self._folder))
        return [number for number in numbers if number is not None]

    def load(self, sequence: int) -> Manifest:
        """Return one manifest.

        Raises:
            ManifestError: It is missing or unreadable, or has another number inside.
        """
        manifest = self.maybe_load(sequence)
        if manifest is None:
            raise ManifestError("there is no such manifest", key=self.key(sequence), repair=REPAIR)
        return manifest

    def maybe_load(self, sequence: int) -> Manifest | None:
        """Return one manifest; None if there is none of this number.

        Raises:
            ManifestError: It is unreadable, or has another number inside.
        """
        key = self.key(sequence)
        try:
            manifest = Manifest.decode(self._store.read(key))
        except ObjectMissingError:
            return None
        except ManifestError as error:
            error.context |= {"key": key, "repair": REPAIR}
            raise
        if manifest.sequence != sequence:
            raise ManifestError(
                "a manifest under the wrong key",
                key=key,
                holds=manifest.sequence,
                repair=REPAIR,
            )
        return manifest

    def latest(self) -> Manifest | None:
        """Return the newest manifest; None if the source has none yet."""
        sequences = self.sequences()
        return self.load(sequences[-1]) if sequences else None

    def commit(self, manifest: Manifest) -> str:
        """Add a manifest to the log, which makes its parts visible. Return its key.

        Committing the same manifest again changes nothing: the response to the first try may have
        been lost.

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

        An earlier try of the run, or another run, may have committed it. If it starts where the run
        starts, its range is staged, and the run reuses it and continues after its stop.

        Raises:
            ConflictError: That manifest starts elsewhere.
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
    """The table of a name after a manifest.

    Attributes:
        sequence: Number of the manifest.
        name: Database and table; of a database that was dropped, (database, "").
        state: The table; None where no table has the name any more.
    """

    sequence: int
    name: TableName
    state: TableState | None

    def encode(self) -> bytes:
        """Return the file as it is stored; see `stored_json`."""
        return FORMAT.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> SchemaFile:
        """Read what `encode` wrote.

        Raises:
            ManifestError: The bytes are no schema file, one that was edited or cut, or one of
                another version.
        """
        return FORMAT.decode(cls, data)


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
        self._store.write(f"{folder}/{manifest_name(file.sequence)}", file.encode())

    def find(self, name: TableName, *, before: int) -> SchemaFile | None:
        """Return the newest file of a name from below a sequence; None if there is none.

        Raises:
            ManifestError: It is unreadable, or of another name.
        """
        folder = self._folder(name)
        newest = self._newest(folder, before)
        if newest is not None and newest.name != name:
            raise ManifestError(
                "a schema file under another's key", folder=folder, name=newest.name
            )
        return newest

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
        try:
            return SchemaFile.decode(self._store.read(key))
        except ManifestError as error:
            error.context["key"] = key
            raise


def files_of(manifest: Manifest) -> list[SchemaFile]:
    """Return the files that a manifest gives rise to: of names whose table, or schema, changed."""
    live = {table.name: table for table in manifest.tables if not table.dropped}
    names = {table.name for table in manifest.tables if table.changed}
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
