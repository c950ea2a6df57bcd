"""From a server whose row images lack columns to the lake: what SELECT returns."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.test_column_defaults import KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database
    from tests.support.pipeline import Pipeline

SHOP = """
    CREATE TABLE orders (
        id BIGINT UNSIGNED, region CHAR(2), amount DECIMAL(9, 2), state ENUM('new', 'paid', 'done'),
        note VARCHAR(40), long_note TEXT, picture BLOB, at DATETIME(3), changed TIMESTAMP(6) NULL,
        PRIMARY KEY (region, id)
    )
"""
COLUMNS = ("amount", "state", "note", "long_note", "picture", "at", "changed")


class Clerk:
    """Changes orders at random, over one session whose row image changes as well."""

    def __init__(self, database: Database, chance: random.Random) -> None:
        self.connection = database.connect()
        self.cursor = self.connection.cursor()
        self.chance = chance
        self.used: list[tuple[str, int]] = []
        self.next_id = 1

    def value(self, column: str) -> Any:
        chance = self.chance
        if chance.random() < 0.2:
            return None
        day = f"2026-11-{chance.randint(1, 30):02} 12:00:{chance.randint(0, 59):02}"
        return {
            "amount": chance.randint(-99999, 99999) / 100,
            "state": chance.choice(["new", "paid", "done"]),
            "note": f"note {chance.random()}",
            "long_note": "long " * chance.randint(0, 50),
            "picture": chance.randbytes(chance.randint(0, 20)),
            "at": f"{day}.{chance.randint(0, 999):03}",
            "changed": f"{day}.{chance.randint(0, 999999):06}",
        }[column]

    def work(self, steps: int) -> None:
        for _ in range(steps):
            image = self.chance.choice(["MINIMAL", "MINIMAL", "NOBLOB", "FULL"])
            action = self.chance.choice("iuuukksd")
            if action in "ks":
                # Keys change in whole images.
                image = "FULL"
            self.cursor.execute(f"SET SESSION binlog_row_image = {image}")
            self.step(action)

    def step(self, action: str) -> None:
        chance = self.chance
        if action == "i" or len(self.used) < 2:
            key = (chance.choice(["eu", "us"]), self.next_id)
            self.next_id += 1
            row = (*key, *map(self.value, COLUMNS))
            marks = ", ".join(["%s"] * len(row))
            listed = ", ".join(("region", "id", *COLUMNS))
            self.cursor.execute(f"INSERT INTO orders ({listed}) VALUES ({marks})", row)
            self.used.append(key)
            return
        at = chance.randrange(len(self.used))
        key = self.used[at]
        names = chance.sample(COLUMNS, chance.randint(1, 3))
        if action == "d":
            self.cursor.execute("DELETE FROM orders WHERE (region, id) = (%s, %s)", key)
            self.used.pop(at)
        elif action == "s":
            # Each row one further, the last one first: a chain through every key.
            self.cursor.execute("UPDATE orders SET id = id + 1 ORDER BY id DESC")
            self.used = [(region, id_ + 1) for region, id_ in self.used]
            self.next_id += 1
        elif action == "k":
            sets = "".join(f", {name} = %s" for name in names)
            values = map(self.value, names)
            self.cursor.execute(
                f"UPDATE orders SET id = %s{sets} WHERE (region, id) = (%s, %s)",
                (self.next_id, *values, *key),
            )
            self.used[at] = (key[0], self.next_id)
            self.next_id += 1
        else:
            sets = ", ".join(f"{name} = %s" for name in names)
            self.cursor.execute(
                f"UPDATE orders SET {sets} WHERE (region, id) = (%s, %s)",
                (*map(self.value, names), *key),
            )


@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        ("mysql97", "delta"),
        ("mariadb118", "iceberg"),
        pytest.param("mariadb1011", "iceberg", marks=pytest.mark.slow),
        pytest.param("mysql97", "postgresql18", marks=pytest.mark.slow),
    ],
)
def test_random_orders(create_pipeline: Callable[..., Pipeline], kind: str, format_: str) -> None:
    pipeline = create_pipeline(kind, format_)
    database = pipeline.database
    database.execute(SHOP)
    clerk = Clerk(database, random.Random(20261121))
    for steps in (150, 100):
        clerk.work(steps)

        pipeline.run()
    clerk.connection.close()
    # All columns; and many sets of some.
    assert all(len(each.tables[0].images) > 20 for each in pipeline.manifests)


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
