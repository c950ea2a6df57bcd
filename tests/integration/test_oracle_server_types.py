"""Types that one family of servers has, or that need a setting or a policy, against SELECT."""

from __future__ import annotations

import ipaddress
import random
import struct
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError, FormatError, ServerSetupError
from airflow_provider_binlog.schema import CreateTable, RewriteRows
from airflow_provider_binlog.sql.columns import Key
from airflow_provider_binlog.transport.server.information_schema import (
    read_server_tables,
    read_table,
)
from airflow_provider_binlog.transport.server.queries import server_version
from tests.fixtures.mysql import Database
from tests.services.servers import Server
from tests.support.decoded import decode
from tests.support.logged import Logged, decoded, read_log
from tests.support.ranges import apply, happen, live, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables

pytestmark = pytest.mark.server

VECTOR_SERVERS = ("mysql97", "mariadb118")
MARIADB_SERVERS = ("mariadb1011", "mariadb118")


@pytest.fixture
def database_of(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Callable[[str], Database]:
    """Make an empty database on the server of this name."""
    return lambda name: create_database(request.getfixturevalue(name))


def from_information_schema(database: Database) -> Callable[[TableMap], TableMap]:
    """Return what completes a TABLE_MAP from information_schema."""

    def complete(table: TableMap) -> TableMap:
        rows = database.query(
            "SELECT COLUMN_NAME, DATA_TYPE, DATETIME_PRECISION FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
            table.table,
        )
        said = {name: (kind, digits) for name, kind, digits in rows}
        columns = (
            replace(
                column,
                data_type=said[str(column.name)][0],
                datetime_precision=said[str(column.name)][1],
            )
            for column in table.columns
        )
        return replace(table, columns=tuple(columns))

    return complete


def inserted(logged: Logged) -> list[tuple[Any, ...]]:
    """Return the values of every row that was inserted."""
    return [values for change, values in decoded(logged) if change == 0]


def column_types(database: Database, table: str) -> list[str]:
    rows = database.query(
        "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
        " AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        table,
    )
    return [name for (name,) in rows]


def named_types(logged: Logged) -> list[str]:
    return [column.mysql_type for column in logged.layout.columns]


# ------------------------------------------------------------------- spatial types, vectors

GEOMETRIES = {
    "point": "POINT(1 -2.5)",
    "linestring": "LINESTRING(0 0,1 1,2 0)",
    "polygon": "POLYGON((0 0,4 0,4 4,0 0),(1 0.5,2 1,2 0.5,1 0.5))",
    "multipoint": "MULTIPOINT(0 0,1 1)",
    "multilinestring": "MULTILINESTRING((0 0,1 1),(2 2,3 3))",
    "multipolygon": "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))",
    "geometrycollection": "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))",
    "geometry": "POINT(3 4)",
}


def test_a_geometry_is_the_bytes_of_select(database: Database) -> None:
    columns = ", ".join(f"g{number} {kind}" for number, kind in enumerate(GEOMETRIES))
    rows = [
        [f"ST_GeomFromText('{text}', {srid})" for text in GEOMETRIES.values()] for srid in (0, 4326)
    ]
    values = ", ".join(f"({n}, {', '.join(row)})" for n, row in enumerate(rows))
    database.execute(
        f"CREATE TABLE geometries (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO geometries VALUES {values}, (2{', NULL' * len(GEOMETRIES)})",
    )
    logged = read_log(database)["geometries"]

    assert inserted(logged) == database.query("SELECT * FROM geometries ORDER BY id")
    # Four bytes of SRID, then WKB: little-endian, a point.
    assert inserted(logged)[1][1][:9] == bytes.fromhex("e6100000 01 01000000")
    names = [name.replace("geomcollection", "geometrycollection") for name in named_types(logged)]
    assert names[1:] == list(GEOMETRIES)


@pytest.mark.parametrize("name", VECTOR_SERVERS)
def test_a_vector_is_a_list_of_floats(name: str, database_of: Callable[[str], Database]) -> None:
    database = database_of(name)
    from_text = "STRING_TO_VECTOR" if name == "mysql97" else "VEC_FromText"
    texts = ["[1,2.5,-3,0.1]", "[0,-1,123456.7,0.000001]"]
    rows = [f"({n}, {from_text}('{text}'))" for n, text in enumerate(texts)]
    if name == "mysql97":
        rows.append(f"(7, {from_text}('[1]'))")  # shorter than the column
    database.execute(
        "CREATE TABLE vectors (id INT PRIMARY KEY, v VECTOR(4))",
        f"INSERT INTO vectors VALUES {', '.join(rows)}, (9, NULL)",
    )
    logged = read_log(database, from_information_schema(database))["vectors"]
    column = decode(logged.layout, logged.rows_events()).columns[1]
    stored = database.query("SELECT HEX(v) FROM vectors ORDER BY id")

    assert str(column.type) == "list<item: float>"
    assert [
        None if each is None else struct.pack(f"<{len(each)}f", *each).hex().upper()
        for each in column.to_pylist()
    ] == [value for (value,) in stored]
    assert named_types(logged)[1] == column_types(database, "vectors")[1] == "vector(4)"


# ------------------------------------------------------------------- types of MariaDB


@pytest.mark.parametrize("name", MARIADB_SERVERS)
def test_compressed_columns(name: str, database_of: Callable[[str], Database]) -> None:
    database = database_of(name)
    columns = {
        "VARCHAR(254) COMPRESSED CHARACTER SET latin1": "REPEAT('ü', 254)",
        "VARCHAR(255) COMPRESSED CHARACTER SET latin1": "REPEAT('a', 255)",
        "VARCHAR(63) COMPRESSED": "REPEAT('é', 63)",
        "VARCHAR(64) COMPRESSED": "REPEAT('é', 64)",
        "VARBINARY(3000) COMPRESSED": "REPEAT(x'00ff', 1500)",
        "TINYBLOB COMPRESSED": "REPEAT('f', 254)",
        "TEXT COMPRESSED CHARACTER SET gbk": "REPEAT('日本', 2000)",
        "MEDIUMTEXT COMPRESSED": "REPEAT('日本', 30000)",
        "LONGBLOB COMPRESSED": "REPEAT('e', 1000000)",
    }
    described = ", ".join(f"c{number} {each}" for number, each in enumerate(columns))
    width = len(columns)
    rows = [columns.values(), ["''"] * width, ["'x'"] * width, ["NULL"] * width]
    values = ", ".join(f"({n}, {', '.join(row)}, 'end')" for n, row in enumerate(rows))
    database.execute(
        f"CREATE TABLE packed (id INT PRIMARY KEY, {described}, last CHAR(3))",
        f"INSERT INTO packed VALUES {values}",
        # A raw stream, and another way to write the rest.
        "SET SESSION column_compression_zlib_wrap = ON, column_compression_threshold = 0",
        f"INSERT INTO packed SELECT id + {len(rows)}, {', '.join(f'c{n}' for n in range(width))},"
        " last FROM packed",
    )
    logged = read_log(database)["packed"]

    assert inserted(logged) == database.query("SELECT * FROM packed ORDER BY id")
    said = [each.replace(" /*M!100301 COMPRESSED*/", " compressed") for each in named_types(logged)]
    assert said[1:-1] == [
        each.replace(" /*M!100301 COMPRESSED*/", " compressed")
        for each in column_types(database, "packed")[1:-1]
    ]


@pytest.mark.parametrize("name", MARIADB_SERVERS)
def test_addresses_as_select_prints_them(name: str, database_of: Callable[[str], Database]) -> None:
    database = database_of(name)
    dice = random.Random(name)
    rows = []
    for number in range(400):
        groups = [dice.choice([0, 0, 0, 1, 0xFFFF, dice.getrandbits(16)]) for _ in range(8)]
        six = ipaddress.IPv6Address(b"".join(each.to_bytes(2, "big") for each in groups))
        four = ipaddress.IPv4Address(dice.choice([0, dice.getrandbits(32), 0xC0000200]))
        some = dice.choice([uuid.UUID(int=0), uuid.UUID(int=dice.getrandbits(128), version=4)])
        rows.append(f"({number}, '{six}', '{four}', '{some}')")
    database.execute(
        "CREATE TABLE addresses (id INT PRIMARY KEY, a INET6, b INET4, c UUID)",
        f"INSERT INTO addresses VALUES {', '.join(rows)}, (400, NULL, NULL, NULL)",
    )
    logged = read_log(database, from_information_schema(database))["addresses"]

    assert inserted(logged) == database.query("SELECT * FROM addresses ORDER BY id")
    assert named_types(logged)[1:] == ["inet6", "inet4", "uuid"]
    # Without information_schema they are bytes.
    assert named_types(read_log(database)["addresses"])[1:] == [
        *("binary(16)", "binary(4)", "binary(16)")
    ]


@pytest.fixture(scope="module")
def old_mariadb(run_folder: Path) -> Iterator[Server]:
    """A server of its own that writes the temporals of before MySQL 5.6."""
    server = Server.create("mariadb1011", run_folder / "old-temporals")
    server.start({"mysql56_temporal_format": "OFF"})
    yield server
    server.stop()


@pytest.mark.parametrize("zero_dates", [ZeroDates.TEXT, ZeroDates.NULL])
def test_old_temporals(
    zero_dates: ZeroDates,
    old_mariadb: Server,
    create_database: Callable[[Server], Database],
) -> None:
    database = create_database(old_mariadb)
    kinds = [(kind, fsp) for kind in ("time", "datetime", "timestamp") for fsp in range(7)]
    columns = ", ".join(f"{kind}{fsp} {kind}({fsp}) NULL" for kind, fsp in kinds)
    values = {
        "time": ["'12:34:56.987654'", "'-838:59:58.999999'", "'838:59:59'", "'-00:00:00.123456'"],
        "datetime": [
            *("'2024-02-29 12:34:56.987654'", "'1000-01-01'", "'9999-12-31 23:59:59.999999'"),
            "'2024-02-31 01:02:03.5'",
        ],
        "timestamp": [
            *("'2024-02-29 12:34:56.987654'", "'1970-01-01 00:00:01'"),
            *("'2038-01-19 03:14:07.999999'", "0"),
        ],
    }
    rows = [
        f"({row}, {', '.join(values[kind][row] for kind, _ in kinds)}, 'end')" for row in range(4)
    ]
    database.execute(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        f"CREATE TABLE old (id INT PRIMARY KEY, {columns}, last CHAR(3))",
        f"INSERT INTO old VALUES {', '.join(rows)}, (9{', NULL' * len(kinds)}, 'end')",
    )
    logged = read_log(database, from_information_schema(database))["old"]
    logged.policies = Policies(zero_dates=zero_dates)
    selected = database.query(
        f"SELECT id, {', '.join(f'CAST({kind}{fsp} AS CHAR)' for kind, fsp in kinds)}, last"
        " FROM old ORDER BY id"
    )

    assert [
        (row[0], *(_shown(value, fsp) for value, (_, fsp) in zip(row[1:-1], kinds, strict=True)))
        for row in inserted(logged)
    ] == [(row[0], *(_or_null(value, zero_dates) for value in row[1:-1])) for row in selected]
    assert named_types(logged)[1:-1] == [
        name.removesuffix(" /* mariadb-5.3 */") for name in column_types(database, "old")[1:-1]
    ]
    with pytest.raises(BinlogError, match=r"FORCE.*mysql56_temporal_format=ON"):
        _ = read_log(database)["old"].layout


def _shown(value: Any, fsp: int) -> str | None:
    """Return a decoded date or time as SELECT prints it."""
    if value is None or isinstance(value, str):
        return value
    fraction = value % 1_000_000 if isinstance(value, int) else value.microsecond
    if isinstance(value, int):
        seconds, fraction = divmod(abs(value), 1_000_000)
        shown = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        shown = "-" + shown if value < 0 else shown
    else:
        shown = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
    return f"{shown}.{fraction:06}"[: len(shown) + 1 + fsp] if fsp else shown


def _or_null(printed: str | None, zero_dates: ZeroDates) -> str | None:
    """Return NULL for what no lake type holds, where that is the policy."""
    if printed is None or zero_dates is ZeroDates.TEXT:
        return printed
    return None if printed.startswith(("0000-", "2024-02-31")) else printed


def test_timestamps_up_to_2106(database_of: Callable[[str], Database]) -> None:
    database = database_of("mariadb118")
    database.execute(
        "CREATE TABLE late (id INT PRIMARY KEY, a TIMESTAMP(6) NULL, b TIMESTAMP NULL)",
        "INSERT INTO late VALUES (1, '2106-02-07 06:28:15.999999', '2106-02-07 06:28:15'),"
        " (2, '2038-01-19 03:14:08', '2038-01-19 03:14:08')",
    )
    rows = inserted(read_log(database)["late"])

    assert [tuple(_naive(value) for value in row) for row in rows] == database.query(
        "SELECT * FROM late ORDER BY id"
    )


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


# ------------------------------------------------------------------- policies


def test_dates_as_the_text_of_select(database: Database) -> None:
    kinds = ["date", *(f"{kind}({n})" for kind in ("datetime", "timestamp") for n in range(7))]
    columns = ", ".join(f"c{n} {kind} NULL" for n, kind in enumerate(kinds))
    moments = ["0000-00-00", "2024-02-29 23:59:58.987654", "2038-01-19 03:14:07", "NULL"]
    broken = ["2023-02-31", "2023-00-00", "1000-01-01 00:00:00.1", "9999-12-31 23:59:59.999999"]
    rows = [[moment] * len(kinds) for moment in moments]
    rows += [[each] * 8 + [moments[1]] * 7 for each in broken]
    values = ", ".join(
        f"({n}, {', '.join(each if each == 'NULL' else repr(each) for each in row)})"
        for n, row in enumerate(rows)
    )
    database.execute(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        f"CREATE TABLE dates (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO dates VALUES {values}",
    )
    logged = read_log(database)["dates"]
    logged.policies = Policies(zero_dates=ZeroDates.TEXT)

    assert inserted(logged) == database.query(
        f"SELECT id, {', '.join(f'CAST(c{n} AS CHAR)' for n in range(len(kinds)))}"
        " FROM dates ORDER BY id"
    )


def test_invalid_byte_sequences_that_servers_accept(database: Database) -> None:
    # Half a surrogate pair is a character of ucs2 for them, and is none in UTF-8.
    database.execute(
        "CREATE TABLE texts (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET ucs2, b TEXT,"
        " c SET('a','b') CHARACTER SET ucs2)",
        "INSERT INTO texts VALUES (1, 'grün', 'grün', 'a,b'),"
        " (2, x'0061D800', '', ''), (3, NULL, NULL, NULL)",
    )
    logged = read_log(database)["texts"]

    with pytest.raises(FormatError, match=r"texts.*column=a"):
        decode(logged.layout, logged.rows_events())
    logged.policies = Policies(invalid_text=InvalidText.REPLACE)
    assert inserted(logged) == [
        (1, "grün", "grün", "a,b"),
        (2, "a\ufffd", "", ""),
        (3, None, None, None),
    ]
    assert decode(logged.layout, logged.rows_events()).invalid_text == {"a": 1}
    logged.policies = Policies(invalid_text=InvalidText.BINARY)
    stored = database.query("SELECT id, HEX(a), HEX(b), HEX(c) FROM texts ORDER BY id")
    assert [
        (row[0], *(None if each is None else each.hex().upper() for each in row[1:]))
        for row in inserted(logged)
    ] == stored


# ------------------------------------------------------------------- columns out of the ordinary


def test_generated_and_invisible_columns(database: Database) -> None:
    is_mysql = database.server.name.startswith("mysql")
    index = ", KEY ((LOWER(name)), (id + 1))" if is_mysql else ""
    database.execute(
        "CREATE TABLE odd (id INT PRIMARY KEY, name VARCHAR(20),"
        " twice INT GENERATED ALWAYS AS (id * 2) VIRTUAL,"
        " upper_name VARCHAR(20) GENERATED ALWAYS AS (UPPER(name)) STORED,"
        f" hidden INT DEFAULT 7 INVISIBLE, KEY (twice){index})",
        "INSERT INTO odd (id, name) VALUES (1, 'Ä'), (2, NULL)",
        "INSERT INTO odd (id, name, hidden) VALUES (3, 'c', NULL)",
    )
    if database.server.logs_generated:
        database.execute("UPDATE odd SET name = 'z', hidden = 8 WHERE id = 1")
    columns = ["id", "name", "twice", "upper_name", "hidden"]
    logged = read_log(database)["odd"]
    rows = {values[0]: values for change, values in decoded(logged) if change in (0, 2)}

    assert [column.name for column in logged.layout.columns] == columns
    assert sorted(rows.values()) == database.query(
        f"SELECT {', '.join(columns)} FROM odd ORDER BY id"
    )


@pytest.mark.parametrize("name", MARIADB_SERVERS)
def test_a_unique_key_on_long_columns_adds_no_column(
    name: str, database_of: Callable[[str], Database]
) -> None:
    database = database_of(name)
    happened = happen(
        database,
        "CREATE TABLE pages (id INT PRIMARY KEY, url TEXT UNIQUE, n INT, UNIQUE (n) USING HASH)",
        "INSERT INTO pages VALUES (1, 'a', 1), (2, NULL, NULL)",
        "ALTER TABLE pages ADD COLUMN more INT",
        "UPDATE pages SET url = 'b', more = 3 WHERE id = 1",
        "DELETE FROM pages WHERE id = 2",
    )
    staged = stage(live(database.server), happened)
    (table,) = staged.manifest.tables

    assert [field.name for field in table.schemas[-1].fields] == ["id", "url", "n", "more"]
    assert list(apply(staged).values()) == [Counter(database.query("SELECT * FROM pages"))]


def test_decimals_that_a_column_lost_are_logged_until_it_is_rounded(
    database_of: Callable[[str], Database],
) -> None:
    """Of MariaDB; docs/limits.md names it."""
    database = database_of("mariadb118")
    altered = happen(
        database,
        "CREATE TABLE prices (id INT PRIMARY KEY, price DOUBLE, n INT)",
        "INSERT INTO prices VALUES (1, 1.23456, 0), (2, 2.34567, 0)",
        "ALTER TABLE prices MODIFY price DOUBLE(9,2)",
    )
    staged = stage(live(database.server), altered)
    actions = [action for each in staged.manifest.statements for action in each.actions]
    assert [type(action) for action in actions] == [CreateTable, RewriteRows]

    def logged(*statements: str) -> list[tuple[Any, ...]]:
        staged = stage(live(database.server), happen(database, *statements))
        (table,) = staged.manifest.tables
        return [(row["id"], row["price"], row["n"]) for row in staged.rows(table)]

    rows = logged(
        "UPDATE prices SET n = 1 WHERE id = 1",
        "UPDATE prices SET price = ROUND(price, 2) WHERE id = 2",
    )
    selected = database.query("SELECT * FROM prices ORDER BY id")

    assert selected == [(1, 1.23, 1), (2, 2.35, 0)]
    assert rows == [(1, 1.23456, 1), (2, 2.35, 0)]
    assert logged("UPDATE prices SET price = ROUND(price, 2)") == selected[:1]


def test_a_year_of_two_digits_is_refused(database_of: Callable[[str], Database]) -> None:
    database = database_of("mariadb118")

    def read(names: Collection[TableName]) -> ServerTables:
        with closing(database.connect()) as connection:
            return read_server_tables(connection, names)

    happened = happen(
        database,
        "CREATE TABLE years (id INT PRIMARY KEY, y YEAR(2), z YEAR)",
        "INSERT INTO years VALUES (1, 2001, 2001)",
    )
    with pytest.raises(ServerSetupError, match=r"not known here, year\(2\).*table=\S+\.years"):
        stage(live(database.server), happened, read_server_tables=read)

    happened = happen(
        database,
        "ALTER TABLE years MODIFY y YEAR",
        "TRUNCATE years",
        "INSERT INTO years VALUES (2, 2069, 1901)",
    )
    staged = stage(live(database.server), happened, read_server_tables=read)
    assert list(apply(staged).values()) == [Counter(database.query("SELECT * FROM years"))]


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_a_hash_key_of_a_memory_table_is_a_key_like_any_other(
    name: str, database_of: Callable[[str], Database]
) -> None:
    database = database_of(name)
    columns = "a INT NOT NULL, b INT NOT NULL, c INT NOT NULL"
    database.execute(
        f"CREATE TABLE unique_keys ({columns}, UNIQUE (b) USING HASH, UNIQUE (a)) ENGINE=MEMORY",
        f"CREATE TABLE primary_key ({columns}, PRIMARY KEY (c) USING HASH) ENGINE=MEMORY",
    )
    names = [(database.name, "unique_keys"), (database.name, "primary_key")]
    with closing(database.connect()) as connection:
        of = server_version(connection)
        tables = [read_table(connection, each, of) for each in names]

    assert [(each.key, each.hidden) for each in tables if each is not None] == [
        (Key((("b", 0),), primary=False, others=True), 0),
        (Key((("c", 0),), primary=True, others=False), 0),
    ]


def test_a_generated_invisible_primary_key(database_of: Callable[[str], Database]) -> None:
    database = database_of("mysql97")
    database.execute(
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE keyless (a INT)",
        "INSERT INTO keyless VALUES (7), (8)",
    )
    logged = read_log(database)["keyless"]

    assert logged.layout.key == (0,)
    assert [tuple(map(int, row)) for row in inserted(logged)] == database.query(
        "SELECT my_row_id, a FROM keyless ORDER BY my_row_id"
    )


def test_a_multi_valued_index_adds_no_column(database_of: Callable[[str], Database]) -> None:
    database = database_of("mysql97")
    database.execute(
        "CREATE TABLE tagged (id INT PRIMARY KEY, tags JSON,"
        " KEY ((CAST(tags->'$' AS UNSIGNED ARRAY))))",
        "INSERT INTO tagged VALUES (1, '[1, 2]')",
    )
    table = read_log(database)["tagged"].table

    assert [column.name for column in table.columns] == ["id", "tags"]
