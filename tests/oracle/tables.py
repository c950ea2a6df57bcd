"""What the generated tables are made of, and what statements do to them as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.oracle.kinds import Kind

IDS = 150
"""The largest id of an insert."""
_PARTS = ("a", "A", "b", "ü")
KEYS = {
    "id": Kind(
        "int",
        lambda random: str(random.randint(0, IDS)),
        show=int,
        select="{0}",
        changes=("{0} + 1", "{0} - 1", f"{{0}} + {IDS}"),
    ),
    "part": Kind(
        "varchar(20) CHARACTER SET latin1 COLLATE latin1_bin",
        lambda random: f"'{random.choice(_PARTS)}'",
        changes=("CONCAT('m', {0})",),
    ),
}
BASE = Kind("int", lambda random: str(random.randint(-99, 99)), select="{0}", show=int)
GENERATED = {
    "twice": "int GENERATED ALWAYS AS (base * 2) VIRTUAL",
    "thrice": "bigint GENERATED ALWAYS AS (base * 3) STORED",
}
KEY_OF = {
    "keyed": ("id",),
    "generated": ("id",),
    "a/b `table`": ("id",),
    "pairs": ("part", "id"),
    "keyless": (),
    "narrow": ("id",),
    "wide": ("id",),
    "unique": ("id",),
}
"""Columns of a table's key, by its first name; none: no key. That of `unique` is a UNIQUE one."""


@dataclass
class Column:
    """A column as it is now.

    Attributes:
        name: Names are used once, whatever the table.
        kind: Its type.
        filled: What a row has that was there before the column, or leaves it out, as selected.
        declared: Its declaration after the name.
    """

    name: str
    kind: Kind
    filled: Any
    declared: str

    @property
    def required(self) -> bool:
        """Whether an insert has to name it."""
        return self.declared.endswith("NOT NULL")

    @property
    def changes(self) -> tuple[str, ...]:
        """See `Kind`."""
        return self.kind.changes

    def value(self, random: Random) -> str:
        """Return SQL of a value, which may be NULL."""
        if random.random() < 0.15 and "NOT NULL" not in self.declared:
            return "NULL"
        return self.kind.make(random)


KEY = tuple(Column(name, kind, None, f"{kind.sql} NOT NULL") for name, kind in KEYS.items())
"""The columns that every table has for a key, whether they are one or not."""


@dataclass(frozen=True)
class Effect:
    """What a statement does to tables as a whole, without row events.

    Attributes:
        kind: As the manifest calls it.
        tables: The names it names, as the manifest has them.
        key: Names of the primary key's columns after it; None if they do not change.
        truncated: Whether there is no row after it.
        added: Columns with what the rows get in them.
        dropped: A column that is dropped.
        renamed: A column's previous name and its new one.
        moves: Previous names of tables and new ones, one after the other.
    """

    kind: str
    tables: tuple[str, ...]
    key: tuple[str, ...] | None = None
    truncated: bool = False
    added: dict[str, Any] = field(default_factory=dict)
    dropped: str | None = None
    renamed: tuple[str, str] | None = None
    moves: tuple[tuple[str, str], ...] = ()


@dataclass
class Table:
    """A table as it is now.

    Attributes:
        first_name: What it was called at first.
        name: Its name.
        key: Names of the primary key's columns; none: no key.
        names: All that it has had, and those of tables that it changed names with.
        columns: All but the key's and the generated ones, in any order.
        generated: Names of generated columns.
    """

    first_name: str
    name: str
    key: tuple[str, ...]
    names: set[str]
    columns: list[Column] = field(default_factory=list)
    generated: tuple[str, ...] = ()


@dataclass
class Past:
    """What has been, in all tables.

    Attributes:
        effects: Of all statements, in their order.
        kinds: Of every column that was ever there.
        filled: Of the same; see `Column.filled`.
    """

    effects: list[Effect] = field(default_factory=list)
    kinds: dict[str, Kind] = field(default_factory=dict)
    filled: dict[str, Any] = field(default_factory=dict)

    def note(self, column: Column) -> None:
        """Remember a column for good."""
        self.kinds[column.name] = column.kind
        self.filled[column.name] = column.filled
