"""The manifests among the staged files, whoever reads the files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import REPAIR, Manifest
from airflow_provider_binlog.staging.paths import MANIFESTS, manifest_name, maybe_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_binlog.staging.paths import ReadFiles

_THREADS = 8


def read_manifests(files: ReadFiles, sequences: Iterable[int]) -> list[Manifest]:
    """Return the manifests of these numbers, in their order.

    Raises:
        ManifestError: One is missing, unreadable, or bears another number.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda sequence: _read_manifest(files, sequence), sequences))


def list_manifests(files: ReadFiles) -> list[int]:
    """Return the numbers of the manifests that there are, ascending."""
    numbers = map(maybe_sequence, files.list(MANIFESTS))
    return sorted(number for number in numbers if number is not None)


def sequence_reset_error(applied: int, *, newest: int) -> ManifestError:
    """Return the refusal of manifests that are not those which a lake has got."""
    return ManifestError(
        "the lake has got a manifest that is newer than all that are staged: they were deleted, or "
        "the source was captured again from manifest 1 on, which the lake tables take for those "
        "that they have: put them back, or capture under another source name, and merge its "
        "snapshots with adopt=True",
        applied=applied,
        newest=newest,
    )


def _read_manifest(files: ReadFiles, sequence: int) -> Manifest:
    path = f"{MANIFESTS}/{manifest_name(sequence)}"
    data = files.read(path)
    if data is None:
        raise ManifestError("a manifest is missing", manifest=files.locate(path), repair=REPAIR)
    try:
        manifest = Manifest.decode(data)
    except ManifestError as error:
        error.context |= {"manifest": files.locate(path), "repair": REPAIR}
        raise
    if manifest.sequence != sequence:
        raise ManifestError(
            "a manifest under another's name",
            manifest=files.locate(path),
            holds=manifest.sequence,
            repair=REPAIR,
        )
    return manifest
