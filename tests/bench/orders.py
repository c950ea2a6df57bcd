"""The table that is loaded: eleven columns, on a server of its own, and mysqldump of it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.fixtures.mysql import execute

if TYPE_CHECKING:
    from tests.services.servers import Server

NAME = ("shop", "orders")
_MILLION = 1_000_000
_SEED_ROWS = 1000


def dump(server: Server) -> None:
    """Let mysqldump read the table, in one transaction, and write it to nowhere."""
    options = ["--single-transaction", "--no-create-info", "--no-tablespaces", "--skip-triggers"]
    account = [f"--host={server.host}", f"--port={server.port}", f"--user={server.account.user}"]
    subprocess.run(
        [*server.program("mysqldump"), *account, "--set-gtid-purged=OFF", *options, *NAME],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def fill_orders(server: Server, rows: int) -> None:
    """Make the table; more rows than a million are a multiple of it."""
    numbers = ", ".join(f"({number})" for number in range(_SEED_ROWS))
    execute(
        server,
        "SET SESSION sql_log_bin = 0",
        "CREATE DATABASE shop CHARACTER SET utf8mb4",
        "CREATE TABLE shop.seed (n INT PRIMARY KEY)",
        f"INSERT INTO shop.seed VALUES {numbers}",
        "CREATE TABLE shop.orders (id BIGINT UNSIGNED PRIMARY KEY, quantity INT, name VARCHAR(40),"
        " street VARCHAR(100), total DECIMAL(12,2), priority TINYINT, made DATETIME(6),"
        " changed TIMESTAMP, note TEXT, weight DOUBLE, state ENUM('new', 'paid', 'sent', 'done'))",
        "INSERT INTO shop.orders SELECT a.n * 1000 + b.n, RAND(1) * 1e9, CONCAT('name', b.n),"
        " IF(b.n % 10, CONCAT('street ', REPEAT('ab', b.n % 10)), NULL), RAND(2) * 1e6 - 5e5,"
        " b.n % 100, NOW(6) - INTERVAL b.n SECOND, NOW() - INTERVAL a.n SECOND,"
        " REPEAT('text é ', b.n % 8), RAND(3) * 1e9, 1 + b.n % 4"
        f" FROM shop.seed a, shop.seed b WHERE a.n < {min(rows, _MILLION) // _SEED_ROWS}",
        *(
            f"INSERT INTO shop.orders SELECT id + {copy * _MILLION}, quantity, name, street,"
            " total, priority, made, changed, note, weight, state FROM shop.orders"
            f" WHERE id < {_MILLION}"
            for copy in range(1, rows // _MILLION)
        ),
        "ANALYZE TABLE shop.orders",
    )
