"""From a server whose log lacks most rows, through snapshots, capture and merge into a lake."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.fixtures.mysql import flush_log
from tests.support.pipeline import Pipeline, in_either_pipeline
from tests.support.snapshots import after_chunks, take

pytestmark = [pytest.mark.server, pytest.mark.spark]

_ROWS = 300


def test_rows_that_are_not_in_the_log_are_loaded(pipeline: Pipeline) -> None:
    database = pipeline.database
    values = ", ".join(
        f"({n}, 'row {n}', {n} / 8, '2024-02-29 01:02:03.5', {n % 2 + 1}, x'00{n % 100:02}')"
        for n in range(_ROWS)
    )
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        for statement in (
            "SET SESSION sql_log_bin = 0",
            (
                "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40), total DECIMAL(10,3),"
                " made DATETIME(3), state ENUM('new', 'paid'), data VARBINARY(9))"
            ),
            f"INSERT INTO orders VALUES {values}",
            "ANALYZE TABLE orders",
        ):
            cursor.execute(statement)
    # The new file says which GTIDs precede it: from then on staged positions have them.
    flush_log(database.server)
    database.execute("UPDATE orders SET name = 'before' WHERE id < 20")
    pipeline.capture()

    def write() -> None:
        database.execute(
            "UPDATE orders SET name = 'between', state = 'paid' WHERE id % 7 = 0",
            "UPDATE orders SET id = id + 1000 WHERE id IN (1, 2, 298, 299)",
            "DELETE FROM orders WHERE id % 11 = 0",
            "INSERT INTO orders (id, name) VALUES (-1, 'first'), (5000, 'last')",
        )

    taken = take(
        database,
        "orders",
        store=pipeline.workplace.store,
        source_name=pipeline.workplace.source,
        chunk_bytes=4096,
        on_progress=after_chunks(2, write),
    )
    database.execute("UPDATE orders SET total = total + 1 WHERE id % 3 = 0")

    assert len(taken.chunks) > 2
    assert (taken.low.gtid is not None) == (database.server.name == "mysql97")
    pipeline.run()

    database.execute("UPDATE orders SET name = NULL WHERE id < 50", "DELETE FROM orders LIMIT 5")
    pipeline.run()


@in_either_pipeline
def test_columns_of_a_loaded_table_change_before_any_row_is_logged(pipeline: Pipeline) -> None:
    database = pipeline.database
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        for statement in (
            "SET SESSION sql_log_bin = 0",
            "CREATE TABLE lookup (id INT PRIMARY KEY, code VARCHAR(9), note VARCHAR(9), n INT)",
            "INSERT INTO lookup VALUES (1, 'a', 'x', 10), (2, 'b', NULL, 20)",
            (
                "CREATE TABLE typed (id INT AUTO_INCREMENT PRIMARY KEY, n SMALLINT,"
                " code VARCHAR(9)) CHARACTER SET utf8mb3"
            ),
            "INSERT INTO typed VALUES (1, 10, 'ä'), (2, NULL, '')",
        ):
            cursor.execute(statement)
    flush_log(database.server)
    pipeline.capture()
    workplace = pipeline.workplace
    for name in ("lookup", "typed"):
        take(database, name, store=workplace.store, source_name=workplace.source)
    database.execute("ALTER TABLE lookup ADD COLUMN c INT DEFAULT 5")
    # The load itself has to follow what comes after the snapshot.
    pipeline.run()

    database.execute(
        "ALTER TABLE lookup RENAME COLUMN Code TO mark, DROP COLUMN N",
        "ALTER TABLE lookup ADD COLUMN d VARCHAR(9) NOT NULL DEFAULT 'new' AFTER id",
        # What these types were before, the snapshot alone says.
        "ALTER TABLE typed CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE typed MODIFY n BIGINT, MODIFY id INT AUTO_INCREMENT COMMENT 'same'",
    )
    pipeline.run()
    assert pipeline.merge() == {}

    database.execute(
        "ALTER TABLE lookup RENAME COLUMN note TO remark, RENAME COLUMN id TO k",
        "UPDATE lookup SET remark = 'first' WHERE k = 2",
        "UPDATE typed SET n = 5000000000, code = '😀' WHERE id = 2",
    )
    pipeline.run()
    assert pipeline.merge() == {}
