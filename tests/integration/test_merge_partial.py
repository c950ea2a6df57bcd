"""From a server whose row images lack columns to the lake: what SELECT returns."""

from __future__ import annotations

import re
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_column_defaults import KNOWN
from tests.oracle.kinds import common_kinds
from tests.oracle.session import Session
from tests.oracle.tables import KEY, Column
from tests.support.row_statements import RowStatements

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database
    from tests.support.pipeline import Pipeline

# A text that has the character, as statements give it.
NUL = re.compile(r"CONVERT\(x'(?:[0-9a-f]{2})*?00")
COLUMNS = [
    Column(f"c{number}", kind, None, f"{kind.sql} NULL")
    for number, kind in enumerate(common_kinds())
]


def create_orders() -> str:
    columns = ", ".join(f"{column.name} {column.declared}" for column in (*KEY, *COLUMNS))
    return f"CREATE TABLE orders ({columns}, PRIMARY KEY (part, id))"


def work(
    database: Database, random: Random, steps: int, *, refused: re.Pattern[str] | None
) -> None:
    """Change orders at random, over one session whose row image changes as well.

    Statements in which a pattern finds something are left out.
    """
    rows = RowStatements(random, replaces=False, counts=(1,), ids=60)
    with closing(Session(database.server, database=database.name)) as session:
        for _ in range(steps):
            image = random.choice(["MINIMAL", "MINIMAL", "NOBLOB", "FULL"])
            statement = random.choice(
                [
                    *[rows.insert("orders", [*KEY, *COLUMNS])] * 3,
                    *[rows.update("orders", COLUMNS)] * 3,
                    *[rows.move("orders", COLUMNS, KEY)] * 2,
                    rows.delete("orders"),
                ]
            )
            if refused is not None and refused.search(statement):
                continue
            # Keys change in whole images.
            image = "FULL" if "ORDER BY id" in statement else image
            session.execute(f"SET SESSION binlog_row_image = {image}")
            session.attempt(statement)


@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        ("mariadb118", "iceberg"),
        pytest.param("mysql97", "delta", marks=pytest.mark.slow),
        pytest.param("mariadb1011", "iceberg", marks=pytest.mark.slow),
        pytest.param("mysql97", "postgresql18", marks=pytest.mark.slow),
    ],
)
def test_random_orders(create_pipeline: Callable[..., Pipeline], kind: str, format_: str) -> None:
    pipeline = create_pipeline(kind, format_)
    database = pipeline.database
    database.execute(create_orders())
    random = Random(20261121)
    # PostgreSQL holds no such character.
    refused = NUL if format_.startswith("postgresql") else None
    for steps in (150, 100):
        work(database, random, steps, refused=refused)

        pipeline.run()
    # All columns; and many sets of some.
    assert all(len(each.tables[0].images) > 12 for each in pipeline.manifests)


CHANGE = """
    CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40), amount INT);
    INSERT INTO orders VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);
    --
    CREATE TABLE `{0}`.`_orders_new` (id INT PRIMARY KEY, note VARCHAR(40), amount INT);
    ALTER TABLE `{0}`.`_orders_new` ADD COLUMN state VARCHAR(9) NOT NULL DEFAULT 'new';
    CREATE TRIGGER del AFTER DELETE ON orders FOR EACH ROW
        DELETE IGNORE FROM _orders_new WHERE id <=> OLD.id;
    CREATE TRIGGER ins AFTER INSERT ON orders FOR EACH ROW
        REPLACE INTO _orders_new (id, note, amount) VALUES (NEW.id, NEW.note, NEW.amount);
    CREATE TRIGGER upd AFTER UPDATE ON orders FOR EACH ROW
        REPLACE INTO _orders_new (id, note, amount) VALUES (NEW.id, NEW.note, NEW.amount);
    UPDATE orders SET note = 'changed' WHERE id = 2;
    INSERT INTO orders VALUES (4, 'four', 4);
    --
    INSERT LOW_PRIORITY IGNORE INTO _orders_new (id, note, amount)
        SELECT id, note, amount FROM orders LOCK IN SHARE MODE;
    UPDATE orders SET amount = 30 WHERE id = 3;
    DELETE FROM orders WHERE id = 1;
    RENAME TABLE `{0}`.`orders` TO `{0}`.`_orders_old`, `{0}`.`_orders_new` TO `{0}`.`orders`;
    UPDATE orders SET state = 'seen' WHERE id = 4;
    DROP TABLE IF EXISTS `{0}`.`_orders_old`;
    --
    UPDATE orders SET state = 'done';
"""


def test_an_online_schema_change(create_pipeline: Callable[..., Pipeline]) -> None:
    """As pt-online-schema-change does it; gh-ost ends in the same way."""
    pipeline = create_pipeline("mysql97", "iceberg")
    database = pipeline.database
    for part in CHANGE.format(database.name).split("--"):
        database.execute(*filter(str.strip, part.split(";")))

        pipeline.run(f"{database.name}.[!_]*")


def test_inserts_that_name_few_columns(create_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = create_pipeline("mariadb118", "iceberg")
    database = pipeline.database
    # As a CREATE TABLE says them: hours of one digit are read from information_schema alone.
    columns = KNOWN.replace("-1:2:3", "-01:02:03")
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")
    minimal = "SET SESSION binlog_row_image = MINIMAL"
    database.execute(minimal, "INSERT INTO t (id) VALUES (1), (2)")

    pipeline.run()

    database.execute(minimal, "INSERT INTO t (id, n) VALUES (3, 3)", "UPDATE t SET v = n")

    pipeline.run()
