"""The logs that are measured, each written once by a real MySQL server and kept in the cache."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.transport.server.queries import binary_logs
from tests.bench.log_tables import (
    GROWTH,
    MANY_COLUMNS,
    MANY_ROW,
    MIXED_COLUMNS,
    MIXED_ROW,
    ORDERS,
    TYPES,
    BenchTable,
)
from tests.fixtures.mysql import connect
from tests.services.cache import obtain
from tests.services.progress import step
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pymysql

    Execute = Callable[[str], object]
    Fill = Callable[[], None]

RELEASE = "mysql97"

# Counted up when what is written changes: an older cache is then not used.
_VERSION = 1
_FILE = "binlog.000001"
_STATEMENT_ROWS = 50_000
_ACCOUNTS = 20_000
_UPDATES = 100_000
_MIXED_TABLES, _MIXED_TRANSACTIONS, _MIXED_IMAGES = 20, 200_000, 7
_MANY_TRANSACTIONS = 60_000


@dataclass(frozen=True)
class LogSpec:
    """What is written into a log.

    Attributes:
        title: In words.
        images: Row images: one per insert, two per update.
        columns: Of its tables.
        prepare: Makes the tables; returns what writes the log.
    """

    title: str
    images: int
    columns: int
    prepare: Callable[[Execute], Fill]


@dataclass(frozen=True)
class Log:
    """One binlog file.

    Attributes:
        name: Of its specification.
        title, images, columns: As there.
        folder: Where it lies.
        file: Its name.
        bytes: Its size.
    """

    name: str
    title: str
    images: int
    columns: int
    folder: str
    file: str
    bytes: int


def filled(
    table: BenchTable, rows: int | None = None, *, name: str = "filled", begun: int = 0
) -> Callable[[Execute], Fill]:
    """Return the preparation of a table that is filled in bulk, and has `begun` rows before."""
    count = rows or table.rows

    def prepare(execute: Execute) -> Fill:
        execute(table.create(name))
        if begun:
            execute(table.insert(name, 1, begun))

        def fill() -> None:
            for first in range(begun, begun + count, _STATEMENT_ROWS):
                left = begun + count - first
                execute(table.insert(name, first + 1, min(_STATEMENT_ROWS, left)))

        return fill

    return prepare


def prepare_log(spec: LogSpec, execute: Execute) -> Fill:
    """Prepare a log in a session whose statements may insert as many rows as they do."""
    execute("SET SESSION cte_max_recursion_depth = 1000000")
    return spec.prepare(execute)


def _compressed(execute: Execute) -> Fill:
    fill = filled(ORDERS)(execute)
    execute("SET SESSION binlog_transaction_compression = ON")
    return fill


def _updated(execute: Execute) -> Fill:
    execute(ORDERS.create("accounts"))
    execute(ORDERS.insert("accounts", 1, _ACCOUNTS))
    execute(
        "CREATE PROCEDURE bench.update_each(count int) BEGIN DECLARE n int DEFAULT 0; "
        "WHILE n < count DO UPDATE bench.accounts SET amount = amount + 1, changed = NOW(6), "
        f"level = n % 100 WHERE id = 1 + n * 7919 % {_ACCOUNTS}; SET n = n + 1; END WHILE; END"
    )
    return lambda: _call(execute, f"bench.update_each({_UPDATES})")


def _mixed(execute: Execute) -> Fill:
    branches = []
    for table in range(_MIXED_TABLES):
        name = f"bench.mixed_{table}"
        execute(f"CREATE TABLE {name} ({MIXED_COLUMNS})")
        rows = ", ".join(
            f"(3 * n + {row}, {MIXED_ROW.format(n=f'(3 * n + {row})')})" for row in range(3)
        )
        branches.append(
            f"WHEN {table} THEN INSERT INTO {name} VALUES {rows}; UPDATE {name} SET "
            "amount = amount + 1, extra = JSON_SET(extra, '$.id', -n) "
            "WHERE id BETWEEN 3 * n AND 3 * n + 1;"
        )
    execute(
        "CREATE PROCEDURE bench.mix(count int) BEGIN DECLARE n int DEFAULT 0; "
        f"WHILE n < count DO START TRANSACTION; CASE n % {_MIXED_TABLES} {' '.join(branches)} "
        "END CASE; COMMIT; SET n = n + 1; END WHILE; END"
    )
    return lambda: _call(execute, f"bench.mix({_MIXED_TRANSACTIONS})")


def _many(tables: int) -> Callable[[Execute], Fill]:
    def prepare(execute: Execute) -> Fill:
        # Names of one length: the logs have the same bytes whatever the number of tables is.
        for table in range(tables):
            execute(f"CREATE TABLE bench.many_{table:04} ({MANY_COLUMNS})")
        row = MANY_ROW.format(n="n").replace("'", "''")
        execute(
            "CREATE PROCEDURE bench.insert_into(count int) BEGIN DECLARE n int DEFAULT 0; "
            "WHILE n < count DO SET @text = CONCAT('INSERT INTO bench.many_', "
            f"LPAD(n % {tables}, 4, '0'), ' SELECT n, {row} FROM (SELECT ', n, ' AS n) AS one'); "
            "PREPARE statement FROM @text; EXECUTE statement; SET n = n + 1; END WHILE; END"
        )
        return lambda: _call(execute, f"bench.insert_into({_MANY_TRANSACTIONS})")

    return prepare


def _large(*, updated: bool) -> Callable[[Execute], Fill]:
    """Return the preparation of a table whose one row is inserted, or updated."""

    def prepare(execute: Execute) -> Fill:
        execute("CREATE TABLE bench.large (id int PRIMARY KEY, n int, content longblob)")
        execute("SET SESSION group_concat_max_len = 1 << 30")
        # Bytes that nothing makes smaller.
        statement = (
            "INSERT INTO bench.large WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT "
            f"n + 1 FROM numbers WHERE n < {60 << 10}) SELECT 1, 1, "
            "GROUP_CONCAT(RANDOM_BYTES(1024) SEPARATOR '') FROM numbers"
        )
        if updated:
            execute(statement)
            statement = "UPDATE bench.large SET n = 2"

        def fill() -> None:
            execute(statement)

        return fill

    return prepare


def _call(execute: Execute, procedure: str) -> None:
    execute(f"CALL {procedure}")


SPECS = {
    "bulk": LogSpec("1,000,000 rows inserted in bulk", ORDERS.rows, 11, filled(ORDERS)),
    "bulk_tenth": LogSpec("100,000 rows inserted in bulk", 100_000, 11, filled(ORDERS, 100_000)),
    "single": LogSpec("100,000 updates of one row each", 2 * _UPDATES, 11, _updated),
    "zstd": LogSpec("the bulk rows, compressed with zstd", ORDERS.rows, 11, _compressed),
    "mixed": LogSpec(
        "200,000 transactions on 20 tables with JSON",
        _MIXED_TRANSACTIONS * _MIXED_IMAGES,
        10,
        _mixed,
    ),
    "tables10": LogSpec("60,000 inserts in turns into 10 tables", 60_000, 4, _many(10)),
    "tables100": LogSpec("60,000 inserts in turns into 100 tables", 60_000, 4, _many(100)),
    "tables1000": LogSpec("60,000 inserts in turns into 1,000 tables", 60_000, 4, _many(1000)),
    "tables10000": LogSpec("60,000 inserts in turns into 10,000 tables", 60_000, 4, _many(10_000)),
    "large_insert": LogSpec("one row of 60 MiB inserted", 1, 3, _large(updated=False)),
    "large_update": LogSpec("one row of 60 MiB updated", 2, 3, _large(updated=True)),
    **{
        name: LogSpec(
            f"{table.rows:,} rows of {len(table.columns)} columns: {table.title}",
            table.rows,
            len(table.columns),
            filled(table),
        )
        for name, table in (TYPES | GROWTH).items()
    },
}


def obtain_log(name: str) -> Log:
    """Return a log, written if the cache does not have it."""
    spec = SPECS[name]
    folder = obtain(f"bench/{RELEASE}-{name}-{_VERSION}", lambda folder: _make(folder, spec))
    size = (folder / _FILE).stat().st_size
    return Log(name, spec.title, spec.images, spec.columns, str(folder), _FILE, size)


def _make(folder: Path, spec: LogSpec) -> None:
    server = Server.create(RELEASE, folder / "server")
    server.start(
        {
            "innodb_buffer_pool_size": "512M",
            "max_binlog_size": 1 << 30,
            "max_allowed_packet": 1 << 28,
        }
    )
    try:
        with step(f"bench: {spec.title}"), closing(connect(server)) as connection:
            file = _write(connection, spec)
    finally:
        server.stop()
    # The tables themselves are not needed again, and are larger than their log.
    (server.data / file).rename(folder / _FILE)
    shutil.rmtree(folder / "server")


def _write(connection: pymysql.Connection[Any], spec: LogSpec) -> str:
    """Return the name of the file that holds the log and nothing else."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE bench CHARACTER SET utf8mb4")
        fill = prepare_log(spec, cursor.execute)
        cursor.execute("FLUSH BINARY LOGS")
        fill()
        cursor.execute("FLUSH BINARY LOGS")
    return binary_logs(connection)[-2][0]


def serve(logs: Iterable[Log], folder: Path) -> tuple[Server, dict[str, Log]]:
    """Return a started server that has these logs as its own, and what they are called there."""
    server = Server.create(RELEASE, folder)
    served: dict[str, Log] = {}
    for number, log in enumerate(logs, 1):
        name = f"binlog.{number:06}"
        shutil.copy(f"{log.folder}/{log.file}", server.data / name)
        served[log.name] = Log(**asdict(log) | {"folder": str(server.data), "file": name})
    index = "".join(f"./{log.file}\n" for log in served.values())
    (server.data / "binlog.index").write_text(index)
    server.start()
    return server, served


def digest(log: Log) -> str:
    """Return what a kept result says of a log: other logs are not comparable."""
    return json.dumps([log.name, log.images, log.bytes])
