"""Savepoints and rollbacks beside tables that cannot be rolled back.

MySQL cuts from the log what it rolls back. MariaDB logs it, and that it was rolled back, where
a table without transactions or a temporary table was changed meanwhile: its tables are quarantined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.changes import OnTableError
from tests.services.servers import Server
from tests.support.ranges import (
    Range,
    assert_equal_to_select,
    end_of,
    files,
    happen,
    live,
    stage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.mysql import Database

pytestmark = pytest.mark.server

TABLES = [
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200))",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "CREATE TABLE loose (id INT PRIMARY KEY) ENGINE=MyISAM",
    "CREATE TABLE copies (id INT) ENGINE=MyISAM",
    "CREATE TRIGGER g AFTER INSERT ON u FOR EACH ROW INSERT INTO copies VALUES (NEW.id)",
]


def t(number: int) -> str:
    return f"INSERT INTO t VALUES ({number}, REPEAT('x', 150))"


def many(first: int) -> str:
    rows = ", ".join(f"({number}, REPEAT('y', 150))" for number in range(first, first + 300))
    return f"INSERT INTO t VALUES {rows}"


TRANSACTIONS = [
    # What cannot be rolled back is logged by itself; what can is logged, and then rolled back.
    [t(1), "SAVEPOINT s", t(2), "INSERT INTO loose VALUES (2)", "ROLLBACK TO s", t(3), "COMMIT"],
    [t(11), "SAVEPOINT s", "INSERT INTO u VALUES (12)", "ROLLBACK TO s", t(13), "COMMIT"],
    [t(21), "INSERT INTO u VALUES (22)", "INSERT INTO loose VALUES (22)", "ROLLBACK"],
    # Nested, repeated, and the same name twice, which the server compares without case.
    [
        *(t(41), "SAVEPOINT a", t(42), "SAVEPOINT `b c`", "INSERT INTO loose VALUES (43)", t(43)),
        *("ROLLBACK TO `b c`", t(44), "ROLLBACK TO `b c`", t(45), "ROLLBACK TO a", t(46), "COMMIT"),
    ],
    [
        *(t(51), "SAVEPOINT s", "UPDATE loose SET id = 52 WHERE id = 2", t(52), "SAVEPOINT S"),
        *(t(53), "INSERT INTO loose VALUES (53)", "ROLLBACK TO s", t(54), "COMMIT"),
    ],
    # Larger than any block below.
    [
        *("DELETE FROM t WHERE id < 50", "SAVEPOINT `a``b`", many(1000), many(2000)),
        *("INSERT INTO loose VALUES (61)", "UPDATE t SET a = 'z' WHERE id > 1500"),
        *("ROLLBACK WORK TO SAVEPOINT `a``b`", many(3000), "COMMIT"),
    ],
    [many(4000), "INSERT INTO loose VALUES (71)", many(5000), "ROLLBACK"],
    # The log quotes names as the session does.
    [
        *("SET sql_mode = 'ANSI_QUOTES'", t(81), 'SAVEPOINT "select"', t(82)),
        *("INSERT INTO loose VALUES (82)", 'ROLLBACK TO "select"', t(83), "COMMIT"),
    ],
    [
        *("SET sql_quote_show_create = 0", t(91), "SAVEPOINT s", t(92)),
        *("INSERT INTO loose VALUES (92)", "ROLLBACK TO s", t(93), "COMMIT"),
    ],
]


def workload() -> list[str]:
    settings = ["SET sql_mode = DEFAULT", "SET sql_quote_show_create = 1"]
    return [
        statement
        for steps in TRANSACTIONS
        for statement in (*settings, "START TRANSACTION", *steps)
    ]


@pytest.fixture(scope="module", params=["mysql97", "mariadb1011", "mariadb118"])
def lax(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Server]:
    """A server that lets a transaction change tables without transactions."""
    if request.param != "mysql97":
        yield request.getfixturevalue(request.param)
        return
    server = Server.create("mysql97", run_folder / "lax")
    server.start({"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"})
    yield server
    server.stop()


def assert_not_staged(server: Server, happened: Range, quarantined: set[str]) -> None:
    """Check that MariaDB's tables are quarantined, and that MySQL's rows are those of SELECT."""
    expected = stage(live(server), happened, on_table_error=OnTableError.QUARANTINE)
    if server.name.startswith("mariadb"):
        assert {table.table for table in expected.manifest.quarantined} == quarantined
    else:
        assert_equal_to_select(expected, happened.database)
    for source in (
        files(server),
        files(server, block_bytes=1000),
        live(server, block_bytes=30_000),
    ):
        again = stage(source, happened, on_table_error=OnTableError.QUARANTINE)
        assert again.manifest == expected.manifest


def test_what_was_rolled_back_is_not_staged(
    lax: Server, create_database: Callable[[Server], Database]
) -> None:
    happened = happen(create_database(lax), *TABLES, *workload())

    assert_not_staged(lax, happened, {"t", "u"})


def test_a_rollback_that_the_log_shows_quarantines_its_tables(
    mariadb1011: Server, create_database: Callable[[Server], Database]
) -> None:
    happened = happen(
        create_database(mariadb1011),
        *TABLES,
        *("START TRANSACTION", t(1), "CREATE TEMPORARY TABLE x (a INT)", t(2), "ROLLBACK"),
        "INSERT INTO u VALUES (1)",
    )

    for source in (live(mariadb1011), files(mariadb1011, block_bytes=1000)):
        manifest = stage(source, happened, on_table_error=OnTableError.QUARANTINE).manifest
        assert [table.table for table in manifest.quarantined] == ["t"]
        assert {table.table for table in manifest.tables if table.rows} == {"u", "copies"}


@pytest.mark.parametrize("end", [["XA PREPARE 'x'", "XA COMMIT 'x'"], ["XA COMMIT 'x' ONE PHASE"]])
def test_what_was_rolled_back_in_a_transaction_of_two_phases_is_not_staged(
    end: list[str], lax: Server, create_database: Callable[[Server], Database]
) -> None:
    happened = happen(
        create_database(lax),
        *TABLES,
        *("XA START 'x'", t(1), "SAVEPOINT s", many(1000), "INSERT INTO loose VALUES (2)"),
        *("ROLLBACK TO s", t(3), "XA END 'x'", *end, t(4)),
    )

    assert_not_staged(lax, happened, {"t"})


def test_a_table_that_a_failed_statement_dropped_is_dropped(
    mariadb118: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mariadb118)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE two (id INT)")
    database.execute("INSERT INTO two VALUES (1), (1)")
    begin = end_of(mariadb118)
    database.execute("INSERT INTO t VALUES (1)")
    failing = "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY) SELECT id FROM two"
    with pytest.raises(Exception, match="Duplicate entry"):
        database.execute(failing)

    staged = stage(live(mariadb118), Range(database, begin, end_of(mariadb118)))

    assert database.query("SHOW TABLES LIKE 't'") == []
    assert [statement.type for statement in staged.manifest.statements] == ["DROP TABLE"]
