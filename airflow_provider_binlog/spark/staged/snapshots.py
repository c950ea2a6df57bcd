"""The snapshots among the staged files, whoever reads the files."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.snapshot_manifest import (
    SNAPSHOTS,
    SnapshotManifest,
    digest_in,
    snapshot_path,
    table_digest,
)

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.staged.files import ReadFiles


class Snapshots:
    """The snapshots of a source, by table; a manifest is read when it is wanted."""

    def __init__(self, files: ReadFiles) -> None:
        self._files = files
        self._ids: dict[str, list[str]] = defaultdict(list)
        for file in sorted(files.list(SNAPSHOTS)):
            name = file.removesuffix(".json")
            digest = digest_in(name)
            if digest is not None and name != file:
                self._ids[digest].append(name)

    def ids(self) -> list[str]:
        """Return the id of the newest snapshot of each table."""
        return sorted(ids[-1] for ids in self._ids.values())

    def newest_id(self, name: TableName) -> str | None:
        """Return the id of the newest snapshot of a table; None if it has none."""
        ids = self._ids.get(table_digest(name))
        return ids[-1] if ids else None

    def since(self, name: TableName, loaded: str) -> list[str]:
        """Return the ids of a table's snapshots that are newer than one, in order."""
        return [each for each in self._ids.get(table_digest(name), ()) if each > loaded]

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
