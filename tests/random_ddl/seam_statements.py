"""DDL that may land between any two tasks of a run, each on a table of its own.

`{t}` is the table, `{u}` another captured one of the same columns; `{db}` a database of its own.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pymysql

from airflow_provider_binlog.names import quote_identifier as quote
from tests.fixtures.mysql import connect, query

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database

COLUMNS = "id INT NOT NULL, note VARCHAR(40), n INT, PRIMARY KEY (id)"
_OTHER = "id INT NOT NULL PRIMARY KEY, price DECIMAL(12, 2), text VARCHAR(20)"
_PARTITIONS = "PARTITION BY HASH (id) PARTITIONS 2"
_REWRITE = "ALTER TABLE {t} TRUNCATE PARTITION p0"

_COPY = "INSERT INTO {t}_new (id, note, n) SELECT id, note, n FROM {t}"
_ON_INSERT = "REPLACE INTO {t}_new (id, note, n) VALUES (NEW.id, NEW.note, NEW.n)"
_TRIGGERS = (
    "CREATE TRIGGER {t}_del AFTER DELETE ON {t} FOR EACH ROW DELETE FROM {t}_new WHERE id = OLD.id",
    f"CREATE TRIGGER {{t}}_ins AFTER INSERT ON {{t}} FOR EACH ROW {_ON_INSERT}",
)

KINDS: dict[str, tuple[str, ...]] = {
    "create_again": ("DROP TABLE {t}", f"CREATE TABLE {{t}} ({COLUMNS})"),
    "create_other": ("DROP TABLE {t}", f"CREATE TABLE {{t}} ({_OTHER})"),
    "swap": ("RENAME TABLE {t} TO {t}_x, {u} TO {t}, {t}_x TO {u}",),
    "gh_ost": (
        "CREATE TABLE {t}_gho LIKE {t}",
        "ALTER TABLE {t}_gho ADD COLUMN extra INT DEFAULT 7",
        "INSERT INTO {t}_gho (id, note, n) SELECT id, note, n FROM {t}",
        "RENAME TABLE {t} TO {t}_del, {t}_gho TO {t}",
        "DROP TABLE {t}_del",
    ),
    # The new table was there, and had its rows, before the run.
    "gh_ost_end": ("RENAME TABLE {t} TO {t}_del, {u} TO {t}", "DROP TABLE {t}_del"),
    "pt_osc": (
        "CREATE TABLE {t}_new LIKE {t}",
        "ALTER TABLE {t}_new DROP COLUMN note, ADD COLUMN note VARCHAR(60)",
        *_TRIGGERS,
        _COPY,
        "DELETE FROM {t} ORDER BY id LIMIT 1",
        "RENAME TABLE {t} TO {t}_old, {t}_new TO {t}",
        "DROP TRIGGER {t}_del",
        "DROP TRIGGER {t}_ins",
        "DROP TABLE IF EXISTS {t}_old",
    ),
    "truncate": ("TRUNCATE TABLE {t}",),
    "add_column": ("ALTER TABLE {t} ADD COLUMN extra INT NOT NULL DEFAULT 7 AFTER id",),
    "drop_column": ("ALTER TABLE {t} DROP COLUMN note",),
    "widen": ("ALTER TABLE {t} MODIFY n BIGINT, MODIFY note VARCHAR(400)",),
    "modify": ("ALTER TABLE {t} MODIFY n VARCHAR(20)",),
    "rename_column": ("ALTER TABLE {t} RENAME COLUMN note TO text",),
    "exchange_columns": (
        "ALTER TABLE {t} DROP COLUMN n",
        "ALTER TABLE {t} ADD COLUMN n INT, ALGORITHM=COPY",
    ),
    "add_key": ("ALTER TABLE {t} ADD UNIQUE KEY more (id, n)",),
    "drop_key": ("ALTER TABLE {t} DROP PRIMARY KEY",),
    "change_key": (
        "ALTER TABLE {t} MODIFY n INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)",
    ),
    "away": ("RENAME TABLE {t} TO {t}_away",),
    "away_and_back": (
        "RENAME TABLE {t} TO {t}_away",
        "DELETE FROM {t}_away ORDER BY id LIMIT 1",
        "RENAME TABLE {t}_away TO {t}",
    ),
    "create": (
        f"CREATE TABLE {{t}}_2 ({COLUMNS})",
        "INSERT INTO {t}_2 VALUES (1, 'new', 1), (2, NULL, NULL)",
    ),
    "drop": ("DROP TABLE {t}",),
    # It removes rows without row events.
    "rewrite": (_REWRITE,),
    "database": (
        "DROP DATABASE {db}",
        "CREATE DATABASE {db} CHARACTER SET utf8mb4",
        f"CREATE TABLE {{t}} ({_OTHER})",
    ),
}
"""The statements of each kind, in order."""

_TWO = {"swap", "gh_ost_end"}


class Case:
    """A kind of DDL on a table, and the writes around it.

    Attributes:
        kind: One of `KINDS`.
        table: The name of its table.
    """

    def __init__(self, kind: str, table: str, database: Database) -> None:
        self.kind, self.table, self.database = kind, table, database
        self._next = 100

    @property
    def names(self) -> dict[str, str]:
        """What the braces of a statement stand for."""
        t = f"{self.database.name}.{self.table}"
        return {"t": t, "u": f"{t}_u", "db": self.database.name}

    def create(self, rows: int) -> list[str]:
        """Return the statements that make its tables."""
        statements = []
        for number, name in enumerate(("t", "u") if self.kind in _TWO else ("t",)):
            values = [f"({id_}, 'row {number}', {id_})" for id_ in range(rows + number)]
            table = self.names[name]
            statements.append(f"CREATE TABLE {table} ({COLUMNS}) {_PARTITIONS}")
            if values:
                statements.append(f"INSERT INTO {table} VALUES {', '.join(values)}")
            statements.append(f"ANALYZE TABLE {table}")
        return statements

    def rewrite(self) -> None:
        """Make the lake table stale: no log says which rows are removed."""
        self.database.execute(_REWRITE.format(**self.names))

    def change(self, refused: Callable[[str], object] | None = None) -> None:
        """Run its statements, with writes of rows before and after.

        What the server refuses is an error, unless `refused` takes it.
        """
        statements = [each.format(**self.names) for each in KINDS[self.kind]]
        self._run([*self._write(), *statements], refused)
        self._run(self._write(), refused)

    def _run(self, statements: list[str], refused: Callable[[str], object] | None) -> None:
        # In no database: that may be dropped.
        with closing(connect(self.database.server)) as connection, connection.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.MySQLError as error:
                    if refused is None:
                        raise
                    refused(f"{statement}; -- {error.args}")

    def _write(self) -> list[str]:
        """Return inserts, updates, moves and deletes of rows of the tables that there are."""
        return [each for table in self._tables() for each in self._writes(*table)]

    def _tables(self) -> list[tuple[str, list[tuple[str, str]]]]:
        rows = query(
            self.database.server,
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND (TABLE_NAME = %s OR TABLE_NAME LIKE %s)"
            " ORDER BY TABLE_NAME, COLUMN_NAME = 'id' DESC, ORDINAL_POSITION",
            self.database.name,
            self.table,
            self.table.replace("_", r"\_") + r"\_%",
        )
        columns: dict[str, list[tuple[str, str]]] = {}
        for table, column, type_ in rows:
            columns.setdefault(table, []).append((column, type_.lower()))
        return list(columns.items())

    def _writes(self, table: str, columns: list[tuple[str, str]]) -> list[str]:
        first = self._next
        self._next += 10
        names = ", ".join(quote(name) for name, _ in columns)
        rows = ", ".join(
            f"({', '.join(_value(type_, id_) for _, type_ in columns)})"
            for id_ in range(first, first + 5)
        )
        last, type_ = columns[-1]
        value = _value(type_, first + 8)
        table = f"{self.database.name}.{quote(table)}"
        return [
            f"INSERT INTO {table} ({names}) VALUES {rows}",
            f"UPDATE {table} SET {quote(last)} = {value} WHERE id IN (3, {first + 1})",
            f"UPDATE {table} SET id = {first + 9} WHERE id = {first + 2}",
            f"DELETE FROM {table} WHERE id IN (4, {first + 3})",
        ]


def _value(type_: str, number: int) -> str:
    return f"'text {number}'" if type_ in ("char", "varchar") else str(number)
