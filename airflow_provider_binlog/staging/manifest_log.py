"""The manifests of one source: an append-only log.

A manifest's key is its sequence number, and the key is created only if it is absent: of two runs
that staged the same range exactly one commits its manifest. Each manifest starts where the previous
one stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConflictError, ManifestError, ObjectMissingError
from airflow_provider_binlog.manifest import REPAIR, Manifest, check_follows
from airflow_provider_binlog.position import is_contiguous
from airflow_provider_binlog.staging.paths import manifest_folder, manifest_name, maybe_sequence

if TYPE_CHECKING:
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
