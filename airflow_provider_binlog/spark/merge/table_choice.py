"""Which tables a merge is for: globs of `database.table`, and `!globs` that take some back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_binlog.names import GlobMatcher, find_unmatched, matches_globs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_provider_binlog.schema import TableName


@dataclass(frozen=True)
class TableChoice:
    """The tables that a list of globs matches, without those that another one matches.

    Attributes:
        tables: What to merge; every table where only `!globs` are given.
        exclude: What of it to leave out.
    """

    tables: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def __call__(self, name: TableName) -> bool:
        """Return whether a table is chosen."""
        text = ".".join(name)
        return self._chosen.match(text, default=True) and not self._excluded.match(
            text, default=False
        )

    def unmatched(self, staged: Collection[TableName], excluded: Collection[str] = ()) -> list[str]:
        """Return the globs, of either list, that match none of the staged tables.

        Without those that leave out what is left out already.

        Args:
            staged: The tables of which anything is staged.
            excluded: Globs of the tables that are not captured.
        """
        given = [(glob, glob.startswith("!")) for glob in self.tables]
        given += [(glob, not glob.startswith("!")) for glob in self.exclude]
        texts = (glob.removeprefix("!") for glob, _ in given)
        unmatched = {*find_unmatched(texts, map(".".join, staged))}
        return [
            glob
            for glob, leaves_out in given
            if (text := glob.removeprefix("!")) in unmatched
            and not (leaves_out and (text in excluded or matches_globs(text, excluded)))
        ]

    @cached_property
    def _chosen(self) -> _Globs:
        return _Globs(self.tables)

    @cached_property
    def _excluded(self) -> _Globs:
        return _Globs(self.exclude)


class _Globs:
    """Globs that match, and `!globs` that take back."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._positive = GlobMatcher(glob for glob in globs if not glob.startswith("!"))
        self._negative = GlobMatcher(glob[1:] for glob in globs if glob.startswith("!"))
        self._has_positive = not all(glob.startswith("!") for glob in globs)

    def match(self, text: str, *, default: bool) -> bool:
        """Return whether a glob matches and no `!glob` does; `default` is for no glob."""
        matched = self._positive(text) if self._has_positive else default
        return matched and not self._negative(text)
