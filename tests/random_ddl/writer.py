"""Random statements: rows and DDL of every kind, whatever the tables look like meanwhile.

The writer keeps no model of the tables: it queries information_schema before each statement. What
the server refuses is part of the test.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql

from airflow_provider_binlog.names import quote_identifier as quote
from tests.random_ddl.alterations import Alterations
from tests.random_ddl.definitions import Column, Definitions
from tests.support.row_statements import RowStatements

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.fixtures.mysql import Database

NAMES = ("orders", "from", "a/b", "ü x", "T%1")
"""Tables begin with these names; MySQL and MariaDB compare them with their case."""

_SCHEMA = (
    "SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE, EXTRA FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
)
_TABLES = (
    "SELECT TABLE_NAME FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME"
)
# The tests' comparison and the author's pages leave names alone that begin so.
_HIDDEN = "_"


class Writer:
    """Writes to one database through one connection.

    Args:
        database: The database.
        random: Decides on everything.
        tables: How many there are at first.
        bulk: Rows that a statement on many rows inserts; without any there are no such statements.
        logged: Whether the server logs what is written before `begin_log`.

    Attributes:
        log: Every statement, and what the server said of it.
    """

    def __init__(
        self,
        database: Database,
        random: Random,
        *,
        tables: int,
        bulk: int = 0,
        logged: bool = True,
    ) -> None:
        self._bulk = bulk
        self.log: list[str] = []
        self._database, self._random = database, random
        self._mariadb = database.server.name.startswith("mariadb")
        self._connection = database.connect()
        # Without full images MariaDB logs neither what REPLACE resets nor all that it generates.
        self._images = random.choice([["FULL"], ["FULL", "FULL", "MINIMAL", "NOBLOB"]])
        self._logs_all = not self._mariadb or self._images == ["FULL"]
        generated = self._logs_all and database.server.logs_generated
        self._definitions = Definitions(random, mariadb=self._mariadb, generated=generated)
        self._rows = RowStatements(random, replaces=self._logs_all, incomplete=0.2)
        self._alterations = Alterations(random, self._definitions, mariadb=self._mariadb)
        self._names = 0
        self._replaced: set[str] = set()
        if not logged:
            self._run("SET SESSION sql_log_bin = 0")
        for name in NAMES[:tables]:
            self._create(name)

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def work(self, steps: int) -> None:
        """Run about so many statements."""
        random = self._random
        for _ in range(steps):
            if random.random() < 0.2:
                self._choose_session()
            tables = self.tables()
            if not tables or (len(tables) < len(NAMES) and random.random() < 0.02):
                left = [each for each in NAMES if each not in (*tables, *self._replaced)]
                self._create(random.choice([*left, self._new_name("r")]))
                continue
            table = random.choice(tables)
            actions: list[Callable[[str], None]] = [self._write] * 12
            actions += [self._alter] * 4 + [self._change_table]
            random.choice(actions)(table)

    def begin_log(self) -> None:
        """From now on the server logs what is written."""
        for table in self.tables():
            self._run(f"ANALYZE TABLE {quote(table)}")
        self._run("SET SESSION sql_log_bin = 1")

    def create_quiet(self, name: str) -> None:
        """Create a table that is not compared."""
        self._run(f"CREATE TABLE {quote(name)} (id INT PRIMARY KEY AUTO_INCREMENT)")

    def write_quiet(self, name: str) -> None:
        """Add a row to it."""
        self._run(f"INSERT INTO {quote(name)} VALUES ()")

    def tables(self) -> list[str]:
        """Return the names of the tables that are compared."""
        rows = self._query(_TABLES, self._database.name)
        return [name for (name,) in rows if not name.startswith(_HIDDEN)]

    def replace(self, table: str) -> None:
        """Drop a table and create another one, of a name that no table has had."""
        self._run(f"DROP TABLE {quote(table)}")
        self._replaced.add(table)
        self._create(self._new_name("r"))

    # ------------------------------------------------------------------ statements

    def _query(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql, arguments)
            return list(cursor.fetchall())

    def _run(self, sql: str) -> bool:
        """Run a statement; return whether the server took it."""
        with closing(self._connection.cursor()) as cursor:
            try:
                count = cursor.execute(sql)
            except pymysql.MySQLError as error:
                self.log.append(f"{sql}; -- {error.args}")
                return False
        self.log.append(f"{sql}; -- {count}")
        return True

    def _choose_session(self) -> None:
        random = self._random
        image = random.choice(self._images)
        self._run(f"SET SESSION binlog_row_image = {image}")
        mode = random.choice(["DEFAULT", "DEFAULT", "''", "'STRICT_ALL_TABLES'"])
        self._run(f"SET SESSION sql_mode = {mode}")

    def _new_name(self, prefix: str = "c") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _columns(self, table: str) -> list[Column]:
        return [
            Column(name, data_type.lower(), nullable == "YES", "GENERATED" in extra.upper())
            for name, data_type, nullable, extra in self._query(_SCHEMA, self._database.name, table)
        ]

    # ------------------------------------------------------------------ tables

    def _create(self, name: str) -> None:
        random = self._random
        declared = [
            f"id {self._definitions.key_type()} NOT NULL",
            "n INT",
        ]
        key = ["id"]
        if random.random() < 0.3:
            declared.append(f"k {self._definitions.key_type()} NOT NULL")
            key = random.choice([["id", "k"], ["k", "id"]])
        for _ in range(random.randint(0, 4)):
            column = random.choice(["from", "é", "a b", "A", "x"]) + self._new_name("")
            declared.append(f"{quote(column)} {self._definitions.definition()}")
        random.shuffle(declared)
        if random.random() < 0.9:
            declared.append(f"PRIMARY KEY ({', '.join(key)})")
        options = random.choice(["", "", "", " DEFAULT CHARSET latin1", " PARTITION BY KEY ()"])
        if not self._run(f"CREATE TABLE {quote(name)} ({', '.join(declared)}){options}"):
            self._run(f"CREATE TABLE {quote(name)} (id INT PRIMARY KEY, n INT, a VARCHAR(20))")

    def _change_table(self, table: str) -> None:
        random, temporary = self._random, self._new_name("_t")
        one, other, between = quote(table), self._new_name("r"), quote(temporary)
        tables = self.tables()
        second = quote(random.choice(tables))
        for each in random.choice(
            [
                [f"TRUNCATE TABLE {one}"],
                [f"DELETE FROM {one}"],
                [f"DROP TABLE {one}", ""],
                [f"RENAME TABLE {one} TO {other}"],
                [f"ALTER TABLE {one} RENAME AS {other}"],
                [f"ALTER TABLE {one} RENAME TO {other}, ADD COLUMN {self._new_name()} INT"],
                [f"RENAME TABLE {one} TO {between}, {second} TO {one}, {between} TO {second}"],
                [
                    f"CREATE TABLE {between} LIKE {one}",
                    f"ALTER TABLE {between} ADD COLUMN {self._new_name()} INT DEFAULT 5",
                    f"INSERT INTO {between} SELECT *, 6 FROM {one}",
                    f"RENAME TABLE {one} TO _{other}, {between} TO {one}",
                    f"DROP TABLE _{other}",
                ],
                [f"CREATE TABLE {other} LIKE {one}", f"INSERT INTO {other} SELECT * FROM {one}"],
                [f"CREATE TABLE IF NOT EXISTS {one} (id INT PRIMARY KEY)"],
                [f"CREATE OR REPLACE TABLE {one} (id INT PRIMARY KEY, n INT)"],
                [f"CREATE UNIQUE INDEX {other} ON {one} (n)", f"DROP INDEX {other} ON {one}"],
                [f"DROP INDEX `PRIMARY` ON {one}"],
                [f"CREATE TABLE {other} (PRIMARY KEY (id)) AS SELECT * FROM {one}"],
                [f"DROP TABLE {one}", f"CREATE TABLE {one} LIKE {second}"],
            ]
        ):
            if each:
                self._run(each)
            else:
                self._create(table)

    def _alter(self, table: str) -> None:
        columns = self._columns(table)
        if columns:
            self._run(self._alterations.statement(table, columns))

    # ------------------------------------------------------------------ rows

    def _write(self, table: str) -> None:
        random, name = self._random, quote(table)
        columns = [each for each in self._columns(table) if not each.generated]
        actions: list[Callable[[], str]] = [lambda: self._rows.write(name, columns)] * 9
        if self._bulk:
            actions += [lambda: self._insert_many(name), lambda: self._update_all(name)] * 2
        in_transaction = random.random() < 0.2
        if in_transaction:
            self._run("BEGIN")
        for _ in range(random.randint(1, 4)):
            self._run(random.choice(actions)())
        if in_transaction:
            self._run("ROLLBACK" if random.random() < 0.3 else "COMMIT")

    def _insert_many(self, table: str) -> str:
        first = self._random.randint(1, 10 * self._bulk)
        return (
            f"INSERT IGNORE INTO {table} (id, n) SELECT {first} + ROW_NUMBER() OVER (), {first}"
            f" FROM information_schema.COLUMNS LIMIT {self._bulk}"
        )

    def _update_all(self, table: str) -> str:
        return f"UPDATE IGNORE {table} SET n = {self._random.randint(1, 99)} + COALESCE(n, 0) % 99"
