"""Which tables manifests were captured with: neighbours mostly have the same globs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.names import matches_globs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName


class Globs(NamedTuple):
    """Which tables manifests were captured with, from manifest `since` on."""

    since: int
    include: tuple[str, ...]
    exclude: tuple[str, ...]

    def capture(self, name: TableName) -> bool:
        """Return whether a table is among them."""
        return matches_globs(".".join(name), self.include, self.exclude)


def extend_globs(known: Iterable[Globs], manifests: Iterable[Manifest]) -> tuple[Globs, ...]:
    """Return what manifests were captured with, and those that follow them."""
    found = list(known)
    for each in manifests:
        globs = Globs(each.captured_since, each.include, each.exclude)
        if not found:
            found.append(globs)
        elif (found[-1].include, found[-1].exclude) != (each.include, each.exclude):
            found.append(globs._replace(since=each.sequence))
    return tuple(found)


def find_uncaptured(
    globs: Sequence[Globs], name: TableName, *, first: int, last: int
) -> int | None:
    """Return where a table was last left out of a range of manifests; None if it never was.

    Args:
        globs: What they were captured with, in order.
        name: Database and table.
        first: Number of the first manifest.
        last: Number of the last one.

    Returns:
        The first manifest of those that were captured with the last globs that leave it out.
    """
    for each in reversed(globs):
        since = max(each.since, first)
        if since <= last and not each.capture(name):
            return since
        last = min(last, each.since - 1)
    return None
