"""Every setting of how rows are logged, switched between the transactions of one range."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any

import pytest

from tests.faults.tasks import Tasks
from tests.fixtures.mysql import execute, flush_log, query
from tests.integration.test_row_images import assert_equals_select, defaults_of
from tests.support.ranges import Staged

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]

SESSION = {
    "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"),
    "time_zone": ("'+00:00'", "'-11:30'", "'+05:00'"),
    "sql_mode": ("''", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "'TRADITIONAL'"),
    "NAMES": ("utf8mb4", "latin1", "gbk"),
}
GLOBAL = {
    "binlog_row_metadata": ("FULL", "MINIMAL"),
    "binlog_checksum": ("CRC32", "NONE"),
}
COMPRESSION = {"mysql": "binlog_transaction_compression", "maria": "log_bin_compress"}
ROWS_MAX = 40


def switch(draw: random.Random, kind: str) -> tuple[str, str]:
    """Return statements that switch a setting: of the session, and of the server."""
    compression = {COMPRESSION[kind[:5]]: ("ON", "OFF")}
    mysql = kind.startswith("mysql")
    session = SESSION | (compression if mysql else {})
    server = GLOBAL | ({} if mysql else compression)
    name, values = draw.choice(list(session.items()))
    assigned = f"{name} {draw.choice(values)}" if name == "NAMES" else f"{name} = {{}}"
    own = f"SET {assigned.format(draw.choice(values))}"
    name, values = draw.choice(list(server.items()))
    return own, f"SET GLOBAL {name} = {draw.choice(values)}"


def write(draw: random.Random) -> str:
    """Return a statement on some rows."""
    id_ = draw.randrange(ROWS_MAX)
    match draw.randrange(5):
        case 0:
            return f"DELETE FROM wide WHERE id = {id_}"
        case 1:
            return f"UPDATE wide SET made = NOW(), seen = NOW(3), size = size + 1 WHERE id > {id_}"
        case 2:
            return f"UPDATE wide SET id = id + 1000 WHERE id = {id_}"
        case 3:
            return f"UPDATE wide SET note = REPEAT('n', {id_}), data = x'00ff' WHERE id < {id_}"
        case _:
            # Without full images MariaDB logs less than what REPLACE does.
            return (
                "INSERT INTO wide (id, note, kind, made) VALUES"
                f" ({id_}, 'n{id_}', 'b', '2024-02-29 01:02:03'), ({id_ + 50}, NULL, 'a', NULL)"
                " ON DUPLICATE KEY UPDATE note = 'again', kind = 'a'"
            )


@pytest.mark.fault("settings", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_settings_are_switched_within_the_range(kind: str, tasks: Tasks) -> None:
    database, draw = tasks.database, random.Random(kind)
    tasks.run()
    before: dict[str, Any] = dict(
        query(database.server, "SHOW GLOBAL VARIABLES WHERE variable_name LIKE '%%bin%%'")
    )
    database.execute(
        "DROP TABLE orders",
        "CREATE TABLE wide (id INT PRIMARY KEY, note TEXT, data BLOB, size BIGINT UNSIGNED"
        " NOT NULL DEFAULT 7, kind ENUM('a', 'b') CHARACTER SET latin1, made DATETIME,"
        " seen TIMESTAMP(3) NULL, name VARCHAR(30) CHARACTER SET gbk DEFAULT '漢字')",
    )
    try:
        with closing(database.connect()) as connection, connection.cursor() as cursor:
            for _ in range(60):
                own, everyones = switch(draw, kind)
                cursor.execute(own)
                if draw.random() < 0.3:
                    execute(database.server, everyones)
                cursor.execute(write(draw))
    finally:
        for name in (*GLOBAL, *COMPRESSION.values()):
            if name in before:
                execute(database.server, f"SET GLOBAL {name} = {before[name]}")

    # In the background MariaDB writes to a file that it began by itself.
    flush_log(database.server)
    staged = tasks.stage(before_images="all" if draw.random() < 0.5 else "key_changes")
    tasks.save(staged)
    (*_, manifest) = tasks.manifests()

    assert not manifest.quarantined
    staged_range = Staged(manifest, tasks.store)
    assert_equals_select(staged_range, database, defaults_of(database, ["wide"]))
    tasks.nothing_left()
