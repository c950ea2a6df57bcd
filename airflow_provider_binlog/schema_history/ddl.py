"""What a logged statement does to which tables: its kind, and the names in it.

Only statements that act on whole tables or databases matter here. One of such a kind that cannot
be read to its end is refused, since it may be about any table.

Source: mysql-server, sql/sql_yacc.yy; MariaDB documentation, Data Definition.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.binlog.statements import StatementKind
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema_history.words import Reader, split_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.position import Flavor

STATEMENT_SHOWN = 200
"""How much of a statement an error shows."""

_VERBS = ("ALTER", "CREATE", "DROP", "IMPORT", "RENAME", "TRUNCATE")
_OBJECTS = ("TABLE", "TABLES", "SEQUENCE", "DATABASE", "SCHEMA")
# Words between the verb and what it is about.
_MODIFIERS = ("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "TEMPORARY", "EXTERNAL")
_CONDITION = ("IF", "NOT", "EXISTS")
_KINDS_OF_INDEX = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
# What may follow the last name of DROP, RENAME and TRUNCATE.
_ENDINGS = ("RESTRICT", "CASCADE", "DROP", "REUSE", "STORAGE")


class Described(NamedTuple):
    """What a statement is about.

    Attributes:
        kind: Its verb and object with what changes their meaning: `ALTER TABLE`, `TRUNCATE TABLE`,
            `CREATE OR REPLACE TABLE`, `DROP SEQUENCE`, `DROP DATABASE`, `CREATE INDEX`.
        tables: (database, table) of each table it names; of a database, (database, "").
    """

    kind: str
    tables: tuple[tuple[str, str], ...]


class DdlReader:
    """Finds the statements of a log that change tables or other objects, and took effect."""

    def __init__(self) -> None:
        self._alters_nothing = False

    def read(self, transactions: Transactions) -> Iterator[tuple[int, Query]]:
        """Yield those of the next block, each with the index of its event."""
        for event, seen in sorted(transactions.scanned.items()):
            if seen.gtid is not None:
                # It speaks of the statement that follows, be that in the next block.
                self._alters_nothing = (
                    isinstance(seen.gtid, MariadbGtid) and seen.gtid.alters_nothing
                )
            if seen.query is None or seen.kind is not StatementKind.DDL or self._alters_nothing:
                continue
            yield event, seen.query


@contextmanager
def placed(file: str, offset: int) -> Iterator[None]:
    """Tell an error where its statement stands."""
    try:
        yield
    except UnsupportedError as error:
        error.context |= {"file": file, "offset": offset}
        raise


def describe(query: Query, flavor: Flavor) -> Described | None:
    """Return what a statement does to tables or databases as a whole; None if it does nothing.

    Temporary tables are nothing: no row of theirs is ever logged. Nor is `ALTER DATABASE`: it
    changes only what later statements leave out.

    Raises:
        UnsupportedError: It is about tables, and which ones cannot be made out.
    """
    try:
        readings = {
            _read(Reader(each), query.database)
            for each in split_words(query.sql, flavor, query.sql_mode)
        }
    except UnsupportedError as error:
        error.context["statement"] = query.sql[:STATEMENT_SHOWN]
        raise
    if len(readings) != 1:
        raise UnsupportedError(
            "a statement that reads in more than one way, or in none: begin behind it, with a new "
            "snapshot of the tables, and report it",
            statement=query.sql[:STATEMENT_SHOWN],
        )
    return readings.pop()


def read_head(words: Reader) -> bool:
    """Go behind `ALTER TABLE`, `CREATE TABLE IF NOT EXISTS` and the like.

    Returns whether there was a condition.
    """
    _skip_settings(words)
    words.take(*_VERBS)
    words.take_all(*_MODIFIERS)
    words.take(*_OBJECTS)
    return bool(words.take_all(*_CONDITION))


def _skip_settings(words: Reader) -> bool:
    """Go behind `SET STATEMENT variable = value FOR` of MariaDB. False if it is another SET."""
    return not words.take("SET") or bool(words.take("STATEMENT") and words.seek("FOR"))


def _read(words: Reader, default_database: str) -> Described | None:
    if not _skip_settings(words):
        return None
    verb = words.take(*_VERBS)
    if verb == "IMPORT":
        raise UnsupportedError(
            "IMPORT TABLE brought tables whose rows are not in the log: take a new snapshot"
        )
    modifiers = words.take_all(*_MODIFIERS)
    kind = f"{verb} OR REPLACE" if "REPLACE" in modifiers else verb
    if verb in ("CREATE", "DROP") and _is_index(words):
        return Described(f"{kind} INDEX", (_table_of_index(words, default_database),))
    about = words.take(*_OBJECTS)
    if verb is None or (about is None and verb != "TRUNCATE") or "TEMPORARY" in modifiers:
        return None
    words.take_all(*_CONDITION)
    if about in ("DATABASE", "SCHEMA"):
        return None if verb == "ALTER" else Described(f"{kind} DATABASE", ((words.name(), ""),))
    thing = "SEQUENCE" if about == "SEQUENCE" else "TABLE"
    tables = tuple(_tables(verb, words, default_database))
    if verb == "RENAME" and len(tables) % 2:
        raise UnsupportedError("a table that is renamed, and no new name: report it")
    return Described(f"{kind} {thing}", tables)


def _is_index(words: Reader) -> bool:
    words.take(*_KINDS_OF_INDEX)
    return words.take("INDEX") is not None


def _table_of_index(words: Reader, default_database: str) -> tuple[str, str]:
    """Return the table behind `[IF NOT EXISTS] name [USING BTREE] ON`."""
    words.take_all(*_CONDITION)
    words.name()
    words.seek("ON")
    return words.table(default_database)


def _tables(verb: str, words: Reader, default_database: str) -> Iterator[tuple[str, str]]:
    """Yield the tables that a statement names, behind its verb and object."""
    yield words.table(default_database)
    if verb == "ALTER":
        yield from _tables_of_alter(words, default_database)
    if verb in ("ALTER", "CREATE"):
        return
    _pass_wait(words)
    # DROP a, b and RENAME a TO b, c TO d.
    while words.take(",", "TO"):
        yield words.table(default_database)
        _pass_wait(words)
    words.take_all(*_ENDINGS)
    words.end()


def _tables_of_alter(words: Reader, default_database: str) -> Iterator[tuple[str, str]]:
    """Yield the tables that the rest of ALTER TABLE names.

    `RENAME [TO | AS | =] t`, `EXCHANGE PARTITION p WITH TABLE t`, MariaDB's
    `CONVERT PARTITION p TO TABLE t` and `CONVERT TABLE t TO PARTITION p`: both words are reserved,
    and mean nothing else there.
    """
    while (word := words.seek("RENAME", "TABLE")) is not None:
        if word == "RENAME":
            if words.take("COLUMN", "INDEX", "KEY"):
                continue
            words.take("TO", "AS", "=")
        yield words.table(default_database)


def _pass_wait(words: Reader) -> None:
    """Go behind MariaDB's `WAIT seconds` and `NOWAIT`."""
    if words.take("WAIT"):
        words.name()
    words.take("NOWAIT")
