"""What a logged statement does to the shapes of tables, and to their names.

Source: mysql-server, sql/sql_yacc.yy; MariaDB documentation, Data Definition.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema_history.alterations import (
    Alteration,
    ChangeIndexes,
    Opaque,
    brackets,
    drop_index,
    read_alterations,
    read_elements,
)
from airflow_provider_binlog.schema_history.ddl import (
    STATEMENT_SHOWN,
    describe,
    read_head,
)
from airflow_provider_binlog.schema_history.words import Reader, Word, capitals, split_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.position import Flavor

TableName: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Altered:
    """A table got other columns, or another key."""

    table: TableName
    alterations: tuple[Alteration, ...]


@dataclass(frozen=True)
class Created:
    """A table was made.

    Attributes:
        table: Its name.
        elements: Its columns and keys; None where the statement does not say them all.
        like: The table whose shape it has; None where the statement names none.
        optional: IF NOT EXISTS: perhaps it was there already, and was not made.
    """

    table: TableName
    elements: tuple[Alteration, ...] | None = None
    like: TableName | None = None
    optional: bool = False


@dataclass(frozen=True)
class Dropped:
    """A table went, if it was there."""

    table: TableName


@dataclass(frozen=True)
class DroppedDatabase:
    """All tables of a database went."""

    database: str


@dataclass(frozen=True)
class Renamed:
    """A table got another name."""

    old: TableName
    new: TableName


TableChange: TypeAlias = Altered | Created | Dropped | DroppedDatabase | Renamed


def read_changes(query: Query, flavor: Flavor) -> tuple[TableChange, ...]:
    """Return what a statement does, in order; nothing where it changes no shape and no name.

    Raises:
        UnsupportedError: It is about tables, and which ones cannot be made out.
    """
    described = describe(query, flavor)
    if described is None:
        return ()
    try:
        readings = {
            tuple(_changes(described.kind, described.tables, Reader(words), query.database))
            for words in split_words(query.sql, flavor, query.sql_mode)
        }
    except UnsupportedError as error:
        error.context["statement"] = query.sql[:STATEMENT_SHOWN]
        raise
    if len(readings) == 1:
        return readings.pop()
    # The tables are the same in each; what becomes of them is not.
    return tuple(Altered(table, (Opaque(query.sql[:60]),)) for table in described.tables)


def _changes(
    kind: str, tables: Sequence[TableName], words: Reader, default_database: str
) -> Iterator[TableChange]:
    verb, _, thing = kind.rpartition(" ")
    if thing == "INDEX":
        yield from _index(verb, tables[0], words)
    elif kind == "DROP DATABASE":
        yield DroppedDatabase(tables[0][0])
    elif verb == "DROP":
        yield from map(Dropped, tables)
    elif verb == "RENAME":
        yield from itertools.starmap(Renamed, zip(tables[::2], tables[1::2], strict=True))
    elif kind == "ALTER TABLE":
        yield from _altered(tables, words, default_database)
    elif verb.startswith("CREATE") and thing != "DATABASE":
        if verb == "CREATE OR REPLACE":
            yield Dropped(tables[0])
        is_table = thing == "TABLE"
        yield _created(tables[0], words, default_database) if is_table else Created(tables[0])


def _altered(
    tables: Sequence[TableName], words: Reader, default_database: str
) -> Iterator[TableChange]:
    read_head(words)
    table = words.table(default_database)
    if words.take("WAIT"):
        words.name()
    words.take("NOWAIT")
    rest = words.rest()
    alterations = read_alterations(rest)
    if alterations:
        yield Altered(table, alterations)
    reader = Reader(rest)
    word = reader.seek("RENAME", "EXCHANGE", "CONVERT", "TABLE")
    while word is not None:
        if word == "RENAME" and not reader.take("COLUMN", "INDEX", "KEY"):
            yield Renamed(table, _other(tables))
        elif word == "CONVERT" and reader.take("PARTITION"):
            yield Created(_other(tables))
        elif word == "CONVERT" and reader.take("TABLE"):
            yield Dropped(_other(tables))
        word = reader.seek("RENAME", "EXCHANGE", "CONVERT", "TABLE")


def _other(tables: Sequence[TableName]) -> TableName:
    """Return the other table of an ALTER TABLE; of several new names the last one counts."""
    if len(tables) == 1:
        raise UnsupportedError("a statement about another table, and no name of it: report it")
    return tables[-1]


def _created(table: TableName, words: Reader, default_database: str) -> Created:
    optional = read_head(words)
    words.table(default_database)
    rest = words.rest()
    try:
        inner = brackets(rest)[0] if rest[:1] == [Word("(")] else rest
        reader = Reader(inner)
        if reader.take("LIKE"):
            return Created(table, like=reader.table(default_database), optional=optional)
        elements, behind = brackets(rest)
        if Reader(elements).take("SELECT", "WITH", "TABLE", "VALUES"):
            return Created(table, optional=optional)
        texts = [capitals(word.text) for word in behind if not word.quote]
        takes_rows = {"AS", "SELECT", "VERSIONING", "IGNORE", "REPLACE", "TABLE", "VALUES"}
        if takes_rows & set(texts) and not _is_partition_of(texts):
            return Created(table, optional=optional)
        return Created(table, elements=read_elements(elements), optional=optional)
    except UnsupportedError:
        return Created(table, optional=optional)


def _is_partition_of(texts: Sequence[str]) -> bool:
    """Whether VALUES stands in the partitions alone: `VALUES LESS THAN (9)`, `VALUES IN (1)`."""
    others = {"AS", "SELECT", "VERSIONING", "IGNORE", "REPLACE", "TABLE"}
    return "PARTITION" in texts and not others & set(texts)


def _index(verb: str, table: TableName, words: Reader) -> Iterator[TableChange]:
    if verb != "DROP":
        unique = words.seek("UNIQUE", "INDEX") == "UNIQUE"
        if unique:
            yield Altered(table, (ChangeIndexes(),))
        return
    words.seek("INDEX")
    words.take_all("IF", "EXISTS")
    yield Altered(table, (drop_index(words.name()),))
