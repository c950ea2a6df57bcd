"""What a logged statement does to which tables.

Only statements that act on whole tables or databases matter here. One of such a type that cannot
be read to its end is refused, since it may be about any table.

Source: mysql-server, sql/sql_yacc.yy; MariaDB documentation, Data Definition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.sql.alteration_reader import (
    drop_index,
    foreign_rows,
    read_alterations,
    read_elements,
)
from airflow_provider_binlog.sql.definitions import (
    AddColumn,
    Alteration,
    ChangeIndexes,
    Opaque,
    RewriteRows,
    read_charset,
)
from airflow_provider_binlog.sql.lexer import (
    Reader,
    Word,
    brackets,
    dialects,
    keyword,
    mask_literals,
    split_words,
)
from airflow_provider_binlog.sql.statement_types import keywords

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.sql.lexer import Session


@dataclass(frozen=True)
class Altered:
    """A table has other columns, another key or other rows."""

    table: TableName
    alterations: tuple[Alteration, ...]


@dataclass(frozen=True)
class Created:
    """A table was created.

    Attributes:
        table: Its name.
        elements: Its columns and keys; None where the statement does not say them all.
        like: The table whose columns and keys it has; None where the statement names none.
        optional: IF NOT EXISTS: perhaps it was there already, and was not created.
        takes_rows: Whether it may hold rows from the start that no row event shows.
    """

    table: TableName
    elements: tuple[Alteration, ...] | None = None
    like: TableName | None = None
    optional: bool = False
    takes_rows: bool = False


@dataclass(frozen=True)
class Dropped:
    """A table was dropped, if it was there."""

    table: TableName


@dataclass(frozen=True)
class DroppedDatabase:
    """All tables of a database were dropped."""

    database: str


@dataclass(frozen=True)
class Renamed:
    """A table has another name; optional: IF EXISTS."""

    old: TableName
    new: TableName
    optional: bool = False


@dataclass(frozen=True)
class Truncated:
    """Every row of a table was removed."""

    table: TableName


TableChange: TypeAlias = Altered | Created | Dropped | DroppedDatabase | Renamed | Truncated


@dataclass(frozen=True)
class DdlStatement:
    """What a statement does.

    Attributes:
        type: Its verb and object with what changes their meaning: `ALTER TABLE`, `TRUNCATE TABLE`,
            `CREATE OR REPLACE TABLE`, `DROP SEQUENCE`, `DROP DATABASE`, `CREATE INDEX`.
        tables: (database, table) of each table it names; of a database, (database, "").
        changes: What it does, in order; nothing where it changes no column, key, row or name.
    """

    type: str
    tables: tuple[TableName, ...]
    changes: tuple[TableChange, ...]


class _Head(NamedTuple):
    """The type of a statement, and its tables."""

    type: str
    tables: tuple[TableName, ...]


_VERBS = ("ALTER", "CREATE", "DROP", "IMPORT", "RENAME", "TRUNCATE")
_OBJECTS = ("TABLE", "TABLES", "SEQUENCE", "DATABASE", "SCHEMA")
# Words between the verb and what it is about.
_MODIFIERS = ("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "TEMPORARY", "EXTERNAL")
_CONDITION = ("IF", "NOT", "EXISTS")
_INDEX_TYPES = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
# What may follow the last name of DROP, RENAME and TRUNCATE.
_ENDINGS = ("RESTRICT", "CASCADE", "DROP", "REUSE", "STORAGE")
_OPAQUE_SHOWN = 60
_EXCHANGED = RewriteRows("exchanged the table with a partition of another one")
_SEQUENCE_ALTERED = (RewriteRows("altered the sequence, which is its only row"),)


def read_ddl(sql: str, session: Session) -> DdlStatement | None:
    """Return what a statement does to tables or databases as a whole; None if it does nothing.

    Temporary tables are nothing: no row of theirs is ever logged. Nor is `ALTER DATABASE`: it
    changes only what later statements leave out.

    Raises:
        UnsupportedError: It is about tables, and which ones cannot be determined.
    """
    # What follows need not be understood: it may be a body in JavaScript.
    if not any(_is_about_tables(keywords(sql, each)) for each in dialects(sql, session)):
        return None
    try:
        readings = split_words(sql, session)
        head = _only({_read_head(Reader(words), session.database) for words in readings})
        if head is None:
            return None
        changes = {tuple(_changes(head, Reader(words), session)) for words in readings}
    except UnsupportedError as error:
        error.context["statement"] = mask_literals(sql, session)
        raise
    if len(changes) == 1:
        return DdlStatement(*head, changes.pop())
    # The tables are the same in each reading; what it does to them is not.
    unclear = Opaque(mask_literals(sql, session, _OPAQUE_SHOWN))
    return DdlStatement(*head, tuple(Altered(table, (unclear,)) for table in head.tables))


def perhaps_of_temporary(ddl: DdlStatement) -> DdlStatement:
    """Return a statement of a session with temporary tables, which may be about one of these.

    CREATE and DROP TABLE say TEMPORARY where they are.
    """
    verb, _, thing = ddl.type.rpartition(" ")
    if verb not in ("ALTER", "TRUNCATE") and thing != "INDEX":
        return ddl
    unclear = Opaque("it may be about a temporary table of the same name")
    names = dict.fromkeys(
        change.old if isinstance(change, Renamed) else change.table
        for change in ddl.changes
        if isinstance(change, Altered | Renamed | Truncated)
    )
    return replace(ddl, changes=tuple(Altered(name, (unclear,)) for name in names))


# ------------------------------------------------------------------- type and tables


def _only(found: set[_Head | None]) -> _Head | None:
    if len(found) != 1:
        raise UnsupportedError(
            "a statement that reads in more than one way, or in none: start after it, with a new "
            "snapshot of the tables, and report it"
        )
    return found.pop()


def _skip_settings(words: Reader) -> bool:
    """Move past `SET STATEMENT variable = value FOR` of MariaDB. False if it is another SET."""
    return not words.take("SET") or bool(words.take("STATEMENT") and words.seek("FOR"))


def _is_about_tables(words: Iterator[str]) -> bool:
    """Whether a statement may be about tables or databases, by its first words."""
    verb = next(words, "")
    if verb == "SET":
        verb = next(words, "") if "FOR" in words else ""
    about = next((each for each in words if each not in (*_MODIFIERS, *_INDEX_TYPES)), "")
    return about in (*_OBJECTS, "INDEX", "") or verb in ("IMPORT", "TRUNCATE")


def _read_head(words: Reader, default_database: str) -> _Head | None:
    """Return the head of a statement about tables; None for any other one."""
    if not _skip_settings(words):
        return None
    verb = words.take(*_VERBS)
    if verb == "IMPORT":
        raise UnsupportedError(
            "IMPORT TABLE brought tables whose rows are not in the log: take a new snapshot"
        )
    modifiers = words.take_all(*_MODIFIERS)
    if "TEMPORARY" in modifiers:
        return None
    full = f"{verb} OR REPLACE" if "REPLACE" in modifiers else verb
    if verb in ("CREATE", "DROP") and _is_index(words):
        return _Head(f"{full} INDEX", (_table_of_index(words, default_database),))
    about = words.take(*_OBJECTS)
    if verb is None or (about is None and verb != "TRUNCATE"):
        return None
    words.take_all(*_CONDITION)
    if about in ("DATABASE", "SCHEMA"):
        if verb == "RENAME":
            raise UnsupportedError("a database that is renamed, which no server does: report it")
        return None if verb == "ALTER" else _Head(f"{full} DATABASE", ((words.name(), ""),))
    thing = "SEQUENCE" if about == "SEQUENCE" else "TABLE"
    tables = tuple(_tables(verb, words, default_database))
    if verb == "RENAME" and len(tables) % 2:
        raise UnsupportedError("a table that is renamed, and no new name: report it")
    return _Head(f"{full} {thing}", tables)


def _is_index(words: Reader) -> bool:
    words.take(*_INDEX_TYPES)
    return words.take("INDEX") is not None


def _table_of_index(words: Reader, default_database: str) -> TableName:
    """Return the table after `[IF NOT EXISTS] name [USING BTREE] ON`."""
    words.take_all(*_CONDITION)
    words.name()
    words.seek("ON")
    return words.table(default_database)


def _tables(verb: str, words: Reader, default_database: str) -> Iterator[TableName]:
    """Yield the tables that a statement names, after its verb and object."""
    yield words.table(default_database)
    if verb == "ALTER":
        for _, table in _others(words, default_database):
            yield table
    if verb in ("ALTER", "CREATE"):
        return
    _pass_wait(words)
    # DROP a, b and RENAME a TO b, c TO d.
    while words.take(",", "TO"):
        yield words.table(default_database)
        _pass_wait(words)
    words.take_all(*_ENDINGS)
    words.end()


def _others(words: Reader, default_database: str) -> Iterator[tuple[str, TableName]]:
    """Yield the other tables that the rest of ALTER TABLE names, each with what is done to it.

    `RENAME [TO | AS | =] t`, `EXCHANGE PARTITION p WITH TABLE t`, MariaDB's
    `CONVERT PARTITION p TO TABLE t` and `CONVERT TABLE t TO PARTITION p`: the words are reserved,
    and mean nothing else there.
    """
    last = ""
    while (word := words.seek("RENAME", "TABLE", "EXCHANGE", "CONVERT")) is not None:
        if word == "RENAME":
            if words.take("COLUMN", "INDEX", "KEY"):
                continue
            words.take("TO", "AS", "=")
            yield word, words.table(default_database)
        elif word == "TABLE":
            yield last or word, words.table(default_database)
            last = ""
        elif word == "EXCHANGE":
            last = word
        elif keyword(words.peek()) in ("PARTITION", "TABLE"):
            last = f"{word} {keyword(words.peek())}"


def _pass_wait(words: Reader) -> None:
    """Move past MariaDB's `WAIT seconds` and `NOWAIT`."""
    if words.take("WAIT"):
        words.name()
    words.take("NOWAIT")


# ------------------------------------------------------------------- changes


def _changes(head: _Head, words: Reader, session: Session) -> Iterator[TableChange]:
    verb, _, thing = head.type.rpartition(" ")
    tables = head.tables
    if thing == "INDEX":
        yield from _index(verb, tables[0], words)
    elif thing == "DATABASE":
        # OR REPLACE drops it, and nothing else in the log says so.
        yield from [] if verb == "CREATE" else [DroppedDatabase(tables[0][0])]
    elif verb == "DROP":
        yield from map(Dropped, tables)
    elif verb == "TRUNCATE":
        yield Truncated(tables[0])
    elif verb == "RENAME":
        _, optional = _pass_head(words)
        for old, new in zip(tables[::2], tables[1::2], strict=True):
            yield Renamed(old, new, optional)
    elif verb == "ALTER":
        is_table = thing == "TABLE"
        yield from _altered(words, session) if is_table else [Altered(tables[0], _SEQUENCE_ALTERED)]
    elif verb.startswith("CREATE"):
        if verb == "CREATE OR REPLACE":
            yield Dropped(tables[0])
        is_table = thing == "TABLE"
        yield _created(tables[0], words, session) if is_table else Created(tables[0])


def _pass_head(words: Reader) -> tuple[list[str], bool]:
    """Move past `ALTER TABLE`, `CREATE TABLE IF NOT EXISTS` and the like.

    Returns the modifiers, and whether there was a condition.
    """
    _skip_settings(words)
    words.take(*_VERBS)
    modifiers = words.take_all(*_MODIFIERS)
    words.take(*_OBJECTS)
    return modifiers, bool(words.take_all(*_CONDITION))


def _altered(words: Reader, session: Session) -> Iterator[TableChange]:
    modifiers, _ = _pass_head(words)
    table = words.table(session.database)
    _pass_wait(words)
    rest = words.rest()
    alterations = read_alterations(rest, session, ignore="IGNORE" in modifiers)
    if alterations:
        yield Altered(table, alterations)
    others = list(_others(Reader(rest), session.database))
    renames = [other for what, other in others if what == "RENAME"]
    if renames:
        yield Renamed(table, renames[-1])  # of several new names the last one counts
    for what, other in others:
        if what == "CONVERT PARTITION":
            yield Created(other, takes_rows=True)
        elif what == "CONVERT TABLE":
            yield Dropped(other)
        elif what == "EXCHANGE":
            yield Altered(other, (_EXCHANGED,))


def _created(table: TableName, words: Reader, session: Session) -> Created:
    _, optional = _pass_head(words)
    words.table(session.database)
    rest = words.rest()
    unknown = Created(table, optional=optional, takes_rows=True)
    try:
        inner = brackets(rest)[0] if rest[:1] == [Word("(")] else rest
        reader = Reader(inner)
        if reader.take("LIKE"):
            return Created(table, like=reader.table(session.database), optional=optional)
        elements, after = brackets(rest)
        if Reader(elements).take("SELECT", "WITH", "TABLE", "VALUES"):
            return unknown
        texts = [keyword(word) for word in after]
        from_query = {"AS", "SELECT", "IGNORE", "REPLACE", "TABLE", "VALUES"} & set(texts)
        if from_query and not _is_partition_of(texts):
            return unknown
        takes_rows = foreign_rows(after) is not None
        if "VERSIONING" in texts:
            return Created(table, optional=optional, takes_rows=takes_rows)
        read = _with_charset(read_elements(elements, session), after)
        return Created(table, elements=read, optional=optional, takes_rows=takes_rows)
    except UnsupportedError:
        return unknown


def _with_charset(
    elements: tuple[Alteration, ...], options: Sequence[Word]
) -> tuple[Alteration, ...]:
    """Return columns of text that have no character set of their own with that of the table."""
    reader, found = Reader(options), dict[str, str | None]()
    while (word := reader.next()) is not None:
        read_charset(keyword(word), reader, found)
    charset = found.get("charset")
    if charset in (None, "default"):
        return elements
    return tuple(
        replace(element, definition=element.definition.with_charset(charset))
        if isinstance(element, AddColumn)
        else element
        for element in elements
    )


def _is_partition_of(texts: Sequence[str]) -> bool:
    """Whether VALUES is of the partitions alone: `VALUES LESS THAN (9)`, `VALUES IN (1)`."""
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
