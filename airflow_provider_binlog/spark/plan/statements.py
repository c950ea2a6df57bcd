"""What the statements of a range do to one table as a whole.

A place is (sequence of the manifest, `_row`): it orders rows and statements of the whole range. A
statement stands before the first row whose place is not below its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.manifest import Manifest, Statement

Place = tuple[int, int]
TableName = tuple[str, str]

_EMPTYING = ("TRUNCATE", "CREATE OR REPLACE TABLE")
_DROPPING = ("DROP TABLE", "DROP DATABASE", "DROP SCHEMA")
_WHOLE_DATABASE = ("DROP DATABASE", "DROP SCHEMA")
# Row changes that no row event shows, or another table under the name.
_UNSEEN_CHANGE = re.compile(
    r"\b(DROP|TRUNCATE|EXCHANGE|DISCARD|IMPORT)\s+PARTITION\b"
    r"|\bCONVERT\s+(PARTITION|TABLE)\b"
    r"|\b(DISCARD|IMPORT)\s+TABLESPACE\b"
    r"|\bRENAME\b(?!\s+(COLUMN|INDEX|KEY)\b)",
    re.IGNORECASE,
)
# A column whose value in the rows that are there already is not NULL, whatever becomes of it later.
_COMPUTES = re.compile(r"\bGENERATED\b|\bAS\s*\(", re.IGNORECASE)
_ADDS = re.compile(r"\bADD\b", re.IGNORECASE)
_FILLS = re.compile(r"\bDEFAULT\b(?!\s+NULL\b)|\bNOT\s+NULL\b|\bSERIAL\b", re.IGNORECASE)

# Where a word means nothing: texts, quoted names and comments, but not the comments that run.
_QUOTED = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|/\*(?!M?!).*?\*/|(?:--\s|\#)[^\n]*""",
    re.DOTALL,
)


@dataclass(frozen=True)
class Erasure:
    """All rows of a table went at once, by a statement."""

    place: Place
    kind: str
    file: str
    offset: int


@dataclass(frozen=True)
class TableFate:
    """What became of the table.

    Attributes:
        emptied_at: Every row from before this place is gone; None if none went.
        dropped: The range ends with the table dropped and not made again; the lake keeps its rows.
        erasures: Every statement that emptied or dropped it, in order.
        alterations: The ALTER TABLEs behind `emptied_at`, in order.
    """

    emptied_at: Place | None
    dropped: bool
    erasures: tuple[Erasure, ...]
    alterations: tuple[Statement, ...]


def read_fate(name: TableName, manifests: Sequence[Manifest], *, dropped_before: bool) -> TableFate:
    """Return what the statements of `manifests` do to a table.

    A dropped table's rows are gone as soon as the name is used again: `CREATE TABLE IF NOT EXISTS`
    alone says nothing, because it is logged for tables that exist as well.

    Args:
        name: Database and table.
        manifests: The range, in order.
        dropped_before: Whether the table was dropped before the range and not made again.
    """
    emptied_at: Place | None = None
    dropped_at: Place | None = (manifests[0].sequence, -1) if dropped_before else None
    erasures = []
    for place, statement in statements_of(name, manifests):
        kind = statement.kind.upper()
        if dropped_at and _has_rows(name, manifests, since=dropped_at, before=place):
            emptied_at, dropped_at = dropped_at, None
        if empties(statement):
            emptied_at, dropped_at = place, None
        elif kind.startswith(_DROPPING):
            dropped_at = place
        elif kind.startswith("CREATE TABLE") and dropped_at:
            emptied_at, dropped_at = dropped_at, None
        if empties(statement) or kind.startswith(_DROPPING):
            erasures.append(Erasure(place, statement.kind, statement.file, statement.offset))
    if dropped_at and _has_rows(name, manifests, since=dropped_at, before=None):
        emptied_at, dropped_at = dropped_at, None
    alterations = tuple(
        statement
        for place, statement in statements_of(name, manifests)
        if statement.kind.upper().startswith("ALTER TABLE")
        and (emptied_at is None or place >= emptied_at)
    )
    return TableFate(emptied_at, dropped_at is not None, tuple(erasures), alterations)


def refuse_unseen_changes(
    name: TableName,
    manifests: Sequence[Manifest],
    *,
    since: Place | None,
    before: Place | None = None,
) -> None:
    """Refuse an ALTER TABLE that changes rows, or the table's name, without any row event.

    Raises:
        MergeError: There is one from `since` on and before `before`.
    """
    for place, statement in statements_of(name, manifests):
        altered = statement.kind.upper().startswith("ALTER TABLE")
        changes = altered and _UNSEEN_CHANGE.search(unquoted(statement.text))
        if changes and (since is None or place >= since) and (before is None or place < before):
            raise MergeError(
                "a statement changed the table without row changes that could be merged: "
                "leave the table out with --tables and load it anew",
                table=".".join(name),
                position=f"{statement.file}:{statement.offset}",
                statement=statement.text[:200],
            )


def fills_rows(alterations: Sequence[Statement]) -> Statement | None:
    """Return the first ALTER TABLE that may give old rows a value in a new column; maybe none."""
    return next((each for each in alterations if _may_fill(each.text)), None)


def _may_fill(text: str) -> bool:
    # Whether a backslash escapes is up to the session's sql_mode.
    return any(
        _COMPUTES.search(each) or (_ADDS.search(each) and _FILLS.search(each))
        for each in (unquoted(text), unquoted(text.replace("\\", "")))
    )


def statements_of(
    name: TableName, manifests: Sequence[Manifest]
) -> Iterator[tuple[Place, Statement]]:
    """Yield the statements that name a table, in order."""
    for manifest in manifests:
        for statement in sorted(manifest.statements, key=lambda each: each.row):
            if names(statement, name):
                yield (manifest.sequence, statement.row), statement


def unquoted(text: str) -> str:
    """Return a statement without what stands between quotes, and without comments."""
    return _QUOTED.sub("''", text)


def names(statement: Statement, name: TableName) -> bool:
    """Whether a statement names a table, or its whole database."""
    if name in statement.tables:
        return True
    whole = statement.kind.upper().startswith(_WHOLE_DATABASE)
    return whole and any(database == name[0] for database, _ in statement.tables)


def empties(statement: Statement) -> bool:
    """Whether the table that a statement names holds no row behind it."""
    kind = statement.kind.upper()
    # The words it starts with may have been cut at two.
    replaces = kind.startswith("CREATE") and re.match(
        r"\s*CREATE\s+OR\s+REPLACE\s+TABLE\b", statement.text, re.IGNORECASE
    )
    return kind.startswith(_EMPTYING) or bool(replaces)


def _has_rows(
    name: TableName, manifests: Sequence[Manifest], *, since: Place, before: Place | None
) -> bool:
    """Whether a row of the table may lie in `[since, before)`: exact but for the cut of a part."""
    return any(
        (manifest.sequence, part.last_row) >= since
        and (before is None or (manifest.sequence, part.first_row) < before)
        for manifest in manifests
        for table in manifest.tables
        if (table.database, table.table) == name
        for part in table.parts
    )
