"""Read DDL statements: which tables each changes, and how.

Only statements that act on whole tables or databases matter here. One of such a type that cannot
be read to its end is refused, since it may be about any table.

Source: mysql-server, sql/sql_yacc.yy; MariaDB documentation, Data Definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sql import definitions
from airflow_provider_binlog.sql.alteration_reader import (
    drop_index,
    foreign_rows,
    read_alterations,
    read_comment,
    read_elements,
)
from airflow_provider_binlog.sql.lexer import (
    Reader,
    Session,
    Word,
    brackets,
    keyword,
    mask_literals,
    split_words,
)
from airflow_provider_binlog.sql.statement_types import keywords


@dataclass(frozen=True)
class Altered:
    """A table has other columns, another key or other rows."""

    table: TableName
    alterations: tuple[definitions.Alteration, ...]


@dataclass(frozen=True)
class Created:
    """A table was created.

    Attributes:
        elements: Its columns and keys; None where the statement does not say them all.
        like: The table whose columns and keys it has; None where the statement names none.
        optional: IF NOT EXISTS: perhaps it was there already, and was not created.
        takes_rows: Whether it may hold rows from the start that no row event shows.
    """

    table: TableName
    elements: tuple[definitions.Alteration, ...] | None = None
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
    """A DDL statement and its changes.

    Attributes:
        type: Its verb and object: `ALTER TABLE`, `CREATE OR REPLACE TABLE`, `DROP DATABASE`.
        tables: Each table that it names; of a database, (database, "").
        changes: In order; nothing where it changes no column, key, row or name.
    """

    type: str
    tables: tuple[TableName, ...]
    changes: tuple[TableChange, ...]


_VERBS = ("ALTER", "CREATE", "DROP", "IMPORT", "RENAME", "TRUNCATE")
_OBJECTS = ("TABLE", "TABLES", "SEQUENCE", "DATABASE", "SCHEMA")
# Words between the verb and what it is about.
_MODIFIERS = ("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "TEMPORARY", "EXTERNAL")
_CONDITION = ("IF", "NOT", "EXISTS")
_INDEX_TYPES = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
# What may follow the last name of DROP, RENAME and TRUNCATE.
_ENDINGS = ("RESTRICT", "CASCADE", "DROP", "REUSE", "STORAGE")
_EXCHANGED = definitions.RewriteRows("exchanged the table with a partition of another one")
_SEQUENCE_ALTERED = (
    definitions.RewriteRows(
        "altered the sequence, which is its only row; no snapshot reads it: leave the table out"
    ),
)


def read_ddl(sql: str, session: Session) -> DdlStatement | None:
    """Return what a statement does to tables or databases as a whole; None if it does nothing.

    Temporary tables are nothing: no row of theirs is ever logged. Nor is `ALTER DATABASE`: it
    changes only what later statements leave out.

    Raises:
        UnsupportedError: It is about tables, and which ones cannot be determined.
    """
    # What follows need not be understood: it may be a body in JavaScript.
    if not _is_about_tables(keywords(sql, session)):
        return None
    try:
        words = Reader(split_words(sql, session))
        # MariaDB's SET STATEMENT variable = value FOR
        if words.take("SET") and not (words.take("STATEMENT") and words.seek("FOR")):
            return None
        return _read(words, session)
    except UnsupportedError as error:
        error.context["statement"] = mask_literals(sql, session)
        raise


def perhaps_of_temporary(ddl: DdlStatement) -> DdlStatement:
    """Return a statement of a session with temporary tables, which may be about one of these.

    CREATE and DROP TABLE say TEMPORARY where they are.
    """
    verb, _, thing = ddl.type.rpartition(" ")
    if verb not in ("ALTER", "TRUNCATE") and thing != "INDEX":
        return ddl
    unclear = definitions.Opaque("it may be about a temporary table of the same name")
    names = dict.fromkeys(
        change.old if isinstance(change, Renamed) else change.table
        for change in ddl.changes
        if isinstance(change, Altered | Renamed | Truncated) and not _is_comment(change)
    )
    return replace(ddl, changes=tuple(Altered(name, (unclear,)) for name in names))


def _is_comment(change: TableChange) -> bool:
    """Whether a statement changes nothing but the comment of a table."""
    return isinstance(change, Altered) and all(
        isinstance(alteration, definitions.SetComment) for alteration in change.alterations
    )


def _is_about_tables(words: Iterator[str]) -> bool:
    """Whether a statement may be about tables or databases, by its first words."""
    verb = next(words, "")
    if verb == "SET":
        verb = next(words, "") if "FOR" in words else ""
    about = next((word for word in words if word not in (*_MODIFIERS, *_INDEX_TYPES)), "")
    return about in (*_OBJECTS, "INDEX", "") or verb in ("IMPORT", "TRUNCATE")


def _read(words: Reader, session: Session) -> DdlStatement | None:
    verb = words.take(*_VERBS)
    if verb == "IMPORT":
        raise UnsupportedError(
            "IMPORT TABLE brought tables whose rows are not in the log: take a new snapshot"
        )
    modifiers = words.take_all(*_MODIFIERS)
    full = f"{verb} OR REPLACE" if "REPLACE" in modifiers else str(verb)
    index_type = words.take(*_INDEX_TYPES)
    if verb and words.take("INDEX"):
        return _read_index(full, words, session.database, unique=index_type == "UNIQUE")
    about = words.take(*_OBJECTS)
    unnamed = about is None and verb != "TRUNCATE"
    if verb is None or unnamed or "TEMPORARY" in modifiers:
        return None
    optional = bool(words.take_all(*_CONDITION))
    if about in ("DATABASE", "SCHEMA"):
        return _read_database(full, words.name())
    type_ = f"{full} {'SEQUENCE' if about == 'SEQUENCE' else 'TABLE'}"
    if verb == "ALTER":
        return _read_alter(type_, words, session, ignore="IGNORE" in modifiers)
    if verb == "CREATE":
        return _read_create(type_, words, session, optional=optional)
    return _read_names(type_, words, session.database, optional=optional)


def _read_index(verb: str, words: Reader, database: str, *, unique: bool) -> DdlStatement:
    """Read `[IF NOT EXISTS] name [USING BTREE] ON table`."""
    words.take_all(*_CONDITION)
    name = words.name()
    words.seek("ON")
    table = words.table(database)
    changes: tuple[TableChange, ...] = ()
    if verb == "DROP":
        changes = (Altered(table, (drop_index(name),)),)
    elif unique or verb != "CREATE":  # with OR REPLACE a unique one may be dropped
        changes = (Altered(table, (definitions.ChangeIndexes(),)),)
    return DdlStatement(f"{verb} INDEX", (table,), changes)


def _read_database(verb: str, name: str) -> DdlStatement | None:
    # OR REPLACE drops it, and nothing else in the log says so.
    dropped = () if verb == "CREATE" else (DroppedDatabase(name),)
    return None if verb == "ALTER" else DdlStatement(f"{verb} DATABASE", ((name, ""),), dropped)


def _read_names(type_: str, words: Reader, database: str, *, optional: bool) -> DdlStatement:
    """Read `DROP TABLE a, b`, `RENAME TABLE a TO b, c TO d` and `TRUNCATE a`."""
    tables = [words.table(database)]
    _pass_wait(words)
    while words.take(",", "TO"):
        tables.append(words.table(database))
        _pass_wait(words)
    words.take_all(*_ENDINGS)
    words.end()
    changes: Iterable[TableChange] = map(Dropped, tables)
    if type_.startswith("TRUNCATE"):
        changes = map(Truncated, tables)
    elif type_.startswith("RENAME"):
        if len(tables) % 2:
            raise UnsupportedError("a table that is renamed, and no new name: report it")
        pairs = zip(tables[::2], tables[1::2], strict=True)
        changes = (Renamed(old, new, optional) for old, new in pairs)
    return DdlStatement(type_, tuple(tables), tuple(changes))


def _read_alter(type_: str, words: Reader, session: Session, *, ignore: bool) -> DdlStatement:
    table = words.table(session.database)
    if type_ == "ALTER SEQUENCE":
        return DdlStatement(type_, (table,), (Altered(table, _SEQUENCE_ALTERED),))
    _pass_wait(words)
    rest = words.rest()
    alterations = read_alterations(rest, session, ignore=ignore)
    changes: list[TableChange] = [Altered(table, alterations)] if alterations else []
    others = list(_others(Reader(rest), session.database))
    renames = [other for what, other in others if what == "RENAME"]
    if renames:
        changes.append(Renamed(table, renames[-1]))  # of several new names the last one counts
    for what, other in others:
        if what == "CONVERT PARTITION":
            changes.append(Created(other, takes_rows=True))
        elif what == "CONVERT TABLE":
            changes.append(Dropped(other))
        elif what == "EXCHANGE":
            changes.append(Altered(other, (_EXCHANGED,)))
    return DdlStatement(type_, (table, *(other for _, other in others)), tuple(changes))


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


def _read_create(type_: str, words: Reader, session: Session, *, optional: bool) -> DdlStatement:
    table = words.table(session.database)
    created = Created(table)
    if type_.endswith("TABLE"):
        created = replace(_created(table, words.rest(), session), optional=optional)
    replaced = (Dropped(table),) if "OR REPLACE" in type_ else ()
    return DdlStatement(type_, (table,), (*replaced, created))


def _created(table: TableName, rest: Sequence[Word], session: Session) -> Created:
    unknown = Created(table, takes_rows=True)
    try:
        reader = Reader(brackets(rest)[0] if rest[:1] == [Word("(")] else rest)
        if reader.take("LIKE"):
            return Created(table, like=reader.table(session.database))
        elements, after = brackets(rest)
        if Reader(elements).take("SELECT", "WITH", "TABLE", "VALUES"):
            return unknown
        texts = {keyword(word) for word in after}
        # VALUES may be of partitions alone: `VALUES LESS THAN (9)`, `VALUES IN (1)`.
        from_query = texts & {"AS", "SELECT", "IGNORE", "REPLACE", "TABLE", "VALUES"}
        of_partitions = "PARTITION" in texts and "VERSIONING" not in texts
        if from_query and not (of_partitions and from_query == {"VALUES"}):
            return unknown
        takes_rows = foreign_rows(after) is not None
        if "VERSIONING" in texts:
            return Created(table, takes_rows=takes_rows)
        read = (*_with_charset(read_elements(elements, session), after), *read_comment(after))
        return Created(table, elements=read, takes_rows=takes_rows)
    except UnsupportedError:
        return unknown


def _with_charset(
    elements: tuple[definitions.Alteration, ...], options: Sequence[Word]
) -> tuple[definitions.Alteration, ...]:
    """Return columns of text that have no character set of their own with that of the table."""
    reader, read = Reader(options), dict[str, str | None]()
    while (word := reader.next()) is not None:
        definitions.read_charset(keyword(word), reader, read)
    charset = read.get("charset")
    if charset in (None, "default"):
        return elements
    return tuple(
        replace(element, definition=element.definition.with_charset(charset))
        if isinstance(element, definitions.AddColumn)
        else element
        for element in elements
    )
