"""Changes of type: a server that changes a value is never said to have kept it.

Each type holds edge values, and is altered to each other type: what SELECT shows before and after
is the oracle. A statement that fails changes nothing.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.cursors
import pytest

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import RewriteRows
from airflow_provider_binlog.sql.definitions import Definition, read_definition
from airflow_provider_binlog.sql.lexer import STRICT_TRANS_TABLES, Session, split_words
from airflow_provider_binlog.sql.type_changes import rewrites, rewrites_column
from tests.fixtures.mysql import connect
from tests.support.ranges import Range, end_of, live, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fixtures.mysql import Database
    from tests.services.servers import Server

pytestmark = pytest.mark.server

STRICT, LAX = "STRICT_TRANS_TABLES", ""

Types = dict[str, tuple[str, ...]]
"""Values, as SQL writes them, by type."""

INTEGERS: Types = {
    f"{name}{sign}": ("0", "1", str(low), str(high), "7")
    for name, bits in (
        *(("tinyint", 8), ("smallint", 16), ("mediumint", 24)),
        *(("int", 32), ("bigint", 64)),
    )
    for sign, low, high in (
        ("", -(1 << bits - 1), (1 << bits - 1) - 1),
        (" unsigned", 0, (1 << bits) - 1),
    )
}
DECIMALS: Types = {
    "decimal(2,0)": ("99", "-99", "0"),
    "decimal(3,0)": ("999", "-999", "127"),
    "decimal(5,0) unsigned": ("99999", "0"),
    "decimal(5,2)": ("999.99", "-0.01", "0.5"),
    "decimal(10,2)": ("99999999.99", "-1.05"),
    "decimal(10,4)": ("999999.9999", "-1.0500"),
    "decimal(20,0)": ("9" * 20, "-" + "9" * 20),
    "decimal(20,0) unsigned": ("9" * 20, "5"),
    "decimal(60,20)": ("9" * 40 + "." + "9" * 20, "-0.00000000000000000001"),
    "decimal(65,30)": ("9" * 35 + "." + "9" * 30, "-1"),
}
FLOATS: Types = {
    "float": ("0.1", "-1.5", "16777217", "3e38"),
    "float unsigned": ("0.1", "16777216"),
    "double": ("0.1", "-1.5e300", "9007199254740993"),
    "double unsigned": ("0.1", "1e9"),
    "float(7,3)": ("1234.567", "-0.001"),
    "double(12,2)": ("1234567.89", "-0.01"),
}
_WORDS = ("''", "'a'", "'  x'", "'a '", "'abc  '", "'1'", "'0'", "'2024-01-01'", "'{}'")
_ACCENTS = ("'é'", "'aé€x '")
STRINGS: Types = {
    "char(5) charset latin1": (*_WORDS[:7], *_ACCENTS, "'abcde'"),
    "char(10) charset latin1": (*_WORDS, *_ACCENTS, "'abcdefghij'"),
    "varchar(5) charset latin1": (*_WORDS[:7], *_ACCENTS, "'abcde'", "'abcd '"),
    "varchar(10) charset latin1": (*_WORDS, *_ACCENTS, "'abcdefghij'", "'abcdefghi '"),
    "varchar(300) charset latin1": (*_WORDS, *_ACCENTS, "REPEAT('é', 300)"),
    "tinytext charset latin1": (*_WORDS, *_ACCENTS, "REPEAT('é', 255)"),
    "text charset latin1": (*_WORDS, *_ACCENTS, "REPEAT('é', 65535)"),
    "mediumtext charset latin1": (*_WORDS, "REPEAT('é', 70000)"),
    "longtext charset latin1": (*_WORDS, "REPEAT('é', 70000)"),
    "varchar(10) charset ascii": (*_WORDS, "'abcdefghij'"),
    "text charset ascii": (*_WORDS, "REPEAT('é', 65535)"),
    "varchar(10) charset latin2": (*_WORDS, "'é'", "'č'"),
    "varchar(10) charset utf8mb3": (*_WORDS, *_ACCENTS, "'日本'"),
    "varchar(10) charset ucs2": (*_WORDS, *_ACCENTS, "'日本'"),
    "varchar(10) charset utf16": (*_WORDS, *_ACCENTS, "'日😀'"),
    "char(10) charset utf8mb4": (*_WORDS, *_ACCENTS, "'日😀'"),
    "varchar(5) charset utf8mb4": (*_WORDS[:7], *_ACCENTS, "'日😀'"),
    "varchar(10) charset utf8mb4": (*_WORDS, *_ACCENTS, "'日😀'", "REPEAT('😀', 10)"),
    "varchar(300) charset utf8mb4": (*_WORDS, "REPEAT('😀', 300)"),
    "tinytext charset utf8mb4": (*_WORDS, "REPEAT('😀', 63)"),
    "text charset utf8mb4": (*_WORDS, "REPEAT('😀', 16383)"),
    "longtext charset utf8mb4": (*_WORDS, "REPEAT('😀', 16384)"),
}
_BYTES = ("''", "x'00'", "'a'", "'a '", "x'6100'", "'abcd'", "'abc '", "x'00ff0020'")
BYTES: Types = {
    "binary(4)": _BYTES,
    "binary(8)": (*_BYTES, "x'0000000000000001'"),
    "varbinary(4)": _BYTES,
    "varbinary(8)": (*_BYTES, "'abcdefg '"),
    "varbinary(300)": (*_BYTES, "REPEAT('a', 300)"),
    "tinyblob": (*_BYTES, "REPEAT('a', 255)"),
    "blob": (*_BYTES, "REPEAT('a', 65535)"),
    "longblob": (*_BYTES, "REPEAT('a', 65536)"),
    "bit(1)": ("b'0'", "b'1'"),
    "bit(8)": ("b'0'", "b'11111111'"),
    "bit(16)": ("b'1'", "b'1111111100000001'"),
}
ENUMS: Types = {
    "enum('a','b') charset latin1": ("'a'", "'b'"),
    "enum('a','b','é') charset latin1": ("'a'", "'b'", "'é'"),
    "enum('b','a') charset latin1": ("'a'", "'b'"),
    "enum('A','b') charset latin1": ("'A'", "'b'"),
    "enum('a') charset latin1": ("'a'",),
    "enum('a','b','é') charset utf8mb4": ("'a'", "'b'", "'é'"),
    "enum('1','2') charset utf8mb4": ("'1'", "'2'"),
    "set('a','b') charset latin1": ("''", "'a'", "'a,b'"),
    "set('a','b','é') charset latin1": ("'b'", "'a,b,é'"),
    "set('b','a') charset latin1": ("'a'", "'b,a'"),
    "set('a','b','c','d','e','f','g','h','i') charset latin1": ("'a'", "'a,i'"),
}
TEMPORALS: Types = {
    "year": ("1901", "2155", "2024"),
    "date": ("'1000-01-01'", "'9999-12-31'", "'2024-02-29'"),
    "time": ("'-838:59:59'", "'00:00:00'", "'12:34:56'"),
    "time(3)": ("'-12:34:56.789'", "'00:00:00.001'"),
    "time(6)": ("'-12:34:56.789999'", "'00:00:00.000001'"),
    "datetime": ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'2024-02-29 01:02:03'"),
    "datetime(3)": ("'2024-02-29 01:02:03.999'", "'1000-01-01 00:00:00.001'"),
    "datetime(6)": ("'2024-02-29 01:02:03.999999'", "'9999-12-31 23:59:59.000001'"),
    "timestamp": ("'1970-01-02 00:00:00'", "'2024-02-29 01:02:03'"),
    "timestamp(6)": ("'2024-02-29 01:02:03.999999'", "'2038-01-18 00:00:00.000001'"),
}
_POINT = "ST_GeomFromText('POINT(1 2)')"
OTHERS: Types = {
    "json": ("'{}'", "'[1, 2.50]'", "'\"a\"'"),
    "point": (_POINT,),
    "geometry": (_POINT, "ST_GeomFromText('LINESTRING(1 2,3 4)')"),
}
MARIADB: Types = {
    "inet4": ("'1.2.3.4'",),
    "inet6": ("'::1'", "'::ffff:1.2.3.4'", "'2001:db8::ff00:42:8329'"),
    "uuid": ("'123e4567-e89b-12d3-a456-426655440000'",),
}
GROUPS = (INTEGERS | DECIMALS | FLOATS, STRINGS | ENUMS, BYTES, TEMPORALS, OTHERS)
# One type of each family: every type is altered to these, and to those of its own group.
FAMILIES = (
    *("int", "decimal(20,0)", "double", "varchar(300) charset utf8mb4", "text charset latin1"),
    *("varbinary(300)", "bit(16)", "enum('1','2') charset utf8mb4", "datetime(6)", "json"),
)


# What people do every day.
WIDENINGS = [
    *(("int", "bigint"), ("int unsigned", "bigint"), ("tinyint", "smallint")),
    *(("decimal(5,2)", "decimal(10,2)"), ("decimal(10,2)", "decimal(65,30)"), ("float", "double")),
    ("varchar(5) charset latin1", "varchar(10) charset latin1"),
    ("varchar(10) charset latin1", "varchar(10) charset utf8mb4"),
    ("varchar(10) charset utf8mb3", "varchar(300) charset utf8mb4"),
    ("char(5) charset latin1", "varchar(10) charset latin1"),
    ("char(5) charset latin1", "char(10) charset latin1"),
    ("varchar(300) charset utf8mb4", "text charset utf8mb4"),
    ("text charset latin1", "longtext charset latin1"),
    ("text charset utf8mb4", "longtext charset utf8mb4"),
    *(("varbinary(4)", "varbinary(8)"), ("varbinary(300)", "blob"), ("blob", "longblob")),
    ("enum('a','b') charset latin1", "enum('a','b','é') charset latin1"),
    ("set('a','b') charset latin1", "set('a','b','é') charset latin1"),
    *(("datetime", "datetime(6)"), ("time", "time(3)"), ("timestamp", "timestamp(6)")),
]


def session_of(database: Database, sql_mode: str) -> Session:
    mysql = database.query("SELECT VERSION() LIKE '%MariaDB%'") == [(0,)]
    return Session(
        Flavor.MYSQL if mysql else Flavor.MARIADB,
        sql_mode=STRICT_TRANS_TABLES if sql_mode == STRICT else 0,
        explicit_timestamps=True,
        connection_charset="utf8mb4",
        client_charset="utf8mb4",
    )


def definition(sql: str, session: Session) -> Definition:
    words = split_words(sql, session)
    return read_definition(words, session)


def groups_of(database: Database) -> list[Types]:
    """Return the groups of types that the server has."""
    known = {}
    if session_of(database, STRICT).flavor is Flavor.MARIADB:
        for name, values in MARIADB.items():
            try:
                database.execute(f"CREATE OR REPLACE TABLE probe (a {name})")
            except pymysql.MySQLError:
                continue
            known[name] = values
    return [*GROUPS, known]


def read(cursor: pymysql.cursors.Cursor, number: int, of: str) -> list[Any]:
    """Return the values of a column; none if they are invalid byte sequences."""
    # A FLOAT is shown with six digits, and has more.
    value = f"c{number} + 0e0" if of.startswith("float") else f"c{number}"
    try:
        cursor.execute(f"SELECT id, {value} FROM t")
        return [value for _, value in sorted(cursor.fetchall(), key=lambda row: row[0])]
    except UnicodeDecodeError:
        return []


def altered(
    database: Database, of: str, values: Sequence[str], others: Sequence[str], sql_mode: str
) -> dict[str, bool]:
    """Return, by each of the other types that the column takes, whether its values are the same."""
    columns = ", ".join(f"c{number} {of} NULL" for number in range(len(others)))
    same = {}
    with closing(connect(database.server, database=database.name)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET sql_mode = ''")
        # To alter a temporary table takes no file of the data dictionary: hundreds in a second.
        cursor.execute(f"CREATE TEMPORARY TABLE t (id INT, {columns}) ENGINE=MyISAM")
        for number, value in enumerate(("NULL", *values)):
            row = ", ".join([value] * len(others))
            cursor.execute(f"INSERT INTO t VALUES ({number}, {row})")
        before = read(cursor, 0, of)
        cursor.execute(f"SET sql_mode = '{sql_mode}'")
        for number, other in enumerate(others):
            try:
                cursor.execute(f"ALTER TABLE t MODIFY c{number} {other} NULL")
            except pymysql.MySQLError:
                continue
            same[other] = before == read(cursor, number, other)
    return same


@pytest.mark.parametrize(
    ("name", "sql_mode"),
    [
        pytest.param("mysql97", STRICT, id="mysql97-strict"),
        pytest.param("mysql97", LAX, id="mysql97-lax"),
        pytest.param("mariadb118", LAX, id="mariadb118-lax"),
        pytest.param("mariadb118", STRICT, id="mariadb118-strict", marks=pytest.mark.slow),
        pytest.param("mariadb1011", STRICT, id="mariadb1011-strict"),
        pytest.param("mariadb1011", LAX, id="mariadb1011-lax", marks=pytest.mark.slow),
    ],
)
def test_what_a_server_changes_is_said_to_be(
    name: str,
    sql_mode: str,
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
) -> None:
    database = create_database(request.getfixturevalue(name))
    session, count = session_of(database, sql_mode), Counter[tuple[str, str]]()
    wrong = []
    for group in groups_of(database):
        others = list(dict.fromkeys((*group, *FAMILIES)))
        for of, values in group.items():
            # Rows of MyISAM hold 64 KiB.
            for part in (others[at : at + 30] for at in range(0, len(others), 30)):
                for other, same in altered(database, of, values, part, sql_mode).items():
                    before, after = definition(of, session).type, definition(other, session).type
                    reason = rewrites(before, after, session)
                    said = "no reason" if reason is None else "a reason"
                    count["kept" if same else "changed", said] += 1
                    if reason is None and not same:
                        wrong.append((of, other))

    print(count, wrong)
    assert wrong == []


@pytest.mark.parametrize("sql_mode", [STRICT, LAX], ids=["strict", "lax"])
@pytest.mark.parametrize(("of", "other"), WIDENINGS)
def test_ordinary_widenings_keep_the_values(of: str, other: str, sql_mode: str) -> None:
    mode = STRICT_TRANS_TABLES if sql_mode == STRICT else 0
    for flavor in Flavor:
        session = Session(flavor, sql_mode=mode, explicit_timestamps=True)
        before, after = definition(of, session), definition(other, session)

        assert rewrites_column(before.type, after, session, nullable=True) is None


COMPUTED = {
    "bytes": "INT AS (LENGTH(a)) STORED",
    "hex": "VARCHAR(80) AS (HEX(a)) STORED",
    "shown": "VARCHAR(40) AS (CONCAT(at, '')) STORED",
    "number": "DOUBLE AS (e + 0) VIRTUAL",
}


@pytest.mark.parametrize(
    ("alteration", "changed"),
    [
        ("CONVERT TO CHARACTER SET utf8mb4", {"bytes", "hex"}),
        ("MODIFY at DATETIME(3)", {"shown"}),
        ("MODIFY e ENUM('0', 'x', 'y') CHARACTER SET latin1", {"number"}),
    ],
)
def test_what_is_computed_from_a_column_is_computed_again(
    alteration: str, changed: set[str], server: Server, create_database: Callable[..., Database]
) -> None:
    database = create_database(server)
    columns = ", ".join(f"{name} {definition}" for name, definition in COMPUTED.items())
    start = end_of(server)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), at DATETIME, e ENUM('x', 'y'), "
        f"{columns}) CHARACTER SET latin1",
        "INSERT INTO t (id, a, at, e) VALUES (1, 'é', '2024-01-01', 'y')",
    )
    ((*before,),) = database.query(f"SELECT {', '.join(COMPUTED)} FROM t")
    database.execute(f"ALTER TABLE t {alteration}")
    ((*after,),) = database.query(f"SELECT {', '.join(COMPUTED)} FROM t")

    staged = stage(live(server), Range(database, start, end_of(server)))

    values = zip(COMPUTED, before, after, strict=True)
    assert {name for name, old, new in values if old != new} == changed
    (table,) = staged.manifest.tables
    names = {field.id: field.name for field in table.schemas[-1].fields}
    actions = [each for statement in staged.manifest.statements for each in statement.actions]
    rewritten = {names.get(each.field or 0) for each in actions if isinstance(each, RewriteRows)}
    assert changed <= rewritten
