"""The keys of a source's staged files, below the root of the store, and its snapshots by them.

    <source>/manifests/0000000000000042.json
    <source>/schemas/<database>/<table>/0000000000000041.json
    <source>/schemas/<database>/0000000000000041.json
    <source>/<database>/<table>/0000000000000042-000007-9f86d081884c.parquet
    <source>/snapshots/...
    <source>/backlogs/<plan>/plan.json
    <source>/backlogs/<plan>/000007.json

Those of snapshots are in `snapshot_manifest.py`. This module ships with the merge.

The three names are percent-encoded, because MySQL lets them hold anything: `/`, `..`, `%`, `:`,
spaces. An encoded name is pure ASCII and safe on S3, for Hadoop's `Path` (which takes `:` for a
scheme and `{a,b}` for a pattern, and skips names that begin with `_` or `.`), in a URI and in
a folder. No key is a prefix of another one followed by `/`: some stores cannot hold both
`a/b` and `a/b/c`.

Names that differ only in case share a folder where the file system ignores case. Their files have
different names even so: a part's ordinal counts over all tables of its range.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import ManifestError, ObjectMissingError, StagingError
from airflow_provider_binlog.names import encode_name, escape_first
from airflow_provider_binlog.snapshot_manifest import (
    SNAPSHOTS,
    SnapshotManifest,
    digest_in,
    snapshot_path,
    table_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.staging.object_store import ObjectStore

MANIFESTS = "manifests"
"""The folder of a source's manifests; a database of this name is stored as `%6Danifests`."""

SCHEMAS = "schemas"
"""The folder of a source's schema files; a database of this name is stored as `%73chemas`."""

BACKLOGS = "backlogs"
"""The folder of a source's backlogs; a database of this name is stored as `%62acklogs`."""

_SEQUENCE_DIGITS = 16
_ORDINAL_DIGITS = 6
_MANIFEST_NAME = re.compile(rf"(\d{{{_SEQUENCE_DIGITS}}})\.json", re.ASCII)
_PART_NAME = re.compile(rf"(\d{{{_SEQUENCE_DIGITS}}})-", re.ASCII)


def source_folder(source: str) -> str:
    """Return the folder of everything staged for `source`."""
    return encode_name(source)


def manifest_folder(source: str) -> str:
    """Return the folder of the manifests of `source`."""
    return f"{source_folder(source)}/{MANIFESTS}"


def manifest_name(sequence: int) -> str:
    """Return the name of a manifest's file: names sort as the numbers do.

    Raises:
        StagingError: The number is below 1 or has more than 16 digits.
    """
    if not 1 <= sequence < 10**_SEQUENCE_DIGITS:
        raise StagingError("not the sequence number of a manifest", sequence=sequence)
    return f"{sequence:0{_SEQUENCE_DIGITS}}.json"


def maybe_sequence(name: str) -> int | None:
    """Return the number in the name of a manifest's file; None if it is another file."""
    match = _MANIFEST_NAME.fullmatch(name)
    return int(match[1]) if match else None


def schema_folder(source: str, database: str, table: str | None = None) -> str:
    """Return the folder of a table's schema files, or that around those of a database."""
    folder = f"{source_folder(source)}/{SCHEMAS}/{encode_name(database)}"
    return folder if table is None else f"{folder}/{encode_name(table)}"


def backlogs_folder(source: str) -> str:
    """Return the folder of the plans of backlogs."""
    return f"{source_folder(source)}/{BACKLOGS}"


def backlog_folder(source: str, plan_id: str) -> str:
    """Return the folder of a plan, and of what its sub-ranges were staged as."""
    return f"{backlogs_folder(source)}/{plan_id}"


def part_path(database: str, table: str, sequence: int, ordinal: int, range_id: str) -> str:
    """Return the path of a part below its source's folder: what `Part.path` holds.

    `ordinal` counts the parts of the range over all of its tables. `range_id` identifies the
    range, so that two runs that stage different ranges under one number do not overwrite each
    other's parts.

    Raises:
        StagingError: A number is negative or has too many digits.
    """
    if not 0 <= ordinal < 10**_ORDINAL_DIGITS:
        raise StagingError("not the ordinal of a part", ordinal=ordinal)
    stem = manifest_name(sequence).removesuffix(".json")
    folder = encode_name(database)
    if folder.casefold() in (MANIFESTS, SCHEMAS, SNAPSHOTS, BACKLOGS):
        folder = escape_first(folder)
    return f"{folder}/{encode_name(table)}/{stem}-{ordinal:0{_ORDINAL_DIGITS}}-{range_id}.parquet"


def part_sequence(path: str) -> int:
    """Return the number of the manifest that a part belongs to, by its path; 0 for a snapshot's.

    Raises:
        StagingError: It is no path of a part.
    """
    match = _PART_NAME.match(path.rpartition("/")[2])
    if match is None:
        raise StagingError("not the path of a part", path=path)
    return int(match[1])


def part_key(source: str, path: str) -> str:
    """Return the key of a part, given its path below the source's folder."""
    return f"{source_folder(source)}/{path}"


class ReadFiles(Protocol):
    """The files staged for one source, to be read; paths are relative to the source's folder."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, perhaps of folders in it; none without it."""

    def locate(self, path: str) -> str:
        """Return the name of a file in messages, and for Spark."""


class StoredFiles:
    """The files staged for one source in a store."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store, self._source = store, source

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        try:
            return self._store.read(self.locate(path))
        except ObjectMissingError:
            return None

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it does not exist."""
        return self._store.list(self.locate(folder))

    def locate(self, path: str) -> str:
        """Return the key of a file."""
        return f"{source_folder(self._source)}/{path}"


class Snapshots:
    """The snapshots of a source, by table; a manifest is read when it is wanted."""

    def __init__(self, files: ReadFiles) -> None:
        self._files = files
        names = files.list(SNAPSHOTS)
        self._ids = ids_by_digest(
            name.removesuffix(".json") for name in names if name.endswith(".json")
        )

    def ids(self) -> list[str]:
        """Return the id of the newest snapshot of each table."""
        return sorted(ids[-1] for ids in self._ids.values())

    def ids_of(self, name: TableName) -> Sequence[str]:
        """Return the ids of a table's snapshots, the newest last."""
        return self._ids.get(table_digest(name), ())

    def newest_id(self, name: TableName) -> str | None:
        """Return the id of the newest snapshot of a table; None if it has none."""
        return next(reversed(self.ids_of(name)), None)

    def since(self, name: TableName, loaded: str) -> list[str]:
        """Return the ids of a table's snapshots that are newer than one, in order."""
        return [snapshot_id for snapshot_id in self.ids_of(name) if snapshot_id > loaded]

    def read(self, snapshot_id: str) -> SnapshotManifest:
        """Return the manifest of a snapshot.

        Raises:
            ManifestError: It was deleted, is unreadable, or has another id.
        """
        path = snapshot_path(snapshot_id)
        data = self._files.read(path)
        if data is None:
            raise ManifestError("a snapshot was deleted", snapshot=self._files.locate(path))
        try:
            manifest = SnapshotManifest.decode(data)
        except ManifestError as error:
            error.context["snapshot"] = self._files.locate(path)
            error.context["repair"] = "take the snapshot of the table again, or delete this file"
            raise
        if manifest.id != snapshot_id:
            raise ManifestError(
                "a snapshot under another's name",
                snapshot=self._files.locate(path),
                holds=manifest.id,
            )
        return manifest


def ids_by_digest(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of snapshots, the newest last, by the digest of their table.

    Args:
        names: Of manifests without `.json`, or of folders; what is no id is left out.
    """
    by_digest: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        if (digest := digest_in(name)) is not None:
            by_digest[digest].append(name)
    return dict(by_digest)
