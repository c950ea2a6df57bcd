"""The logs that are measured, written once by a real MySQL server and kept in the cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.transport.server.queries import binary_logs
from tests.bench.log_tables import (
    MANY_COLUMNS,
    MANY_ROW,
    MIXED_COLUMNS,
    MIXED_ROW,
    ORDERS,
    TYPES,
)
from tests.fixtures.mysql import connect
from tests.services.cache import obtain
from tests.services.progress import step
from tests.services.servers import Server

if TYPE_CHECKING:
    import pymysql

RELEASE = "mysql97"
UPDATES = 100_000
MIXED_TABLES, MIXED_TRANSACTIONS, MIXED_IMAGES = 20, 200_000, 7
MANY_TRANSACTIONS = 60_000

# Counted up when what is written changes: an older cache is then not used.
_VERSION = 2
_STATEMENT_ROWS = 50_000
_ACCOUNTS = 20_000

_UPDATE_LOOP = f"""CREATE PROCEDURE bench.update_each(count int) BEGIN
    DECLARE n int DEFAULT 0;
    WHILE n < count DO
        UPDATE bench.accounts SET amount = amount + 1, changed = NOW(6), level = n % 100
            WHERE id = 1 + n * 7919 % {_ACCOUNTS};
        SET n = n + 1;
    END WHILE;
END"""
_MANY_LOOP = f"""CREATE PROCEDURE bench.insert_into(count int, tables int) BEGIN
    DECLARE n int DEFAULT 0;
    WHILE n < count DO
        SET @text = CONCAT('INSERT INTO bench.many_', n % tables,
            ' SELECT ', n, ', {MANY_ROW.format(n="n").replace("'", "''")} FROM (SELECT ', n,
            ' AS n) AS one');
        PREPARE statement FROM @text;
        EXECUTE statement;
        SET n = n + 1;
    END WHILE;
END"""


@dataclass(frozen=True)
class Log:
    """One binlog file.

    Attributes:
        name: Of the row in the report.
        title: What was written.
        file: Its name.
        bytes: Its size.
        images: Row images in it: one per insert, two per update.
        columns: Of its tables.
    """

    name: str
    title: str
    file: str
    bytes: int
    images: int
    columns: int


def obtain_logs() -> tuple[Path, dict[str, Log]]:
    """Return the data folder of a server, and by name the logs in it that are measured."""
    folder = obtain(f"bench/{RELEASE}-{_VERSION}", _make)
    logs = json.loads((folder / "logs.json").read_text())
    return folder / "data", {log["name"]: Log(**log) for log in logs}


def _make(folder: Path) -> None:
    server = Server.create(RELEASE, folder / "server")
    server.start({"innodb_buffer_pool_size": "512M", "max_binlog_size": 1 << 30})
    try:
        with closing(connect(server)) as connection:
            logs = _Writer(connection).write()
    finally:
        server.stop()
    (folder / "server" / "data").rename(folder / "data")
    # It holds the server's uuid: each copy makes its own.
    (folder / "data" / "auto.cnf").unlink()
    shutil.rmtree(folder / "server")
    (folder / "logs.json").write_text(json.dumps([asdict(log) for log in logs]))


class _Writer:
    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._logs: list[Log] = []

    def write(self) -> list[Log]:
        """Write every log, and return them."""
        self._cursor.execute("CREATE DATABASE bench CHARACTER SET utf8mb4")
        self._cursor.execute(f"SET SESSION cte_max_recursion_depth = {ORDERS.rows}")
        orders = ORDERS.rows, len(ORDERS.columns)
        self._log("bulk", f"{ORDERS.rows:,} rows inserted in bulk", self._orders, *orders)
        self._log("single", f"{UPDATES:,} updates of one row each", self._updates, 2 * UPDATES, 11)
        self._log("zstd", "the bulk rows, compressed with zstd", self._compressed, *orders)
        self._log(
            "mixed",
            f"{MIXED_TRANSACTIONS:,} transactions on {MIXED_TABLES} tables with JSON",
            self._mixed,
            MIXED_TRANSACTIONS * MIXED_IMAGES,
            10,
        )
        for tables in (10, 1000):
            self._log(
                f"tables{tables}",
                f"{MANY_TRANSACTIONS:,} inserts in turns into {tables:,} tables",
                lambda tables=tables: self._many(tables),  # type: ignore[misc]
                MANY_TRANSACTIONS,
                4,
            )
        for name, table in TYPES.items():
            title = f"{table.rows:,} rows of {len(table.columns)} columns: {table.title}"
            fill = lambda name=name, table=table: self._fill(name, table)  # noqa: E731
            self._log(name, title, fill, table.rows, len(table.columns))
        # The tables themselves are not needed again, and are larger than their logs.
        self._cursor.execute("DROP DATABASE bench")
        return self._logs

    def _log(
        self, name: str, title: str, write: Callable[[], object], images: int, columns: int
    ) -> None:
        """Write a log between two ends of files; `write` returns what it does after it prepared."""
        with step(f"bench: {title}"):
            filled = write()
            if callable(filled):
                self._cursor.execute("FLUSH BINARY LOGS")
                filled()
            self._cursor.execute("FLUSH BINARY LOGS")
            file, size = binary_logs(self._connection)[-2]
        self._logs.append(Log(name, title, file, size, images, columns))

    def _fill(self, name: str, table: Any) -> Callable[[], None]:
        self._cursor.execute(table.create(name))
        count = min(_STATEMENT_ROWS, table.rows)

        def fill() -> None:
            for first in range(0, table.rows, count):
                self._cursor.execute(table.insert(name, first + 1, count))

        return fill

    def _orders(self) -> Callable[[], None]:
        return self._fill("orders", ORDERS)

    def _compressed(self) -> Callable[[], None]:
        fill = self._fill("compressed", ORDERS)

        def compressed() -> None:
            self._cursor.execute("SET SESSION binlog_transaction_compression = ON")
            fill()
            self._cursor.execute("SET SESSION binlog_transaction_compression = OFF")

        return compressed

    def _updates(self) -> Callable[[], None]:
        self._cursor.execute(ORDERS.create("accounts"))
        self._cursor.execute(ORDERS.insert("accounts", 1, _ACCOUNTS))
        self._cursor.execute(_UPDATE_LOOP)
        return lambda: self._cursor.execute("CALL bench.update_each(%s)", (UPDATES,)) and None

    def _mixed(self) -> Callable[[], None]:
        branches = []
        for table in range(MIXED_TABLES):
            name = f"bench.mixed_{table}"
            self._cursor.execute(f"CREATE TABLE {name} ({MIXED_COLUMNS})")
            rows = ", ".join(
                f"(3 * n + {row}, {MIXED_ROW.format(n=f'(3 * n + {row})')})" for row in range(3)
            )
            branches.append(
                f"WHEN {table} THEN INSERT INTO {name} VALUES {rows}; UPDATE {name} SET "
                "amount = amount + 1, extra = JSON_SET(extra, '$.id', -n) "
                "WHERE id BETWEEN 3 * n AND 3 * n + 1;"
            )
        self._cursor.execute(
            "CREATE PROCEDURE bench.mix(count int) BEGIN DECLARE n int DEFAULT 0; "
            f"WHILE n < count DO START TRANSACTION; CASE n % {MIXED_TABLES} {' '.join(branches)} "
            "END CASE; COMMIT; SET n = n + 1; END WHILE; END"
        )
        return lambda: self._cursor.execute("CALL bench.mix(%s)", (MIXED_TRANSACTIONS,)) and None

    def _many(self, tables: int) -> Callable[[], None]:
        self._cursor.execute("DROP PROCEDURE IF EXISTS bench.insert_into")
        self._cursor.execute(_MANY_LOOP)
        for table in range(tables):
            self._cursor.execute(f"DROP TABLE IF EXISTS bench.many_{table}")
            self._cursor.execute(f"CREATE TABLE bench.many_{table} ({MANY_COLUMNS})")
        call = "CALL bench.insert_into(%s, %s)"
        return lambda: self._cursor.execute(call, (MANY_TRANSACTIONS, tables)) and None
