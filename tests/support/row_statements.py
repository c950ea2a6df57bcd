"""Random statements on rows: inserts, updates, moves of keys and deletes; a seed gives the same."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from airflow_provider_binlog.names import quote_identifier as quote

_VERBS = (*["INSERT IGNORE"] * 4, "INSERT", "REPLACE", "UPSERT")


class Column(Protocol):
    """A column that is written."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def required(self) -> bool:
        """Whether an insert has to name it."""

    @property
    def changes(self) -> Sequence[str]:
        """SQL expressions that change its value from its own; `{0}` is the column."""

    def value(self, random: Random) -> str:
        """Return SQL of a value, which may be NULL."""


class RowStatements:
    """Makes statements for tables that are named in SQL, of given columns.

    Args:
        random: Decides on everything.
        replaces: Whether REPLACE is among the inserts.
        counts: How many rows an insert has, one of them.
        ids: Largest value of the column `id`, if rows are chosen by it; else they are at random.
        incomplete: How often an insert leaves out what it has to name.
    """

    def __init__(
        self,
        random: Random,
        *,
        replaces: bool = True,
        counts: Sequence[int] = (1, 1, 3),
        ids: int | None = None,
        incomplete: float = 0,
    ) -> None:
        self._random, self._counts, self._ids = random, counts, ids
        self._verbs = [verb for verb in _VERBS if replaces or verb != "REPLACE"]
        self._incomplete = incomplete

    def write(self, table: str, columns: Sequence[Column], key: Sequence[Column] = ()) -> str:
        """Return one of all statements; columns of the key are moved, not updated."""
        roll = self._random.random()
        if roll < 0.45:
            return self.insert(table, [*key, *columns])
        if roll < 0.8:
            return self.update(table, columns)
        if roll < 0.88:
            return self.move(table, columns, key) if key else self.update(table, columns)
        return self.delete(table)

    def insert(self, table: str, columns: Sequence[Column]) -> str:
        """Return an INSERT, with or without IGNORE or ON DUPLICATE KEY UPDATE, or a REPLACE."""
        random, chosen = self._random, list(columns)
        if random.random() < 0.5:
            left = random.sample(chosen, random.randint(0, len(chosen)))
            chosen = [each for each in chosen if each.required or each in left]
        if random.random() < self._incomplete:
            chosen = random.sample(chosen, random.randint(0, len(chosen)))
        rows = (
            f"({', '.join(each.value(random) for each in chosen)})"
            for _ in range(random.choice(self._counts))
        )
        listed = ", ".join(quote(each.name) for each in chosen)
        verb, rest = random.choice(self._verbs), ""
        if verb == "UPSERT":
            # A key that is there keeps its columns: where they may be changed, moves do it.
            changed = [each for each in chosen if not each.required]
            verb = "INSERT" if changed else "INSERT IGNORE"
            if changed:
                rest = f" ON DUPLICATE KEY UPDATE {self._assignment(random.choice(changed))}"
        return f"{verb} INTO {table} ({listed}) VALUES {', '.join(rows)}{rest}"

    def update(self, table: str, columns: Sequence[Column]) -> str:
        """Return an UPDATE of one or two columns."""
        random = self._random
        chosen = random.sample(columns, min(len(columns), random.randint(1, 2)))
        changes = ", ".join(map(self._assignment, chosen))
        ignore = random.choice(["", "IGNORE ", "IGNORE "])
        return f"UPDATE {ignore}{table} SET {changes} {self._some()}"

    def move(self, table: str, columns: Sequence[Column], key: Sequence[Column]) -> str:
        """Return an UPDATE of a key, of some rows or all: each may take the key of the next."""
        random = self._random
        moved = random.choice([each for each in key if each.changes])
        change = random.choice(moved.changes).format(quote(moved.name))
        changes = [f"{quote(moved.name)} = {change}"]
        if columns and random.random() < 0.3:
            changes.append(self._assignment(random.choice(columns)))
        where = "" if random.random() < 0.2 else f" {self._between()}"
        order = "DESC" if "+" in change else "ASC"
        ignore = random.choice(["", "IGNORE ", "IGNORE "])
        return f"UPDATE {ignore}{table} SET {', '.join(changes)}{where} ORDER BY id {order}"

    def delete(self, table: str) -> str:
        """Return a DELETE."""
        return f"DELETE FROM {table} {self._some()}"

    def _assignment(self, column: Column) -> str:
        random, value = self._random, column.value(self._random)
        if column.changes and random.random() < 0.7:
            value = random.choice(column.changes).format(quote(column.name))
        return f"{quote(column.name)} = {value}"

    def _some(self) -> str:
        random = self._random
        if self._ids is not None and random.random() < 0.8:
            return self._between()
        limit = random.choice([1, 1, 2, 5])
        return f"ORDER BY RAND({random.randint(1, 999)}) LIMIT {limit}"

    def _between(self) -> str:
        low = self._random.randint(0, self._ids or 0)
        return f"WHERE id BETWEEN {low} AND {low + self._random.choice([0, 0, 2, 30])}"
