"""Row images of every kind, mixed in one range: applied in order, they equal SELECT."""

from __future__ import annotations

import itertools
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import CHANGE_COLUMNS, BeforeImages
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.support.ranges import files, happen, live, plain, stage
from tests.support.staged import held_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.fixtures.mysql import Database
    from tests.services.servers import Server
    from tests.support.ranges import Staged

pytestmark = pytest.mark.server

Row = dict[str, Any]

# ------------------------------------------------------------------- what the images say


def apply(staged: Staged, defaults: dict[str, Row]) -> dict[str, list[Row]]:
    """Return the tables after all changes; what a new row does not hold has its default."""
    tables: dict[str, list[Row]] = {}
    for table in staged.manifest.tables:
        if not table.parts:
            continue  # dropped or replaced
        rows = tables.setdefault(table.table, [])
        key = table.schemas[-1].key_names
        moved: Row | None = None
        for change in staged.rows(table):
            held = held_by(table, table.schemas[-1], change["_image"])
            assert all(change[name] is None for name in change.keys() - {*held, *CHANGE_COLUMNS})
            values = {name: plain(change[name]) for name in held}
            match change["_change_type"]:
                case "insert":
                    rows.append(defaults[table.table] | values)
                case "delete":
                    rows.remove(_one(rows, {name: values[name] for name in key or held}))
                case "update_preimage":
                    moved = _one(rows, {name: values[name] for name in key or held})
                case "update_postimage":
                    row = moved or _one(rows, {name: values[name] for name in key})
                    row.update(values)
                    moved = None
    return tables


def _one(rows: list[Row], values: Row) -> Row:
    """Return a row that has these values."""
    for row in rows:
        if all(row[name] == value for name, value in values.items()):
            return row
    pytest.fail(f"no row is {values}")


def assert_equals_select(staged: Staged, database: Database, defaults: dict[str, Row]) -> None:
    for name, rows in apply(staged, defaults).items():
        assert in_order(rows) == in_order(select(database, name)), name


def select(database: Database, table: str) -> list[Row]:
    names = [name for name, *_ in database.query(f"SHOW COLUMNS FROM `{table}`")]
    values = database.query(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM `{table}`")
    return [dict(zip(names, row, strict=True)) for row in values]


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def defaults_of(database: Database, tables: list[str]) -> dict[str, Row]:
    """Return each table's row of nothing but defaults, of a copy that is not logged."""
    found = {}
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0, sql_mode = ''")
        for table in tables:
            cursor.execute(f"CREATE TABLE empty_row LIKE `{table}`")
            cursor.execute("INSERT INTO empty_row () VALUES ()")
            connection.commit()
            (found[table],) = select(database, "empty_row")
            cursor.execute("DROP TABLE empty_row")
    return found


# ------------------------------------------------------------------- what happens

_WIDE = [f"w{number}" for number in range(70)]
TABLES = {
    "plain": """id INT PRIMARY KEY, a INT DEFAULT 7, b VARCHAR(300) DEFAULT 'x', c TEXT,
        d BLOB, e DECIMAL(10,2) NOT NULL DEFAULT 1.5, f DATETIME(3) DEFAULT '2024-02-29 01:02:03',
        g ENUM('p','q') DEFAULT 'q', h BIT(9), y DOUBLE""",
    "pairs": "a INT, b VARCHAR(10) DEFAULT 'k', c TEXT, d INT DEFAULT 3, PRIMARY KEY (b, a)",
    "keyless": "a INT DEFAULT 1, b VARCHAR(20), c TEXT",
    "other": "a INT NOT NULL UNIQUE, b VARCHAR(20) DEFAULT 'o', c TEXT",
    "wide": "id INT PRIMARY KEY, "
    + ", ".join(f"{name} {'TEXT' if n % 7 == 0 else 'INT'}" for n, name in enumerate(_WIDE)),
}
KEYS = {"plain": ["id"], "pairs": ["b", "a"], "keyless": [], "other": ["a"], "wide": ["id"]}
COLUMNS = {
    "plain": ["a", "b", "c", "d", "e", "f", "g", "h", "y"],
    "pairs": ["c", "d"],
    "keyless": ["a", "b", "c"],
    "other": ["b", "c"],
    "wide": _WIDE,
}


class Workload:
    """Statements that follow from a seed."""

    def __init__(self, seed: int, images: list[str], partial_rows: list[str]) -> None:
        self._random = random.Random(seed)
        self._images = images
        self._image = "FULL"
        self._whole_replace = partial_rows

    def statements(self, count: int) -> Iterator[str]:
        for _ in range(count):
            if self._random.random() < 0.3:
                self._image = self._random.choice(self._images)
                yield f"SET SESSION binlog_row_image = {self._image}"
            table = self._random.choice(list(TABLES))
            make = self._random.choice(
                [*[self._insert] * 2, *[self._update] * 3, self._replace, self._move, self._delete]
            )
            yield from make(table)

    def _value(self, column: str) -> str:
        number = self._random.randint(-9, 99)
        values = {
            "b": f"'{'é' * (number % 40)}'" if number % 2 else "'k'",
            "c": f"REPEAT('long ', {number})",
            "d": f"{abs(number)}",
            "e": f"{number}.25",
            "f": f"'2024-02-{abs(number) % 28 + 1:02} 03:04:05.125'",
            "g": "'p'",
        }
        nullable = column != "e"
        if nullable and self._random.random() < 0.25:
            return "NULL"
        return values.get(column, str(abs(number)))

    def _some(self, table: str) -> list[str]:
        columns = COLUMNS[table]
        return self._random.sample(columns, self._random.randint(0, min(4, len(columns))))

    def _key(self, column: str) -> str:
        return f"'k{self._random.randint(0, 3)}'" if column == "b" else f"{self._number()}"

    def _number(self) -> int:
        return self._random.randint(0, 30)

    def _insert(self, table: str, verb: str = "INSERT IGNORE") -> Iterator[str]:
        # A column with a default that is not named is absent under MINIMAL; so may be a key's.
        columns = [*KEYS[table], *self._some(table)]
        if table == "pairs" and self._random.random() < 0.5:
            columns.remove("b")
        if not columns:
            columns = ["a"]
        rows = [
            ", ".join(
                self._key(name) if name in KEYS[table] else self._value(name) for name in columns
            )
            for _ in range(self._random.randint(1, 5))
        ]
        names = ", ".join(columns)
        yield f"{verb} INTO {table} ({names}) VALUES {', '.join(f'({row})' for row in rows)}"

    def _replace(self, table: str) -> Iterator[str]:
        if self._image in self._whole_replace:
            yield from self._insert(table, "REPLACE")
        values = f"({self._number()}, 5)"
        yield f"INSERT INTO plain (id, a) VALUES {values} ON DUPLICATE KEY UPDATE a = 6"

    def _where(self, table: str) -> str:
        column = (KEYS[table] or COLUMNS[table])[-1]
        low = self._number()
        return f"`{column}` BETWEEN {low} AND {low + self._random.choice([0, 3, 30])}"

    def _update(self, table: str) -> Iterator[str]:
        columns = self._some(table) or COLUMNS[table][:1]
        changes = ", ".join(f"{name} = {self._value(name)}" for name in columns)
        if "c" in columns and self._random.random() < 0.5:
            changes = "c = CONCAT(IFNULL(c, ''), '+')"
        yield f"UPDATE {table} SET {changes} WHERE {self._where(table)}"

    def _move(self, table: str) -> Iterator[str]:
        moves = {
            "plain": "id = id + 100, b = 'moved'",
            "pairs": "b = CONCAT('m', b)",
            "keyless": "a = a + 1",
            "other": "a = a + 1000",
            "wide": "id = id + 1000",
        }
        yield f"UPDATE IGNORE {table} SET {moves[table]} WHERE {self._where(table)}"

    def _delete(self, table: str) -> Iterator[str]:
        if self._random.random() < 0.5:
            yield f"DELETE FROM {table} WHERE {self._where(table)} LIMIT 5"


def create_tables(database: Database) -> None:
    for name, columns in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns})")


def images_of(server: Server) -> list[str]:
    nodup = ["FULL_NODUP"] if server.name == "mariadb118" else []
    return ["FULL", "MINIMAL", "NOBLOB", *nodup]


@pytest.mark.parametrize("before_images", BeforeImages)
def test_mixed_images_equal_select(database: Database, before_images: BeforeImages) -> None:
    server = database.server
    create_tables(database)
    # MariaDB's REPLACE logs no columns that it resets, unless images are full.
    replace = ["FULL", "FULL_NODUP"] if server.name != "mysql97" else images_of(server)
    workload = Workload(7, images_of(server), replace)
    happened = happen(database, "SET sql_mode = ''", *workload.statements(400))

    staged = stage(live(server), happened, before_images=before_images)

    assert_equals_select(staged, database, defaults_of(database, list(TABLES)))
    assert sum(len(table.images) for table in staged.manifest.tables) > 30
    again = stage(files(server, block_bytes=2000), happened, before_images=before_images)
    assert again.manifest == staged.manifest


# ------------------------------------------------------------------- one thing at a time


def under(images: list[str], *statements: str) -> list[str]:
    """Return the statements once under each setting."""
    return [
        statement
        for image in images
        for statement in (f"SET SESSION binlog_row_image = {image}", *statements)
    ]


def equals_select(database: Database, tables: list[str], *statements: str) -> Staged:
    """Stage what happens, and compare it with SELECT under both ways to stage before-images."""
    happened = happen(database, *statements)
    defaults = defaults_of(database, tables)
    for before_images in BeforeImages:
        staged = stage(live(database.server), happened, before_images=before_images)
        assert_equals_select(staged, database, defaults)
    return staged


def test_an_insert_without_values_is_a_row(database: Database) -> None:
    database.execute("CREATE TABLE t (a INT NOT NULL UNIQUE DEFAULT 5, b VARCHAR(9) DEFAULT 'x')")
    minimal = "SET SESSION binlog_row_image = MINIMAL"

    staged = equals_select(database, ["t"], minimal, "INSERT INTO t () VALUES ()")

    (table,) = staged.manifest.tables
    assert [table.images[row["_image"]] for row in staged.rows(table)] == [()]


def test_generated_columns(mysql97: Server, create_database: Callable[[Server], Database]) -> None:
    database = create_database(mysql97)
    database.execute(
        """CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a + 1), s INT AS (a + 2) STORED,
        z INT, h INT AS (z * 2) INVISIBLE, KEY ((a * 3)))"""
    )

    equals_select(
        database,
        ["t"],
        *under(
            ["MINIMAL", "FULL", "NOBLOB", "MINIMAL"],
            "INSERT INTO t (id, a) SELECT IFNULL(MAX(id), 0) + 1, 5 FROM t",
            "INSERT INTO t (id, z) SELECT MAX(id) + 1, 5 FROM t",
            "UPDATE t SET a = a + 1",
            "UPDATE t SET z = 8",
            "UPDATE t SET id = id + 10 ORDER BY id DESC LIMIT 1",
        ),
    )


def test_generated_columns_that_are_not_logged(
    mariadb118: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mariadb118)
    create = "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a INT, {} INT AS (a + 2) {}, z INT)"
    stored, virtual = create.format("s", "STORED"), create.format("v", "VIRTUAL")
    insert = "INSERT INTO t (id, a) VALUES (1, 2)"
    updates = ["UPDATE t SET a = 3", "UPDATE t SET z = 3"]

    if mariadb118.logs_generated:
        # STORED ones are, and VIRTUAL ones under NOBLOB.
        happened = under(images_of(mariadb118), insert, *updates, "DELETE FROM t")
        equals_select(database, ["t"], stored, *happened[:-1])
        happened = under(["NOBLOB", "FULL"], "DELETE FROM t", insert, *updates)
        equals_select(database, ["t"], virtual, *happened)
        return
    happened = under(images_of(mariadb118), insert, "DELETE FROM t")
    equals_select(database, ["t"], stored, *happened[:-1])
    happened = under(["NOBLOB", "FULL", "FULL_NODUP"], insert, "DELETE FROM t")
    equals_select(database, ["t"], virtual, *happened[:-1])

    def server_tables(wanted: Callable[[str, str], bool]) -> ServerTables:
        with closing(database.connect()) as connection:
            return read_server_tables(connection, wanted)

    keyless = "CREATE OR REPLACE TABLE t (a INT, s INT AS (a + 2) STORED, id INT)"
    for table, image in itertools.product([stored, virtual, keyless], images_of(mariadb118)):
        for update in ["UPDATE t SET a = 3", "UPDATE t SET id = 3"]:
            happened = under([image], table, insert, update)
            with pytest.raises(UnsupportedError, match=r"generated columns .* leave the table out"):
                stage(
                    live(mariadb118), happen(database, *happened), read_server_tables=server_tables
                )


def test_partitions_stand_in_the_extra_data(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT) PARTITION BY HASH (id) PARTITIONS 5"
    )

    equals_select(
        database,
        ["t"],
        *under(
            ["FULL", "MINIMAL", "NOBLOB"],
            "DELETE FROM t",
            "INSERT INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)",
            "UPDATE t SET id = id + 10 WHERE id IN (2, 3)",
            "UPDATE t SET b = 'b', a = NULL WHERE id > 4",
        ),
    )


def test_partial_json(mysql97: Server, create_database: Callable[[Server], Database]) -> None:
    database = create_database(mysql97)
    document = """JSON_OBJECT('n', 1, 'list', JSON_ARRAY(1, 'two', NULL, 3.5), 'more',
        JSON_OBJECT('deep', JSON_ARRAY(JSON_OBJECT('x', TRUE))), 'long', REPEAT('é', 500))"""
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, j JSON, b TEXT, k JSON)",
        "CREATE TABLE plain (id INT PRIMARY KEY, a INT)",
    )
    changes = [
        "UPDATE t SET j = JSON_SET(j, '$.n', id, '$.list[1]', 'zwei')",
        "UPDATE t SET k = JSON_REMOVE(k, '$.list[0]', '$.more.deep[0].x'), a = a + 1",
        "UPDATE t SET j = JSON_REPLACE(j, '$.long', 'short'), k = JSON_SET(k, '$.n', 2)",
        "UPDATE t SET j = JSON_SET(j, '$.n', id), a = a + 1",  # no difference
        "UPDATE t SET j = JSON_SET(j, '$.new', JSON_ARRAY()), id = id + 100 WHERE id = 1",
        "UPDATE t SET k = NULL WHERE id = 2",
        "UPDATE t SET j = '[1]' WHERE id = 3",
        "UPDATE t SET j = JSON_SET(j, '$[0]', 2) WHERE id = 3",
        "UPDATE t SET a = 5, b = REPEAT('b', 100)",
        "UPDATE plain SET a = a + 1",
    ]

    staged = equals_select(
        database,
        ["t", "plain"],
        f"INSERT INTO t VALUES (1, 1, {document}, 'b', {document})",
        f"INSERT INTO t VALUES (2, 2, {document}, 'b', '{{}}'), (3, 3, NULL, 'b', {document})",
        f"INSERT INTO t VALUES (4, 4, {document}, NULL, NULL)",
        "INSERT INTO plain VALUES (1, 1), (2, 2)",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        *under(["FULL", "NOBLOB"], *changes),
        "SET SESSION binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON",
        "UPDATE t SET a = 7 WHERE id = 2",
        "UPDATE t SET j = '{}' WHERE id = 2",
        "UPDATE plain SET a = a + 1",
    )

    assert staged.manifest.events["PARTIAL_UPDATE_ROWS"] > 15


def test_differences_to_a_document_that_is_not_logged_are_refused(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    happened = happen(
        database,
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
        """INSERT INTO t VALUES (1, '{"a": "some text", "b": "more"}')""",
        "SET SESSION binlog_row_image = MINIMAL",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "UPDATE t SET j = JSON_SET(j, '$.a', 1)",
    )

    with pytest.raises(UnsupportedError, match="binlog_row_value_options=''") as raised:
        stage(live(mysql97), happened)

    assert "binlog_row_image=FULL" in str(raised.value)
    assert raised.value.context["column"] == "j"
    assert raised.value.context["table"] == f"{database.name}.t"
    assert isinstance(raised.value.context["offset"], int)
