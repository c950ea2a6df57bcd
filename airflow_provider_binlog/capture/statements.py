"""What a logged statement does to which tables: its kind, and the names in it.

Only statements that act on whole tables or databases matter here. One of such a kind that cannot
be read to its end is refused, since it may be about any table.

Source: mysql-server, sql/sql_yacc.yy; MariaDB documentation, Data Definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.binlog.mariadb_events import MariadbGtid
from airflow_provider_binlog.binlog.statements import StatementKind
from airflow_provider_binlog.capture.words import Reader, split_words
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.manifest import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.binlog.statement_events import Query
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.position import Flavor

_VERBS = ("ALTER", "CREATE", "DROP", "IMPORT", "RENAME", "TRUNCATE")
_OBJECTS = ("TABLE", "TABLES", "SEQUENCE", "DATABASE", "SCHEMA")
# Words between the verb and what it is about.
_MODIFIERS = ("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "TEMPORARY", "EXTERNAL")
_CONDITION = ("IF", "NOT", "EXISTS")
_SHOWN_SIZE = 200
# What may follow the last name of DROP, RENAME and TRUNCATE.
_ENDINGS = ("RESTRICT", "CASCADE", "DROP", "REUSE", "STORAGE")


class Described(NamedTuple):
    """What a statement is about.

    Attributes:
        kind: Its verb and object with what changes their meaning: `ALTER TABLE`, `TRUNCATE TABLE`,
            `CREATE OR REPLACE TABLE`, `DROP SEQUENCE`, `DROP DATABASE`.
        tables: (database, table) of each table it names; of a database, (database, "").
    """

    kind: str
    tables: tuple[tuple[str, str], ...]


class StatementReader:
    """Collects the statements of a log that act on captured tables as a whole.

    Attributes:
        found: In the order of the log.
    """

    def __init__(self, tables: TableFilter) -> None:
        self.found: list[Statement] = []
        self._tables = tables
        self._alters_nothing = False

    def read(self, block: EventBlock, transactions: Transactions, file_index: int) -> None:
        """Add those of the next block, of the file that has this index in the range.

        Raises:
            UnsupportedError: A statement failed half-way, or which tables it is about cannot be
                made out.
        """
        for event, seen in sorted(transactions.scanned.items()):
            if seen.gtid is not None:
                # It speaks of the statement that follows, be that in the next block.
                self._alters_nothing = (
                    isinstance(seen.gtid, MariadbGtid) and seen.gtid.alters_nothing
                )
            if seen.query is None or seen.kind is not StatementKind.DDL or self._alters_nothing:
                continue
            position = int(block.position[event])
            try:
                described = self._captured(seen.query, block.format.flavor)
            except UnsupportedError as error:
                error.context |= {"file": block.file, "offset": position}
                raise
            if described is not None:
                row = (file_index << ROW_FILE_SHIFT) + position
                self.found.append(
                    Statement(block.file, position, row, *described, text=seen.query.sql)
                )

    def _captured(self, query: Query, flavor: Flavor) -> Described | None:
        described = describe(query, flavor)
        if described is None or not any(self._concerns(*each) for each in described.tables):
            return None
        if query.error:
            # What it did before it failed is not in the log.
            raise UnsupportedError(
                "a statement on a captured table failed half-way on the server: take a new "
                "snapshot of it",
                error=query.error,
                statement=query.sql[:_SHOWN_SIZE],
            )
        return described

    def _concerns(self, database: str, table: str) -> bool:
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)


def describe(query: Query, flavor: Flavor) -> Described | None:
    """Return what a statement does to tables or databases as a whole; None if it does nothing.

    Temporary tables are nothing: no row of theirs is ever logged. Nor is `ALTER DATABASE`: it
    changes only what later statements leave out.

    Raises:
        UnsupportedError: It is about tables, and which ones cannot be made out.
    """
    try:
        readings = {_read(Reader(each), query.database) for each in split_words(query.sql, flavor)}
    except UnsupportedError as error:
        error.context["statement"] = query.sql[:_SHOWN_SIZE]
        raise
    if len(readings) != 1:
        raise UnsupportedError(
            "a statement that reads in more than one way, or in none: begin behind it, with a new "
            "snapshot of the tables, and report it",
            statement=query.sql[:_SHOWN_SIZE],
        )
    return readings.pop()


def _read(words: Reader, default_database: str) -> Described | None:
    if words.take("SET") and not (words.take("STATEMENT") and words.seek("FOR")):
        return None  # what MariaDB writes `SET STATEMENT variable = value FOR` before does count
    verb = words.take(*_VERBS)
    if verb == "IMPORT":
        raise UnsupportedError(
            "IMPORT TABLE brought tables whose rows are not in the log: take a new snapshot"
        )
    modifiers = words.take_all(*_MODIFIERS)
    about = words.take(*_OBJECTS)
    if verb is None or (about is None and verb != "TRUNCATE") or "TEMPORARY" in modifiers:
        return None
    words.take_all(*_CONDITION)
    kind = f"{verb} OR REPLACE" if "REPLACE" in modifiers else verb
    if about in ("DATABASE", "SCHEMA"):
        return None if verb == "ALTER" else Described(f"{kind} DATABASE", ((words.name(), ""),))
    thing = "SEQUENCE" if about == "SEQUENCE" else "TABLE"
    return Described(f"{kind} {thing}", tuple(_tables(verb, words, default_database)))


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
