"""Applied mark of a lake table: the end of the log that its rows contain, committed with them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_binlog.errors import FormatError

_TEXT = re.compile(r"(\d{1,16})(?:\.(\d{1,16}))?", re.ASCII)


@dataclass(frozen=True, order=True)
class Mark:
    """Every manifest up to `sequence` is applied, and of the next one what is before a statement.

    Attributes:
        sequence: Number of the last manifest that is applied as a whole; 0 for none.
        statements: Number, from 1, of the statement of the next manifest that the next segment
            starts with: all rows before it are applied; 0 where nothing of that manifest is.
    """

    sequence: int = 0
    statements: int = 0

    def __str__(self) -> str:
        """Return `7`, or `7.2` before the second statement of manifest 8."""
        return f"{self.sequence}.{self.statements}" if self.statements else f"{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Return the mark that `str` wrote.

        Raises:
            FormatError: It is none.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise FormatError("not an applied mark", text=text)
        return cls(int(match[1]), int(match[2] or 0))


NOTHING = Mark()
"""Nothing is applied."""


@dataclass(frozen=True)
class Contents:
    """Contents of a lake table, as the commit of its rows says.

    Attributes:
        mark: How much of the log.
        table: Id of the table whose rows it has; None if the commit does not say.
        snapshot: Id of the snapshot that it was last loaded from; empty if from none, None if the
            commit that says so is not there any more.
        copied: The format's own ids of columns that were copied from others of another type, as far
            as it has the copies; None if no commit says so.
    """

    mark: Mark
    table: str | None = None
    snapshot: str | None = ""
    copied: frozenset[str] | None = None
