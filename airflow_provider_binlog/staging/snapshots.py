"""The snapshots among the staged files, whoever reads the files; it ships with the merge."""

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
    from collections.abc import Iterable, Sequence

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.staging.paths import ReadFiles


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
