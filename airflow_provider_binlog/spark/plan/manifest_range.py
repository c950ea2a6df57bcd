"""One range of manifests, checked as a whole before any table is touched."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import check_follows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Manifest, Part


def check_contiguous(manifests: Sequence[Manifest]) -> None:
    """Refuse manifests between which changes would be missing, doubled or foreign.

    Raises:
        ManifestError: Of two neighbours the second does not follow the first, or a part of one of
            them is named by another number.
    """
    for previous, following in pairwise(manifests):
        check_follows(previous.end, following)
    for manifest in manifests:
        for table in manifest.tables:
            for part in table.parts:
                _check_name(manifest, part)


def _check_name(manifest: Manifest, part: Part) -> None:
    """Rows of many parts are read in one scan, which learns the sequence from the file's name."""
    if not part.path.rsplit("/", 1)[-1].startswith(f"{manifest.sequence:016d}-"):
        raise ManifestError(
            "a part is not named by its manifest", part=part.path, sequence=manifest.sequence
        )
