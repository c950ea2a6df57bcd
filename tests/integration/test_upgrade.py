"""A server that is upgraded in place is the same server, and its log continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from tests.fixtures.mysql import execute, query
from tests.integration.test_another_history import Source
from tests.services.servers import Server
from tests.support.staged import apply_all
from tests.support.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_a_range_over_the_upgrade_is_staged_as_any_other(metadata: str, tmp_path: Path) -> None:
    options = {"binlog_row_metadata": metadata}
    old = Server.create("mariadb1011", tmp_path / "server")
    old.start(options)
    execute(
        old,
        "CREATE DATABASE shop CHARACTER SET utf8mb4",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20), at DATETIME(3), u INET6)",
        "CREATE TABLE shop.quiet (id INT PRIMARY KEY, note TEXT COMPRESSED)",
        "INSERT INTO shop.orders VALUES (1, 'a', '2024-01-01 00:00:00.5', '::1'),"
        " (2, 'b', NULL, NULL)",
        "INSERT INTO shop.quiet VALUES (1, 'x')",
    )
    log = ConnectionSettings.from_dsn(old.dsn)
    source = Source(tmp_path / "staged", lambda: ServerLog(log))
    source.stage()
    execute(
        old,
        "INSERT INTO shop.orders VALUES (3, 'c', NULL, '::3')",
        "ALTER TABLE shop.orders RENAME COLUMN note TO text, MODIFY at DATETIME(3) AFTER id",
        "UPDATE shop.orders SET text = 'd' WHERE id = 3",
    )
    old.stop()
    new = Server.create("mariadb118", old.folder)
    new.port = old.port
    new.start(options)
    execute(
        new,
        # As mariadb-upgrade does.
        *("SET sql_log_bin = 0", "ALTER TABLE shop.orders FORCE", "SET sql_log_bin = 1"),
        "UPDATE shop.orders SET text = 'e' WHERE id < 3",
        "INSERT INTO shop.orders VALUES (4, NULL, 'f', '::4')",
        "DELETE FROM shop.orders WHERE id = 2",
        "UPDATE shop.quiet SET note = 'y'",
    )

    manifest = source.stage()

    assert manifest.start.file < manifest.stop.file
    assert manifest.events["FORMAT_DESCRIPTION"] >= 1
    _, tables = apply_all(open_store(f"file://{source.folder}"), "shop")
    for table in ("orders", "quiet"):
        rows = [tuple(tables[table][key].values()) for key in sorted(tables[table])]
        assert rows == query(new, f"SELECT * FROM shop.{table} ORDER BY id")
    new.stop()
