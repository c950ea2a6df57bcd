"""What inserts leave in columns that their images lack: from information_schema, or unknown."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.fixtures.mysql import connect, execute
from tests.services.servers import Account
from tests.support.ranges import happen, live, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.schema import Schema, TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.fixtures.mysql import Database
    from tests.services.servers import Server
    from tests.support.ranges import Range, Staged

pytestmark = pytest.mark.server

SERVERS = ["mysql97", "mariadb1011", "mariadb118"]
NULL, SEVEN = Default(None), Default("7")

KNOWN = """n INT, a INT DEFAULT 7, a2 BIGINT UNSIGNED NOT NULL DEFAULT '18446744073709551615',
    z INT(5) ZEROFILL DEFAULT 7, neg SMALLINT DEFAULT -3, bo BOOL NOT NULL DEFAULT TRUE,
    e DECIMAL(10,2) DEFAULT 1.5, e2 DECIMAL(65,30) DEFAULT -.5, e3 DECIMAL(6,0) DEFAULT 12,
    v VARCHAR(20) DEFAULT 'it''s "é"', v2 VARCHAR(20) NOT NULL DEFAULT '',
    v3 VARCHAR(10) DEFAULT 'NULL', ch CHAR(5) DEFAULT 'a  ',
    l1 VARCHAR(9) CHARACTER SET latin1 DEFAULT 'é€', l2 CHAR(9) CHARACTER SET ucs2 DEFAULT '日',
    en ENUM('p','q,') DEFAULT 'q,', st SET('x','y') DEFAULT 'y,x', st2 SET('x') DEFAULT '',
    d DATE DEFAULT '2024-02-29', dt DATETIME DEFAULT '1000-01-01', ti TIME DEFAULT '-1:2:3',
    dt3 DATETIME(3) DEFAULT '2024-02-29 01:02:03.5', ti2 TIME(2) DEFAULT '838:59:59',
    y YEAR DEFAULT 2024, tx TEXT, bl BLOB, j JSON, f DOUBLE, b BIT(9), ts TIMESTAMP NULL"""
UNKNOWN = """nn INT NOT NULL, emoji VARCHAR(9) DEFAULT '😀', ask VARCHAR(9) DEFAULT 'a?',
    x INT DEFAULT (1 + 1), f2 DOUBLE DEFAULT 1.5, b2 BIT(9) DEFAULT b'101',
    vb VARBINARY(9) DEFAULT 'ab', now DATETIME DEFAULT CURRENT_TIMESTAMP,
    at TIMESTAMP NULL DEFAULT '2024-01-01 00:00:00', g INT AS (a + 1) STORED"""


@pytest.fixture(params=SERVERS)
def database(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Database:
    return create_database(request.getfixturevalue(request.param))


@pytest.fixture
def mariadb(mariadb118: Server, create_database: Callable[[Server], Database]) -> Database:
    return create_database(mariadb118)


def capture(happened: Range, *, account: Server | Account | None = None, **options: Any) -> Staged:
    def read(names: Collection[TableName]) -> ServerTables:
        with closing(connect(account or happened.server, ssl_disabled=True)) as connection:
            return read_server_tables(connection, names)

    with closing(live(happened.server)) as source:
        arguments = {"read_server_tables": read, "wants_defaults": True} | options
        return stage(source, happened, **arguments)


def inserted(database: Database, *statements: str) -> Range:
    """Return a range of an insert that names no column, and of what follows."""
    minimal = "SET SESSION binlog_row_image = MINIMAL, sql_mode = ''"
    return happen(database, minimal, "INSERT INTO t (id) VALUES (1)", *statements)


def schema(staged: Staged) -> Schema:
    (table,) = staged.manifest.tables
    return table.schemas[-1]


def defaults(staged: Staged) -> dict[str, Default | None]:
    return {
        field.name: field.write_default for field in schema(staged).fields if field.name != "id"
    }


def test_known_defaults_are_those_that_select_shows(database: Database) -> None:
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {KNOWN}) CHARACTER SET utf8mb4")

    staged = capture(inserted(database))

    (table,) = staged.manifest.tables
    (row,) = staged.rows(table)
    assert table.images[row["_image"]] == (1,)
    found = defaults(staged)
    texts = ", ".join(f"CAST(`{name}` AS CHAR)" for name in found)
    (shown,) = database.query(f"SELECT {texts} FROM t")
    expected = dict(zip(found, map(Default, shown), strict=True))
    # Staged as a number, of which SELECT shows the leading zeros.
    assert expected.pop("z") == Default("00007")
    assert found.pop("z") == SEVEN
    assert found == expected


def test_other_defaults_are_unknown(database: Database) -> None:
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, a INT, {UNKNOWN}) CHARSET utf8mb4")

    found = defaults(capture(inserted(database)))

    assert found.pop("a") == NULL
    assert set(found.values()) == {None}


def test_a_default_is_that_of_the_moment(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7, b INT)")
    changed = "ALTER TABLE t ALTER COLUMN a SET DEFAULT 8"
    before = capture(inserted(database))
    happened = happen(
        database, "SET binlog_row_image = MINIMAL", changed, "INSERT INTO t (id) VALUES (2)"
    )

    after = capture(happened, start=before.manifest.stop, sequence=2, store=before.store)

    assert defaults(before) == {"a": SEVEN, "b": NULL}
    assert defaults(after) == {"a": Default("8"), "b": NULL}


def test_a_default_of_the_past_is_known_from_the_range_before(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7)")
    first = inserted(database)
    second = happen(database, "SET binlog_row_image = MINIMAL", "INSERT INTO t (id) VALUES (2)")
    before = capture(first)
    database.execute("ALTER TABLE t MODIFY a INT DEFAULT 8")

    alone = capture(second)
    following = capture(second, start=before.manifest.stop, sequence=2, store=before.store)

    assert defaults(before) == {"a": SEVEN}
    assert defaults(alone) == {"a": None}
    assert defaults(following) == {"a": SEVEN}


def test_a_default_of_a_dropped_table_is_unknown(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7)")
    happened = inserted(database, "DROP TABLE t")

    assert defaults(capture(happened)) == {"a": None}


def test_mysql_is_queried_only_where_images_lack_columns(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7)")

    def never(_: Callable[[str, str], bool]) -> ServerTables:
        raise AssertionError("the server is not to be queried")

    staged = capture(inserted(database), read_server_tables=never, wants_defaults=False)

    assert defaults(staged) == {"a": None}


@pytest.mark.parametrize(
    ("image", "change"),
    [
        ("MINIMAL", "INSERT INTO t (id, a) VALUES (2, 2)"),
        ("MINIMAL", "UPDATE t SET a = 3"),
        ("FULL_NODUP", "UPDATE t SET a = 3"),
    ],
)
def test_virtual_columns_that_are_not_logged_are_refused(
    mariadb: Database, image: str, change: str
) -> None:
    mariadb.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a + 2) VIRTUAL)",
        "INSERT INTO t (id, a) VALUES (1, 2)",
    )
    happened = happen(mariadb, f"SET SESSION binlog_row_image = {image}", change)

    with pytest.raises(UnsupportedError, match="generated columns"):
        capture(happened, wants_defaults=False)


def test_an_account_without_select_finds_no_defaults(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7)")
    happened = inserted(database)
    blind = Account(mysql97.host, mysql97.port, "blind")
    execute(mysql97, "CREATE USER blind", "GRANT REPLICATION CLIENT ON *.* TO blind")

    found = defaults(capture(happened, account=blind))
    execute(mysql97, "DROP USER blind")

    assert found == {"a": None}
