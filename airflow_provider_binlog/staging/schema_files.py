"""The table of each name after the committed manifests: a file for every change.

    <source>/schemas/<database>/<table>/0000000000000041.json
    <source>/schemas/<database>/0000000000000041.json          the database was dropped

A manifest names every table that its range touched with all that is known of it; of a table that
the next ranges do not touch, the newest file of its name says the same. The files are written from
a committed manifest alone, by the run that stages the range after it: whoever writes one writes the
same bytes, and no run leaves one of a range that is not committed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    TableName,
    TableState,
)
from airflow_provider_binlog.staging.paths import manifest_name, maybe_sequence, schema_folder
from airflow_provider_binlog.stored_json import StoredFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore

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
