"""The logs that are measured, written once by a real MySQL server and kept in the cache."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_provider_binlog.transport.server.queries import binary_logs
from tests.fixtures.mysql import connect
from tests.services.cache import obtain
from tests.services.progress import step
from tests.services.servers import Server

RELEASE = "mysql97"
BULK_ROWS = 1_000_000
UPDATES = 100_000

# Counted up when what is written changes: an older cache is then not used.
_VERSION = 1
_STATEMENT_ROWS = 50_000
_ACCOUNTS = 20_000

_COLUMNS = """id bigint unsigned NOT NULL PRIMARY KEY, quantity int, name varchar(40),
    mail varchar(100), amount decimal(12,2), level tinyint, changed datetime(6),
    seen timestamp(3) NULL, note text, score double, state enum('new','paid','sent')"""
_ROW = """n, CRC32(n) DIV 3, CONCAT('customer ', n), CONCAT('customer.', n, '@example.com',
    REPEAT('x', n % 20)), CRC32(n * 7) DIV 100 / 100, n % 100,
    '2024-01-01' + INTERVAL n * 1000003 MICROSECOND, FROM_UNIXTIME(1700000000 + n % 10000000),
    IF(n % 4 = 0, NULL, REPEAT('a note ', n % 4)), CRC32(n * 13) / 1000, 1 + n % 3"""
_UPDATE_LOOP = f"""CREATE PROCEDURE bench.update_each(count int) BEGIN
    DECLARE n int DEFAULT 0;
    WHILE n < count DO
        UPDATE bench.accounts SET amount = amount + 1, changed = NOW(6), level = n % 100
            WHERE id = 1 + n * 7919 % {_ACCOUNTS};
        SET n = n + 1;
    END WHILE;
END"""


@dataclass(frozen=True)
class Log:
    """One binlog file.

    Attributes:
        title: What was written.
        file: Its name.
        bytes: Its size.
        images: Row images in it: one per insert, two per update.
    """

    title: str
    file: str
    bytes: int
    images: int


def obtain_logs() -> tuple[Path, list[Log]]:
    """Return the data folder of a server, and the logs in it that are measured."""
    folder = obtain(f"bench/{RELEASE}-{_VERSION}", _make)
    logs = json.loads((folder / "logs.json").read_text())
    return folder / "data", [Log(**log) for log in logs]


def _make(folder: Path) -> None:
    server = Server.create(RELEASE, folder / "server")
    server.start({"innodb_buffer_pool_size": "512M"})
    try:
        logs = _write(server)
    finally:
        server.stop()
    (folder / "server" / "data").rename(folder / "data")
    # It holds the server's uuid: each copy makes its own.
    (folder / "data" / "auto.cnf").unlink()
    shutil.rmtree(folder / "server")
    (folder / "logs.json").write_text(json.dumps([asdict(log) for log in logs]))


def _write(server: Server) -> list[Log]:
    with closing(connect(server)) as connection, connection.cursor() as cursor:

        def insert(table: str, first: int, count: int) -> None:
            cursor.execute(
                f"INSERT INTO bench.{table} WITH RECURSIVE numbers (n) AS (SELECT {first} "
                f"UNION ALL SELECT n + 1 FROM numbers WHERE n < {first + count - 1}) "
                f"SELECT {_ROW} FROM numbers"
            )

        def end_file() -> tuple[str, int]:
            """Begin a new file; return the name and the size of the one that ended."""
            cursor.execute("FLUSH BINARY LOGS")
            return binary_logs(connection)[-2]

        cursor.execute("CREATE DATABASE bench CHARACTER SET utf8mb4")
        cursor.execute(f"SET SESSION cte_max_recursion_depth = {BULK_ROWS}")
        for table in ("orders", "accounts"):
            cursor.execute(f"CREATE TABLE bench.{table} ({_COLUMNS})")
        insert("accounts", 1, _ACCOUNTS)
        cursor.execute(_UPDATE_LOOP)
        end_file()
        with step(f"bench: {BULK_ROWS:,} rows in one log"):
            for first in range(0, BULK_ROWS, _STATEMENT_ROWS):
                insert("orders", first + 1, _STATEMENT_ROWS)
            bulk = end_file()
        with step(f"bench: {UPDATES:,} transactions in another"):
            cursor.execute("CALL bench.update_each(%s)", (UPDATES,))
            updates = end_file()
        # The tables themselves are not needed again, and are larger than their logs.
        cursor.execute("DROP DATABASE bench")
    return [
        Log(f"{BULK_ROWS:,} rows inserted in bulk", *bulk, images=BULK_ROWS),
        Log(f"{UPDATES:,} updates of one row each", *updates, images=2 * UPDATES),
    ]
