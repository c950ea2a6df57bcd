"""Row images that say less than the row: applied in order, they equal SELECT."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.support.ranges import happen, live, plain, stage
from tests.support.staged import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.fixtures.mysql import Database
    from tests.services.servers import Server
    from tests.support.ranges import Row, Staged

pytestmark = pytest.mark.server

# ------------------------------------------------------------------- what the images say


def assert_equals_select(staged: Staged, database: Database, defaults: dict[str, Row]) -> None:
    replay = Replay(defaults)
    replay.apply(staged.store, "shop", staged.manifest)
    for name, rows in replay.tables().items():
        applied = [{column: plain(value) for column, value in row.items()} for row in rows]
        assert in_order(applied) == in_order(select(database, name)), name


def select(database: Database, table: str) -> list[Row]:
    names = [name for name, *_ in database.query(f"SHOW COLUMNS FROM `{table}`")]
    values = database.query(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM `{table}`")
    return [dict(zip(names, row, strict=True)) for row in values]


def in_order(rows: Iterable[Row]) -> list[Row]:
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


def settings_of(server: Server) -> list[str]:
    nodup = ["FULL_NODUP"] if server.name == "mariadb118" else []
    return ["FULL", "MINIMAL", "NOBLOB", *nodup]


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
        happened = under(settings_of(mariadb118), insert, *updates, "DELETE FROM t")
        equals_select(database, ["t"], stored, *happened[:-1])
        happened = under(["NOBLOB", "FULL"], "DELETE FROM t", insert, *updates)
        equals_select(database, ["t"], virtual, *happened)
        return
    happened = under(settings_of(mariadb118), insert, "DELETE FROM t")
    equals_select(database, ["t"], stored, *happened[:-1])
    happened = under(["NOBLOB", "FULL", "FULL_NODUP"], insert, "DELETE FROM t")
    equals_select(database, ["t"], virtual, *happened[:-1])

    def server_tables(names: Collection[TableName]) -> ServerTables:
        with closing(database.connect()) as connection:
            return read_server_tables(connection, names)

    keyless = "CREATE OR REPLACE TABLE t (a INT, s INT AS (a + 2) STORED, id INT)"
    for table, image in itertools.product([stored, virtual, keyless], settings_of(mariadb118)):
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
