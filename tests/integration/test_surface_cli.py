"""`events` and `rows` beside what the server itself prints, from the server and from its files.

What `rows` does where the log says little of its tables: see test_surface_past.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.cli.commands import main
from tests.fixtures import mysql
from tests.fixtures.mysql import Database
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What the mysql client escapes in batch mode.
ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\0": r"\0"})

ROWS = [
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(10,2), n BIGINT UNSIGNED)",
    "CREATE TABLE `od``d\t\\x` (a INT) ENGINE=MyISAM",
    "BEGIN",
    "INSERT INTO t VALUES (1, 'a\n\\tb', 1.5, 18446744073709551615), (2, 'é漢😀', NULL, 0)",
    "UPDATE t SET id = 3 WHERE id = 1",
    "COMMIT",
    "INSERT INTO `od``d\t\\x` VALUES (3)",
    "DELETE FROM t WHERE id = 2",
]
MORE = [
    "XA START 'a', 'b', 7",
    "INSERT INTO t (id) VALUES (8)",
    "XA END 'a', 'b', 7",
    "XA PREPARE 'a', 'b', 7",
    "XA COMMIT 'a', 'b', 7",
    "XA START 'c'",
    "INSERT INTO t (id) VALUES (9)",
    "XA END 'c'",
    "XA COMMIT 'c' ONE PHASE",
    "SET foreign_key_checks = 0, unique_checks = 0",
    "INSERT INTO t (id) VALUES (10)",
    "SET foreign_key_checks = 1, unique_checks = 1",
    "BEGIN",
    "INSERT INTO t (id) VALUES (11)",
    "SAVEPOINT a",
    "INSERT INTO t (id) VALUES (12)",
    "ROLLBACK TO a",
    "COMMIT",
    "CREATE TABLE copied SELECT * FROM t",
    "CREATE TEMPORARY TABLE passing (a INT)",
    "DROP TEMPORARY TABLE passing",
    "CREATE VIEW seen AS SELECT id FROM t",
    "FLUSH TABLES",
    "SET @text = 'it''s', @number = -3, @decimal = -12.345, @nothing = NULL, @real = 0.1e0",
    "SET SESSION binlog_format = STATEMENT",
    "CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(99))",
    "INSERT INTO s (v) VALUES (@text), (@number), (@decimal), (@nothing), (@real), (RAND())",
    "INSERT INTO s (v) VALUES (LAST_INSERT_ID())",
    "SET SESSION binlog_format = ROW",
    "ALTER TABLE t ADD COLUMN z INT",
    "ANALYZE TABLE t",
    "TRUNCATE TABLE s",
    "DROP TABLE `od``d\t\\x`",
]
MYSQL_MORE = [
    "CREATE TABLE vectors (v VECTOR(3), hidden INT INVISIBLE)",
    "INSERT INTO vectors (v) VALUES (TO_VECTOR('[1,2,3]'))",
    "SET binlog_rows_query_log_events = 1",
    "INSERT INTO t (id) VALUES (20)",
    "SET gtid_next = 'AUTOMATIC:tag'",
    "INSERT INTO t (id) VALUES (21)",
    "SET gtid_next = 'AUTOMATIC'",
    "SET binlog_transaction_compression = 1",
    "INSERT INTO t (id, v) VALUES (22, REPEAT('a', 20))",
    "UPDATE t SET v = NULL",
]
MARIADB_MORE = [
    "CREATE TABLE loose (a INT) ENGINE=MyISAM",
    *("BEGIN", "INSERT INTO t (id) VALUES (30)", "SAVEPOINT b", "INSERT INTO loose VALUES (1)"),
    *("ROLLBACK TO b", "COMMIT"),
    "CREATE SEQUENCE numbers",
    "SELECT NEXTVAL(numbers)",
    "DROP SEQUENCE numbers",
    "SET STATEMENT sql_mode = '' FOR ALTER TABLE t ADD f INT",
    "SET GLOBAL log_bin_compress = 1, log_bin_compress_min_len = 10",
    "INSERT INTO t (id, v) VALUES (22, REPEAT('a', 20))",
    "UPDATE t SET v = NULL",
    "CREATE TABLE `a table that is compressed` (id INT)",
]


def shown(server: Server, file: str) -> list[str]:
    rows = mysql.query(server, f"SHOW BINLOG EVENTS IN '{file}'")
    return [
        "\t".join("" if each is None else str(each).translate(ESCAPES) for each in row)
        for row in rows
    ]


def fill(database: Database, statements: list[str]) -> str:
    """Execute statements, and return the closed binlog file that they are in."""
    file = mysql.flush_log(database.server)
    database.execute(*statements)
    mysql.execute(database.server, "FLUSH BINARY LOGS")
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


@pytest.fixture(params=["mysql97", "mariadb1011", "mariadb118"])
def own_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database on a server of its own: statements in the log would be in other tests' way."""
    server = Server.create(request.param, tmp_path / "server")
    server.start()
    mysql.execute(server, "CREATE DATABASE own CHARACTER SET utf8mb4")
    yield Database(server, "own")
    server.stop()


@pytest.mark.server
def test_events_are_those_of_show_binlog_events(
    own_database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    server = own_database.server
    is_mysql = server.name.startswith("mysql")
    file = fill(own_database, ROWS + MORE + (MYSQL_MORE if is_mysql else MARIADB_MORE))
    following = mysql.newest_file(server)
    expected = shown(server, file)

    from_file = run(capsys, "events", str(server.data / file))
    span = ["--from", f"{file}:4", "--to", f"{following}:4"]
    from_server = run(capsys, "events", server.dsn, *span)

    assert from_file == [_known(line) for line in expected]
    assert from_server == from_file


def _known(line: str) -> str:
    """Leave out the values that go with the text of a statement."""
    *fields, info = line.split("\t")
    return "\t".join([*fields, "" if fields[2] in ("Intvar", "RAND", "User var") else info])


def test_rows_are_the_same_from_files_and_from_the_server(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    server = database.server
    file = fill(database, ROWS)
    following = mysql.newest_file(server)

    from_file = run(capsys, "rows", str(server.data / file), "--table", f"{database.name}.t")
    span = ["--from", f"{file}:4", "--to", f"{following}:4"]
    from_server = run(capsys, "rows", server.dsn, "--table", f"{database.name}.t", *span)

    rows = [json.loads(line) for line in from_file]
    first = {"id": 1, "v": "a\n\tb", "d": "1.50", "n": 2**64 - 1}
    second = {"id": 2, "v": "é漢😀", "d": None, "n": 0}
    assert [(row["change"], row["values"]) for row in rows] == [
        ("insert", first),
        ("insert", second),
        ("update_preimage", first),
        ("update_postimage", first | {"id": 3}),
        ("delete", second),
    ]
    assert {row["table"] for row in rows} == {f"{database.name}.t"}
    assert [row["row"] for row in rows] == sorted({row["row"] for row in rows})
    assert len({row["gtid"] for row in rows}) == 2
    assert from_server == from_file


def test_a_server_is_verified_as_its_files_are(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    server = database.server
    file = fill(database, ROWS)
    following = mysql.newest_file(server)
    tables = ["--verify", "--table", f"{database.name}.*"]

    from_file = run(capsys, "rows", str(server.data / file), *tables)
    span = ["--from", f"{file}:4", "--to", f"{following}:4"]
    from_server = run(capsys, "rows", server.dsn, *tables, *span)

    assert f"  {f'{database.name}.t':<30}{4:>12}  2 inserts, 1 updates, 1 deletes" in from_file
    assert "refused   0" in from_file
    assert from_server == from_file


def test_status_names_what_is_missing(mysql97: Server, capsys: pytest.CaptureFixture[str]) -> None:
    mysql.execute(
        mysql97,
        "CREATE USER IF NOT EXISTS viewer IDENTIFIED BY 'p'",
        "GRANT REPLICATION CLIENT ON *.* TO viewer",
    )

    assert main(["status", f"mysql://viewer:p@{mysql97.host}:{mysql97.port}"]) == 1

    printed = capsys.readouterr()
    assert mysql97.version in printed.out
    assert "GRANT REPLICATION SLAVE" in printed.out
    mysql.execute(mysql97, "GRANT REPLICATION SLAVE ON *.* TO viewer")
    viewer = f"mysql://viewer:p@{mysql97.host}:{mysql97.port}"
    shown = json.loads("".join(run(capsys, "status", viewer, "-o", "json")))
    assert shown["tables"].startswith("none that the account sees: GRANT SELECT")
    mysql.execute(mysql97, "REVOKE REPLICATION SLAVE ON *.* FROM viewer")
    shown = json.loads("".join(run(capsys, "status", mysql97.dsn, "-o", "json")))
    assert (shown["capture"], shown["problems"]) == ("ready", [])
