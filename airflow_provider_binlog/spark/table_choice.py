"""Which tables a merge is for: globs of `database.table`, and `!globs` that take some back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.names import matches_globs

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
        return _matches(text, self.tables, default=True) and not _matches(
            text, self.exclude, default=False
        )

    def unmatched(self, names: Collection[TableName]) -> list[str]:
        """Return the globs, of either list, that match none of these tables."""
        texts = [".".join(name) for name in names]
        return [
            glob
            for glob in (*self.tables, *self.exclude)
            if not any(matches_globs(text, [glob.removeprefix("!")]) for text in texts)
        ]


def _matches(text: str, globs: Sequence[str], *, default: bool) -> bool:
    """Return whether a glob matches and no `!glob` does; `default` is for no glob."""
    positive = [glob for glob in globs if not glob.startswith("!")]
    negative = (glob[1:] for glob in globs if glob.startswith("!"))
    return matches_globs(text, positive or ["*"] * default, negative)
