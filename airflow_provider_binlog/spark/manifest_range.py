"""One range of manifests, checked as a whole before any table is touched."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.position import goes_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Manifest, Part


def check_contiguous(manifests: Sequence[Manifest]) -> None:
    """Refuse manifests between which changes would be missing, doubled or foreign.

    Raises:
        ManifestError: Two neighbours' numbers do not follow each other, or the second does not
            start where the first stops: at the same place, or on another server at the same GTIDs;
            or a part of one of them is named by another number.
    """
    for previous, following in pairwise(manifests):
        _check_pair(previous, following)
    for manifest in manifests:
        for table in manifest.tables:
            for part in table.parts:
                _check_name(manifest, part)


def _check_pair(previous: Manifest, following: Manifest) -> None:
    if following.sequence != previous.sequence + 1:
        raise ManifestError(
            "a gap between manifests", after=previous.sequence, follows=following.sequence
        )
    if goes_on(previous.stop, previous.identity, following.start, following.identity):
        return
    if following.identity != previous.identity:
        raise ManifestError(
            "two manifests of one source come from different servers, and the second does not go "
            "on at the GTIDs where the first stops",
            sequence=following.sequence,
            before=previous.identity.server,
            now=following.identity.server,
            stop=previous.stop.gtid,
            start=following.start.gtid,
        )
    raise ManifestError(
        "a manifest does not start where the one before it stops",
        sequence=following.sequence,
        stop=previous.stop,
        start=following.start,
    )


def _check_name(manifest: Manifest, part: Part) -> None:
    """Rows of many parts are read in one scan, which learns the sequence from the file's name."""
    if not part.path.rsplit("/", 1)[-1].startswith(f"{manifest.sequence:016d}-"):
        raise ManifestError(
            "a part is not named by its manifest", part=part.path, sequence=manifest.sequence
        )
