"""Rows per second of a SELECT into Arrow: `python -m tests.bench.select_rows [ROWS]`.

A table of 11 columns on a MySQL server of its own, read twice in turn on one core: as snapshots
read it, and with PyMySQL's SSCursor. Seconds are those of the process: a server that shares the
core with it takes as long in both.

Then the whole table, by the clock: read into Arrow, and dumped by `mysqldump --single-transaction
--no-create-info` to nowhere. How snapshots are staged is measured by `snapshots.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
from pymysql.cursors import SSCursor

from airflow_provider_binlog.changes import Policies
from airflow_provider_binlog.rows.results import compile_results
from airflow_provider_binlog.snapshot.chunk import describe_table
from airflow_provider_binlog.transport.server.consistent_read import open_read
from airflow_provider_binlog.transport.server.result_rows import select_rows
from tests.fixtures.mysql import connect, execute
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 1_000_000
FACTOR_MIN = 10
"""So many times as fast as SSCursor, at least."""

DUMP_FACTOR_MAX = 1.5
"""So many times the seconds of mysqldump, at most, until the rows are in Arrow."""

NAME = ("shop", "orders")
_ROUNDS = 3
_SEED_ROWS = 1000


def main(arguments: list[str]) -> int:
    """Measure, print, and return 1 if a target is missed."""
    rows = int(arguments[0]) if arguments else ROWS
    pa.set_cpu_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    folder = RUN_FOLDER / "bench-select"
    shutil.rmtree(folder, ignore_errors=True)
    server = Server.create("mysql97", folder)
    server.start({"innodb_buffer_pool_size": 512 << 20})
    try:
        fill_orders(server, rows)
        ways: dict[str, Callable[[Server], int]] = {"snapshot": _read, "SSCursor": _read_by_cursor}
        best = dict.fromkeys(ways, 0.0)
        for _ in range(_ROUNDS):
            for name, read in ways.items():
                began = time.process_time()
                count = read(server)
                best[name] = max(best[name], count / (time.process_time() - began))
        reached = _measure_whole(server)
    finally:
        server.stop()
    for name, rate in best.items():
        print(f"{name}: {rate:,.0f} rows per second of processor time")
    factor = best["snapshot"] / best["SSCursor"]
    print(f"{factor:.1f} times as fast; {FACTOR_MIN} is wanted")
    return int(factor < FACTOR_MIN or not reached)


def _measure_whole(server: Server) -> bool:
    """Print how long the whole table takes; return whether the target is reached."""
    dumped, read = _seconds(lambda: dump(server)), _seconds(lambda: _read(server))
    print(f"mysqldump: {dumped:.1f} s; into Arrow: {read:.1f} s, {read / dumped:.2f} times")
    return read <= DUMP_FACTOR_MAX * dumped


def _seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


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
        f" FROM shop.seed a, shop.seed b WHERE a.n < {min(rows, ROWS) // _SEED_ROWS}",
        *(
            f"INSERT INTO shop.orders SELECT id + {copy * ROWS}, quantity, name, street, total,"
            f" priority, made, changed, note, weight, state FROM shop.orders WHERE id < {ROWS}"
            for copy in range(1, rows // ROWS)
        ),
        "ANALYZE TABLE shop.orders",
    )


def _read(server: Server) -> int:
    count = 0
    with open_read(lambda: connect(server, ssl_disabled=True), NAME, exact=False) as read:
        layout = compile_results(describe_table(read, NAME, Policies()).layout)
        statement = f"SELECT {', '.join(layout.expressions)} FROM shop.orders"
        with select_rows(read.connection, statement) as rows:
            layout.check_types(rows.types)
            for block in rows.blocks:
                count += len(layout.decode(block.data, block.start, block.stop).columns[0])
    return count


def _read_by_cursor(server: Server) -> int:
    """Read a fifth of the rows, which takes long enough."""
    count = 0
    with (
        closing(connect(server, ssl_disabled=True)) as connection,
        connection.cursor(SSCursor) as cursor,
    ):
        cursor.execute(f"SELECT * FROM shop.orders LIMIT {ROWS // 5}")
        while rows := cursor.fetchmany(10_000):
            count += len(rows)
            for values in zip(*rows, strict=True):
                pa.array(values)
    return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
