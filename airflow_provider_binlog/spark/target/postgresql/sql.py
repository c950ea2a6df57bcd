"""SQL of the changes of PostgreSQL tables: columns, keys, and rows from a staged table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_binlog.spark.target.postgresql.connection import quote
from airflow_provider_binlog.spark.target.protocol import (
    COPIES,
    DELETED,
    LACKS,
    held,
    source_column,
)
from airflow_provider_binlog.spark.target.versions import Dialect

# Exact for every time: an interval times a number of 16 digits is not.
_TIME = (
    "(timestamp with time zone 'epoch' + (({0}) / 1000000) * interval '1 second'"
    " + (({0}) % 1000000) * interval '1 microsecond')"
)


def column_list(names: Iterable[str]) -> str:
    """Return names as SQL lists them."""
    return ", ".join(map(quote, names))


def create_table(table: str, columns: Mapping[str, str]) -> str:
    """Return the CREATE TABLE of columns with their types, a collation included."""
    defined = ", ".join(f"{quote(name)} {type_}" for name, type_ in columns.items())
    return f"CREATE TABLE {table} ({defined})"


def add_column(table: str, name: str, type_: str, value: str | None) -> list[str]:
    """Return the statements that add a column; rows that are there get the value, unwritten."""
    added = f"ALTER TABLE {table} ADD COLUMN {quote(name)} {type_}"
    if value is None:
        return [added]
    kept = f"ALTER TABLE {table} ALTER COLUMN {quote(name)} DROP DEFAULT"
    return [f"{added} DEFAULT {value}", kept]


def remove_copies(table: str, columns: Mapping[str, str], staged: str) -> str:
    """Return the DELETE of as many copies of rows as there are to be less, given the types."""
    own, less = (
        ", ".join(comparable(name, type_) for name, type_ in zip(names, types, strict=True))
        for names, types in (
            (map(quote, columns), columns.values()),
            (map(source_column, range(len(columns))), columns.values()),
        )
    )
    # As records: NULL is the same as NULL, and the join needs no loop.
    copies = (
        f"SELECT t.at, s.{COPIES}, row_number() OVER (PARTITION BY s.at) AS number"
        f" FROM (SELECT ctid AS at, ROW({own}) AS record FROM {table}) AS t"
        f" JOIN (SELECT ctid AS at, {COPIES}, ROW({less}) AS record FROM {staged}"
        f" WHERE {COPIES} < 0) AS s ON t.record = s.record"
    )
    return (
        f"DELETE FROM {table} WHERE ctid IN (SELECT at FROM ({copies}) AS c"
        f" WHERE number <= -{COPIES})"
    )


def insert_copies(table: str, names: Sequence[str], staged: str) -> str:
    """Return the INSERT of as many copies of staged rows as there are to be more."""
    values = ", ".join(f"s.{source_column(at)}" for at in range(len(names)))
    return (
        f"INSERT INTO {table} ({column_list(names)}) "
        f"SELECT {values} FROM {staged} AS s, generate_series(1, s.{COPIES})"
    )


def comparable(value: str, type_: str) -> str:
    """Return SQL of what equal values alone have in common: 0 equals -0, and `json` nothing."""
    is_text = type_.startswith(("json", "real", "double"))
    return f"{value}::text" if is_text else value


DIALECT = Dialect(quote, "(extract(epoch FROM {0}) * 1000000)::bigint", _TIME, comparable)
"""PostgreSQL's part of `versions_to_write`."""


@dataclass(frozen=True)
class KeyedStatements:
    """Statements that bring staged rows into a table by their key.

    Attributes:
        table: The quoted name.
        names: All columns, in the order of the staged ones.
        key: Which of them identify a row.
        staged: The table of the staged rows.
        groups: Columns that staged rows may not hold, those together that have one `held`.
        nulls: Whether a staged row has NULL in its key.
    """

    table: str
    names: Sequence[str]
    key: Sequence[int]
    staged: str
    groups: Sequence[Sequence[int]] = ()
    nulls: bool = False

    def insert(self) -> str:
        """Return the INSERT of the staged rows that are to be there."""
        values = ", ".join(map(source_column, range(len(self.names))))
        return (
            f"INSERT INTO {self.table} ({column_list(self.names)}) "
            f"SELECT {values} FROM {self.staged} WHERE NOT {DELETED}"
        )

    def merges(self, *, marks: bool = False) -> list[str]:
        """Return the MERGEs of the staged rows: if any has NULL in its key, those by themselves.

        With `marks`, deletes are marked: the staged rows have the marks.
        """
        if not self.nulls:
            return [self._merge(self.staged, marks=marks)]
        others = f"(SELECT * FROM {self.staged} WHERE NOT {self._has_null})"
        some = f"(SELECT * FROM {self.staged} WHERE {self._has_null})"
        return [self._merge(others, marks=marks), self._merge(some, marks=marks, nulls=True)]

    def _merge(self, source: str, *, marks: bool, nulls: bool = False) -> str:
        values = [f"s.{source_column(at)}" for at in range(len(self.names))]
        kept = (self._completed.get(at, value) for at, value in enumerate(values))
        pairs = zip(self.names, kept, strict=True)
        sets = ", ".join(f"{quote(name)} = {value}" for name, value in pairs)
        deletes = "" if marks else f" WHEN MATCHED AND s.{DELETED} THEN DELETE"
        added = f" AND NOT s.{DELETED}"
        if marks:
            added = f" AND (NOT s.{DELETED} OR s.{LACKS} IS NULL)" if self.groups else ""
        return (
            f"MERGE INTO {self.table} AS t USING {source} AS s ON {self._same(nulls=nulls)}"
            f"{deletes} WHEN MATCHED THEN UPDATE SET {sets}"
            f" WHEN NOT MATCHED{added}"
            f" THEN INSERT ({column_list(self.names)}) VALUES ({', '.join(values)})"
        )

    def mark_rest(self, marks: str, values: Mapping[str, str]) -> str:
        """Return the UPDATE of rows that are not marked, and not among the staged ones."""
        sets = ", ".join(f"{quote(name)} = {value}" for name, value in values.items())
        return (
            f"UPDATE {self.table} AS t SET {sets} WHERE t.{quote(marks)} IS NULL AND NOT EXISTS "
            f"(SELECT FROM {self.staged} AS s WHERE {self._same(nulls=self.nulls)})"
        )

    def find_null(self) -> str:
        """Return the query of whether a staged row has NULL in its key."""
        return f"SELECT EXISTS (SELECT FROM {self.staged} WHERE {self._has_null})"

    def find_orphans(self, end: str | None) -> str:
        """Return the query of staged rows that lack what a row of the table would have to hold.

        It gives how many they are, and the key of one. Of versions, `end` is NULL in current ones.
        """
        one = " || ',' || ".join(
            f"coalesce(s.{source_column(at)}::text, 'NULL')" for at in self.key
        )
        return (
            f"SELECT json_build_array(count(*), min({one})) "
            f"FROM {self.staged} AS s WHERE s.{LACKS} IS NOT NULL AND NOT s.{DELETED} "
            f"AND NOT EXISTS (SELECT FROM {self.table} AS t WHERE {self._current(end)})"
        )

    def complete_rows(self, end: str) -> str:
        """Return the UPDATE of staged rows with what they do not hold, from current versions."""
        values = (f"{source_column(at)} = {value}" for at, value in self._completed.items())
        return (
            f"UPDATE {self.staged} AS s SET {', '.join(values)} FROM {self.table} AS t "
            f"WHERE {self._current(end)}"
        )

    @property
    def _completed(self) -> dict[int, str]:
        """The values of columns that staged rows may not hold: else those of the table."""
        return {
            at: f"CASE WHEN s.{held(number)} THEN s.{source_column(at)} "
            f"ELSE t.{quote(self.names[at])} END"
            for number, group in enumerate(self.groups)
            for at in group
        }

    def _same(self, *, nulls: bool) -> str:
        equals = "IS NOT DISTINCT FROM" if nulls else "="
        pairs = ((quote(self.names[at]), source_column(at)) for at in self.key)
        return " AND ".join(f"t.{name} {equals} s.{column}" for name, column in pairs)

    def _current(self, end: str | None) -> str:
        current = "" if end is None else f" AND t.{quote(end)} IS NULL"
        return self._same(nulls=self.nulls) + current

    @property
    def _has_null(self) -> str:
        return f"({' OR '.join(f'{source_column(at)} IS NULL' for at in self.key)})"
