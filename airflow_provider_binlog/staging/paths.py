"""The keys of a source's staged files, and its manifests and snapshots by them.

    <source>/manifests/0000000000000042.json
    <source>/schemas/<database>/<table>/0000000000000041.json
    <source>/schemas/_manifests/0000000000000001.json
    <source>/<database>/<table>/0000000000000042-000007-9f86d081884c.parquet
    <source>/snapshots/...
    <source>/backlogs/<plan>/plan.json

The three names are percent-encoded: safe on S3, in a URI, in a folder and for Hadoop's `Path`. No
key is a prefix of another one followed by `/`, which some stores cannot hold. Names that differ
only in case may share a folder, but no file: a part's ordinal counts over all tables of its range.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog import errors
from airflow_provider_binlog.manifest import REPAIR, Manifest
from airflow_provider_binlog.names import encode_name, escape_first
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import (
    SNAPSHOTS,
    SnapshotManifest,
    digest_in,
    planned_at,
    table_digest,
)

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore

# A database of such a name is stored as `%6Danifests`, `%73chemas` or `%62acklogs`.
MANIFESTS, SCHEMAS, BACKLOGS = "manifests", "schemas", "backlogs"
KEPT_MANIFESTS, KEPT_SNAPSHOTS = f"{SCHEMAS}/_manifests", f"{SCHEMAS}/_snapshots"
"""Copies of removed manifests, of ranges and of snapshots, that say what capture has to know. No
database's folder begins with an underscore."""

REPORTS = "_reports"
"""The folder of the reports of merges; no database's folder begins with an underscore."""

_THREADS = 8
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
    """Return the name of a manifest's file: names sort as the numbers, of up to 16 digits, do."""
    if not 1 <= sequence < 10**_SEQUENCE_DIGITS:
        raise errors.StagingError("not the sequence number of a manifest", sequence=sequence)
    return f"{sequence:0{_SEQUENCE_DIGITS}}.json"


def manifest_path(sequence: int) -> str:
    """Return the path of a manifest's file in the folder of its source."""
    return f"{MANIFESTS}/{manifest_name(sequence)}"


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

    `ordinal` counts the parts of the range over all of its tables. `range_id` keeps two runs that
    stage different ranges under one number from overwriting each other's parts.
    """
    if not 0 <= ordinal < 10**_ORDINAL_DIGITS:
        raise errors.StagingError("not the ordinal of a part", ordinal=ordinal)
    stem = manifest_name(sequence).removesuffix(".json")
    name = f"{stem}-{ordinal:0{_ORDINAL_DIGITS}}-{range_id}.parquet"
    return f"{_parts_folder(database, table)}/{name}"


def _parts_folder(database: str, table: str) -> str:
    folder = encode_name(database)
    if folder.casefold() in (MANIFESTS, SCHEMAS, SNAPSHOTS, BACKLOGS):
        folder = escape_first(folder)
    return f"{folder}/{encode_name(table)}"


def table_folder(source: str, database: str, table: str) -> str:
    """Return the folder of the parts that are staged of a table's changes."""
    return f"{source_folder(source)}/{_parts_folder(database, table)}"


def part_sequence(path: str) -> int:
    """Return the number of the manifest that a part belongs to, by its path; 0 for a snapshot's."""
    number = maybe_part_sequence(path)
    if number is None:
        raise errors.StagingError("not the path of a part", path=path)
    return number


def maybe_part_sequence(path: str) -> int | None:
    """Return what `part_sequence` returns; None if it is the path of another file."""
    match = _PART_NAME.match(path.rpartition("/")[2])
    return None if match is None else int(match[1])


def part_key(source: str, path: str) -> str:
    """Return the key of a part, given its path below the source's folder."""
    return f"{source_folder(source)}/{path}"


def report_path(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return the path of the report of a merge task's job below its source's folder."""
    names = dag_id, run_id, task_id, str(max(map_index, 0))
    return f"{REPORTS}/{'/'.join(map(encode_name, names))}.json"


class ReadFiles(Protocol):
    """The files staged for one source, to be read; paths are relative to the source's folder."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, perhaps of folders in it; none without it."""

    def exists(self, path: str) -> bool:
        """Whether there is a file, which costs less than failing to read it."""

    def locate(self, path: str) -> str:
        """Return the name of a file in messages, and for Spark."""


class StoredFiles:
    """The files staged for one source in a store, as merges read and write them."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store, self._source = store, source

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        try:
            return self._store.read(self.locate(path))
        except errors.ObjectMissingError:
            return None

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it does not exist."""
        return self._store.list(self.locate(folder))

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Return a file's size in bytes; None if it does not exist."""
        try:
            return self._store.size(self.locate(path))
        except errors.ObjectMissingError:
            return None

    def write(self, path: str, data: bytes) -> None:
        """Store a file, in place of the one that is there."""
        self._store.write(self.locate(path), data)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        self._store.delete([self.locate(path)])

    def locate(self, path: str) -> str:
        """Return the key of a file."""
        return f"{source_folder(self._source)}/{path}"


def list_manifests(files: ReadFiles) -> list[int]:
    """Return the numbers of the manifests that there are, ascending."""
    numbers = map(maybe_sequence, files.list(MANIFESTS))
    return sorted(number for number in numbers if number is not None)


def read_manifests(files: ReadFiles, sequences: Iterable[int]) -> list[Manifest]:
    """Return the manifests of these numbers, in their order.

    Raises:
        ManifestError: One is missing, unreadable, or bears another number.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda sequence: read_manifest(files, sequence), sequences))


def read_manifest(files: ReadFiles, sequence: int) -> Manifest:
    """Return one manifest; see `read_manifests`."""
    manifest = find_manifest(files, sequence)
    if manifest is None:
        path = files.locate(manifest_path(sequence))
        raise errors.ManifestError("a manifest is missing", manifest=path, repair=REPAIR)
    return manifest


def find_manifest(files: ReadFiles, sequence: int) -> Manifest | None:
    """Return one manifest; None if there is none of this number; see `read_manifests`."""
    return _find_manifest(files, manifest_path(sequence), sequence)


def find_past_manifest(files: ReadFiles, sequence: int) -> Manifest | None:
    """Return one manifest, also if its parts were removed; None if nothing is kept of it."""
    path = f"{KEPT_MANIFESTS}/{manifest_name(sequence)}"
    return find_manifest(files, sequence) or _find_manifest(files, path, sequence)


def _find_manifest(files: ReadFiles, path: str, sequence: int) -> Manifest | None:
    data = files.read(path)
    if data is None:
        return None
    with errors.error_context(manifest=files.locate(path), repair=REPAIR):
        manifest = Manifest.decode(data)
        if manifest.sequence != sequence:
            raise errors.ManifestError("a manifest under another's name", holds=manifest.sequence)
    return manifest


class Snapshots:
    """The snapshots of a source, by table; a manifest is read when it is wanted.

    Also those whose parts were `removed`, if they are wanted: their manifests are kept.
    """

    def __init__(self, files: ReadFiles, *, removed: bool = False) -> None:
        self._files = files
        self._folders = (SNAPSHOTS, KEPT_SNAPSHOTS) if removed else (SNAPSHOTS,)
        names = {name for folder in self._folders for name in files.list(folder)}
        self._ids = ids_by_digest(
            name.removesuffix(".json") for name in names if name.endswith(".json")
        )

    def ids(self) -> list[str]:
        """Return the id of the newest snapshot of each table."""
        return sorted(ids[-1] for ids in self._ids.values())

    def all_ids(self) -> list[str]:
        """Return the ids of all snapshots, the newest last."""
        return sorted(id_ for ids in self._ids.values() for id_ in ids)

    def ids_of(self, name: TableName) -> Sequence[str]:
        """Return the ids of a table's snapshots, the newest last."""
        return self._ids.get(table_digest(name), ())

    def newest_id(self, name: TableName) -> str | None:
        """Return the id of the newest snapshot of a table; None if it has none."""
        return next(reversed(self.ids_of(name)), None)

    def since(self, name: TableName, loaded: str) -> list[str]:
        """Return the ids of a table's snapshots that are newer than one, in order."""
        return [snapshot_id for snapshot_id in self.ids_of(name) if snapshot_id > loaded]

    def has_new(self, latest: Manifest | None, processed: Collection[str] = ()) -> bool:
        """Whether a snapshot was begun in the second of the newest manifest, or later.

        A merge loads it with the next manifest, also with an empty one, unless one has processed
        it.
        """
        newest = max((id_ for id_ in self.ids() if id_ not in processed), default=None)
        if newest is None or latest is None:
            return newest is not None
        # Manifests note whole seconds: of the same one, the snapshot may be the newer.
        return planned_at(newest) >= datetime.fromisoformat(latest.created_at)

    def read(self, snapshot_id: str) -> SnapshotManifest:
        """Return the manifest of a snapshot; raise ManifestError if it cannot be read."""
        for folder in self._folders:
            path = f"{folder}/{snapshot_id}.json"
            if (data := self._files.read(path)) is not None:
                break
        else:
            raise errors.ManifestError("a snapshot was deleted", snapshot=self._files.locate(path))
        repair = "take the snapshot of the table again, or delete this file"
        with errors.error_context(snapshot=self._files.locate(path), repair=repair):
            manifest = SnapshotManifest.decode(data)
            if manifest.id != snapshot_id:
                raise errors.ManifestError("a snapshot under another's name", holds=manifest.id)
        return manifest


def ids_by_digest(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids among names, the newest last, by the digest of their table."""
    by_digest: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        if (digest := digest_in(name)) is not None:
            by_digest[digest].append(name)
    return dict(by_digest)
