"""What rows hold in an added column: known from the statement as SELECT shows it, or unknown."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pymysql
import pytest

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Default, UnknownDefault
from airflow_provider_binlog.sql.ddl import Altered, read_ddl
from airflow_provider_binlog.sql.definitions import AddColumn
from airflow_provider_binlog.sql.lexer import (
    ANSI_QUOTES,
    NO_BACKSLASH_ESCAPES,
    STRICT_TRANS_TABLES,
    Session,
)
from tests.fixtures.mysql import connect
from tests.reference.events import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fixtures.mysql import Database
    from tests.services.servers import Server

pytestmark = pytest.mark.server

SERVERS = ["mysql97", "mariadb1011", "mariadb118"]
MODES = {
    "STRICT_TRANS_TABLES": STRICT_TRANS_TABLES,
    "": 0,
    "NO_BACKSLASH_ESCAPES": NO_BACKSLASH_ESCAPES,
    "ANSI_QUOTES,STRICT_TRANS_TABLES": ANSI_QUOTES | STRICT_TRANS_TABLES,
}

# Their values must be known, under every sql_mode and on every server that takes them.
KNOWN = [
    *("INT", "INT NULL", "INT DEFAULT NULL", "INT NOT NULL", "BIGINT UNSIGNED NOT NULL"),
    *("INT DEFAULT 7", "INT NOT NULL DEFAULT -7", "INT DEFAULT +7", "INT DEFAULT '7'"),
    *("TINYINT DEFAULT -128", "BIGINT UNSIGNED DEFAULT 18446744073709551615"),
    *("BOOL NOT NULL DEFAULT TRUE", "BOOL DEFAULT FALSE", "INT DEFAULT 007"),
    *("DECIMAL(10,2) DEFAULT 1", "DECIMAL(10,2) DEFAULT '1'", "DECIMAL(10,2) DEFAULT -.5"),
    *("DECIMAL(10,2) DEFAULT 0001.50", "DECIMAL(10,2) NOT NULL", "DECIMAL(10,2) DEFAULT -0.00"),
    *("DECIMAL DEFAULT 12", "DECIMAL(65,30) DEFAULT 1.5", "NUMERIC(6,3) UNSIGNED DEFAULT 1.5"),
    *("FLOAT NOT NULL", "DOUBLE NOT NULL", "FLOAT DEFAULT 1.5", "DOUBLE DEFAULT -0.25"),
    *("DOUBLE DEFAULT 1", "FLOAT DEFAULT 0.001", "DOUBLE(10,2) DEFAULT 1.5"),
    *("FLOAT DEFAULT 123456", "DOUBLE DEFAULT 123456789012345", "FLOAT(7,3) NOT NULL"),
    *("VARCHAR(20) DEFAULT 'x'", "VARCHAR(20) DEFAULT ''", "VARCHAR(20) DEFAULT 'NULL'"),
    *("VARCHAR(20) DEFAULT 'it''s'", "VARCHAR(20) DEFAULT 'a '"),
    *("VARCHAR(20) DEFAULT 'é'", "VARCHAR(20) CHARSET latin1 DEFAULT 'é€'"),
    *("VARCHAR(20) CHARSET ucs2 DEFAULT '日'", "VARCHAR(20) DEFAULT '😀 \"x\"'"),
    *("CHAR(5) DEFAULT 'a  '", "CHAR(5) NOT NULL", "VARCHAR(20) NOT NULL", "VARCHAR(9) DEFAULT 5"),
    "VARCHAR(9) DEFAULT -5",
    *("TEXT", "TEXT NOT NULL", "BLOB NOT NULL", "LONGTEXT NOT NULL", "JSON", "JSON NOT NULL"),
    *("VARBINARY(9) DEFAULT 'ab'", "BINARY(4) DEFAULT 'ab'", "BINARY(2) NOT NULL"),
    *("VARBINARY(9) DEFAULT x'00ff'", "VARBINARY(9) DEFAULT 0xABC", "VARBINARY(9) NOT NULL"),
    "BINARY(3) DEFAULT b'101'",
    *("BIT(9) DEFAULT b'101'", "BIT(9) NOT NULL", "BIT DEFAULT 1", "BIT(16) DEFAULT 0x0102"),
    *("ENUM('p','q,') DEFAULT 'q,'", "ENUM('p','q') NOT NULL", "ENUM('it''s') NOT NULL"),
    *("SET('x','y') DEFAULT 'y,x'", "SET('x','y') DEFAULT ''", "SET('x','y') NOT NULL"),
    *("DATE DEFAULT '2024-02-29'", "DATE DEFAULT NULL"),
    *("DATETIME DEFAULT '2024-02-29 01:02:03'", "DATETIME(3) DEFAULT '2024-02-29 01:02:03.5'"),
    "DATETIME(2) DEFAULT '2024-02-29'",
    *("TIME DEFAULT '-01:02:03'", "TIME(2) DEFAULT '838:59:59'", "TIME DEFAULT '001:02:03'"),
    *("TIME NOT NULL", "TIME(3) NOT NULL", "TIME(1) DEFAULT '-00:00:00'", "YEAR DEFAULT 2024"),
    *("YEAR NOT NULL", "YEAR DEFAULT '1901'", "TIMESTAMP NULL", "TIMESTAMP NULL DEFAULT NULL"),
    *("POINT", "GEOMETRY NULL", "INT DEFAULT 5 COMMENT 'DEFAULT 6'", "INT COMMENT 'a' DEFAULT 5"),
    *("INT DEFAULT 5 NOT NULL CHECK (c > 1)", "INT /* NOT NULL */ /*!50000 DEFAULT 3 */"),
    # MariaDB alone.
    "TEXT DEFAULT 'x'",
    # Constants in brackets.
    *("INT DEFAULT (7)", "VARCHAR(9) DEFAULT ('x')", "TEXT DEFAULT ('x')", "JSON DEFAULT ('{}')"),
    *("INT DEFAULT (NULL)", "DECIMAL(5,2) DEFAULT (1)"),
]
# They may be known, where they are right.
OTHERS = [
    *("INT DEFAULT 7.5", "INT DEFAULT 1e2", "INT DEFAULT '7.5'", "INT DEFAULT x'41'"),
    *("INT DEFAULT 0x41", "INT DEFAULT b'101'", "TINYINT DEFAULT 300", "TINYINT DEFAULT '300'"),
    *("DECIMAL(10,2) DEFAULT 1.555", "DECIMAL(10,2) DEFAULT 1e1", "DECIMAL(4,2) DEFAULT 100"),
    *("DECIMAL(10,2) DEFAULT 0x41", "FLOAT DEFAULT 1e30", "FLOAT DEFAULT 16777217"),
    *("FLOAT DEFAULT 0.1234567", "FLOAT DEFAULT 0.00001", "DOUBLE DEFAULT 1e-7"),
    *("FLOAT(7,3) DEFAULT 1.23456", "FLOAT(5,1) DEFAULT 12345.6", "DOUBLE DEFAULT 0x41"),
    *(r"VARCHAR(20) DEFAULT 'a\nb'", r"VARCHAR(20) DEFAULT 'a\\b'", r"VARCHAR(20) DEFAULT '\%'"),
    *('VARCHAR(20) DEFAULT "x"', 'VARCHAR(20) DEFAULT "it\'s"', r"VARCHAR(20) DEFAULT 'a\'"),
    *("VARCHAR(3) DEFAULT 'abcd'", "VARCHAR(3) DEFAULT 'abc  '", "CHAR(3) DEFAULT 'abc  '"),
    *("VARCHAR(9) DEFAULT 1.50", "VARCHAR(9) DEFAULT 1e2", "VARCHAR(9) DEFAULT 007"),
    *("VARCHAR(9) DEFAULT -0", "VARCHAR(9) DEFAULT TRUE", "VARCHAR(9) DEFAULT _latin1'é'"),
    *("VARCHAR(9) CHARSET latin1 DEFAULT '日'", "VARCHAR(9) CHARSET ascii DEFAULT 'é'"),
    *("VARCHAR(9) DEFAULT x'6162'", "VARCHAR(9) CHARSET ucs2 DEFAULT x'0061'"),
    *("VARCHAR(9) CHARSET swe7 DEFAULT '[]'", "VARCHAR(9) DEFAULT ('é')"),
    *("BINARY(2) DEFAULT 'abc'", "BINARY(2) DEFAULT 5", "VARBINARY(9) DEFAULT 1.5"),
    *("BIT(9) DEFAULT 512", "BIT(9) DEFAULT '1'", "BIT(3) DEFAULT b'11111'"),
    *("ENUM('a','b') DEFAULT 'A'", "ENUM('a','b') DEFAULT 1", "ENUM('a','A') DEFAULT 'A'"),
    *("ENUM('e','é') DEFAULT 'é'", "ENUM('a ','b') DEFAULT 'a '", "ENUM('a','b') DEFAULT 'a '"),
    *("SET('x','X') DEFAULT 'X'", "SET('x','y') DEFAULT 'y,y'", "SET('x') DEFAULT 1"),
    *("DATE NOT NULL", "DATETIME NOT NULL", "DATE DEFAULT '0000-00-00'", "DATE DEFAULT 20240229"),
    *("DATE DEFAULT '2024-02-00'", "DATE DEFAULT '2024-2-9'", "DATE DEFAULT '24-02-09'"),
    *("DATE DEFAULT '2024-02-29 01:02:03'", "DATETIME DEFAULT '2024-02-29T01:02:03'"),
    *("DATETIME DEFAULT '2024-02-29 01:02:03.5'", "DATETIME DEFAULT '2024-02-29 01:02'"),
    *("DATETIME DEFAULT CURRENT_TIMESTAMP", "DATETIME(3) DEFAULT NOW(3)"),
    *("DATETIME ON UPDATE CURRENT_TIMESTAMP", "TIMESTAMP DEFAULT CURRENT_TIMESTAMP"),
    *("TIMESTAMP", "TIMESTAMP NOT NULL", "TIMESTAMP NULL DEFAULT '2024-02-29 01:02:03'"),
    *("TIME DEFAULT '1:2:3'", "TIME DEFAULT '839:00:00'", "TIME DEFAULT '01:02:03.6'"),
    *("TIME DEFAULT 10203", "TIME DEFAULT '10'", "TIME DEFAULT '01:02'"),
    *("YEAR DEFAULT 0", "YEAR DEFAULT '0'", "YEAR DEFAULT 24", "YEAR DEFAULT '70'"),
    *("INT DEFAULT (1 + 1)", "INT DEFAULT (id)", "INT DEFAULT (id + 1)", "INT AS (id + 1)"),
    *("INT AS (id + 1) STORED", "INT GENERATED ALWAYS AS (id) VIRTUAL", "INT DEFAULT 1 + 1"),
    *("CHAR(36) DEFAULT (UUID())", "CHAR(36) DEFAULT UUID()", "DOUBLE DEFAULT (RAND())"),
    *("INT NOT NULL AUTO_INCREMENT UNIQUE", "SERIAL", "BIGINT SERIAL DEFAULT VALUE"),
    *("JSON DEFAULT (JSON_ARRAY())", "JSON DEFAULT ('[1, 2]')", "JSON DEFAULT '[]'"),
    *("POINT NOT NULL", "VECTOR(3)", "VECTOR(3) NOT NULL", "INET6 DEFAULT '::0'"),
    *("VARCHAR(9) DEFAULT ('a' 'b')", "TINYINT DEFAULT ('300')", "CHAR(3) DEFAULT ('abcd')"),
    *("REAL DEFAULT 100", "VARCHAR(20) DEFAULT 'a' 'b'", "VARCHAR(9) DEFAULT _utf8mb4'x'"),
    *("VARCHAR(9) DEFAULT N'x'", "VARBINARY(9) DEFAULT 'é'", "VARCHAR(9) CHARSET binary"),
    *("VARCHAR(9) CHARSET binary DEFAULT 'a'", "VARCHAR(9) CHARSET latin1 DEFAULT x'6162'"),
    *("DATE DEFAULT DATE'2024-02-29'", "DATETIME DEFAULT TIMESTAMP'2024-02-29 01:02:03'"),
    *("INET6 NOT NULL", "INET4 NOT NULL", "UUID NOT NULL"),
    "UUID DEFAULT '123E4567-e89b-12d3-a456-426655440000'",
    *("INT PRIMARY KEY", "INT UNIQUE NOT NULL", "INT REFERENCES u (a) ON DELETE SET NULL"),
]


@pytest.fixture(params=SERVERS)
def database(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Database:
    return create_database(request.getfixturevalue(request.param))


def added(sql: str, session: Session) -> list[AddColumn]:
    """Return the columns that a statement adds."""
    ddl = read_ddl(sql, session)
    assert ddl is not None
    (altered,) = ddl.changes
    assert isinstance(altered, Altered)
    return [each for each in altered.alterations if isinstance(each, AddColumn)]


def compared(
    database: Database, definitions: Sequence[str], sql_mode: str, *, charset: str = "utf8mb4"
) -> list[tuple[str, str | None, Default | UnknownDefault]]:
    """Return what a row holds in each column that the server takes, and what is known of it."""
    mysql = database.query("SELECT VERSION() LIKE '%MariaDB%'") == [(0,)]
    session = Session(
        Flavor.MYSQL if mysql else Flavor.MARIADB,
        database.name,
        MODES[sql_mode],
        explicit_timestamps=True,
        connection_charset=charset,
        client_charset="utf8mb4",
    )
    found = []
    with closing(connect(database.server, database=database.name, conv={})) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SET sql_mode = '{sql_mode}', explicit_defaults_for_timestamp = ON")
        cursor.execute(f"SET character_set_connection = {charset}")
        for definition in definitions:
            cursor.execute("CREATE TEMPORARY TABLE t (id INT)")
            cursor.execute("INSERT INTO t VALUES (1)")
            statement = f"ALTER TABLE t ADD COLUMN c {definition}"
            try:
                cursor.execute(statement)
            except pymysql.MySQLError:
                cursor.execute("DROP TEMPORARY TABLE t")
                continue
            column = added(statement, session)[0]
            of = column.definition.type
            is_bytes = of is not None and (
                of.name in ("binary", "varbinary", "bit") or of.name.endswith("blob")
            )
            cursor.execute(f"SELECT {'LOWER(HEX(c))' if is_bytes else 'c'} FROM t")
            (row,) = cursor.fetchall()
            shown = row[0].decode(errors="replace") if isinstance(row[0], bytes) else row[0]
            if of is not None and of.name == "bit" and shown is not None:
                size = 2 * (((of.length or 1) + 7) // 8)
                shown = shown.zfill(size)
            found.append((definition, shown, column.initial_default))
            cursor.execute("DROP TEMPORARY TABLE t")
    return found


@pytest.mark.parametrize("sql_mode", MODES)
def test_what_is_known_is_what_select_shows(database: Database, sql_mode: str) -> None:
    found = compared(database, [*KNOWN, *OTHERS], sql_mode)

    wrong = [
        (definition, shown, known)
        for definition, shown, known in found
        if isinstance(known, Default) and known.value != shown
    ]
    assert wrong == []
    unknown = [
        (definition, shown, known)
        for definition, shown, known in found
        if isinstance(known, UnknownDefault) and definition in KNOWN
    ]
    assert unknown == []
    assert len(found) > len(KNOWN)


@pytest.mark.parametrize("charset", ["latin1", "ascii", "utf16"])
def test_a_connection_that_does_not_hold_a_text_leaves_it_unknown(
    database: Database, charset: str
) -> None:
    texts = ("é", "日", "x")
    definitions = [
        f"{of} DEFAULT '{text}'"
        for text in texts
        for of in ("VARCHAR(9)", "VARCHAR(9) CHARSET latin1", "VARBINARY(9)")
    ]

    found = compared(database, definitions, "", charset=charset)

    assert {definition for definition, _, _ in found} >= {"VARCHAR(9) DEFAULT 'x'"}
    for _, shown, known in found:
        assert isinstance(known, UnknownDefault) or known.value == shown


def logged(database: Database) -> list[tuple[str, Session]]:
    """Return the ALTER statements of a database in the log, each with what the log says of it."""
    found = []
    for path in sorted(database.server.data.glob(f"binlog.{'[0-9]' * 6}")):
        for event in read_file(path.read_bytes()):
            if event.header.type == EventType.QUERY:
                query = Query.parse(event.body, event.format)
                if query.database == database.name and query.sql.startswith("ALTER"):
                    found.append((query.sql, query.session(event.format.flavor)))
    return found


def test_the_log_says_which_session_it_was(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES', explicit_defaults_for_timestamp = ON"
        )
        cursor.execute(r"ALTER TABLE t ADD a VARCHAR(9) DEFAULT 'é\n', ADD b TIMESTAMP")
        cursor.execute("SET sql_mode = 'STRICT_ALL_TABLES', explicit_defaults_for_timestamp = OFF")
        cursor.execute(r"ALTER TABLE t ADD c VARCHAR(9) DEFAULT '\n', ADD d TIMESTAMP")
        cursor.execute("SET character_set_connection = latin1")
        cursor.execute("ALTER TABLE t ADD e VARCHAR(9) DEFAULT '日'")
        cursor.execute("SELECT a, b, c, e FROM t")
        ((a, b, c, e),) = cursor.fetchall()

    (first, ons), (second, off), (third, latin1) = logged(database)
    mysql = ons.flavor is Flavor.MYSQL
    known = [
        each.initial_default
        for sql, session in ((first, ons), (second, off), (third, latin1))
        for each in added(sql, session)
    ]

    assert (a, b, c, e) == (r"é\n", None, "\n", "?")
    # MariaDB logs it where TIMESTAMP is explicit.
    assert ons.explicit_timestamps
    assert off.explicit_timestamps is (False if mysql else None)
    assert known[:2] == [Default(a), NULL]
    assert known[2] == Default(c)
    assert isinstance(known[3], UnknownDefault)
    assert isinstance(known[4], UnknownDefault)
    assert (off.is_strict, ons.is_strict, latin1.connection_charset) == (True, False, "latin1")
