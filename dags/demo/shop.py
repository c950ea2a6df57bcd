"""A shop: its tables, its first rows, and what happens in it. The same in every demo."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    Cursor = pymysql.cursors.Cursor

CUSTOMER_COUNT = 1_000
PRODUCT_COUNT = 200
ORDER_COUNT = 3_000
_ORDERS_PER_TRANSACTION = 250

TABLES = (
    """
    CREATE TABLE customers (
        id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
        name VARCHAR(80) NOT NULL,
        city VARCHAR(60) CHARACTER SET latin1,
        email VARCHAR(120),
        birthday DATE,
        newsletter BIT(1) NOT NULL DEFAULT b'0',
        balance DECIMAL(12,2) NOT NULL DEFAULT 0,
        token BINARY(8),
        registered_at TIMESTAMP(3) NULL
    ) CHARACTER SET utf8mb4
    """,
    """
    CREATE TABLE products (
        sku CHAR(8) CHARACTER SET ascii PRIMARY KEY,
        name VARCHAR(100) NOT NULL,
        category ENUM('book','toy','garden','café') NOT NULL,
        tags SET('new','sale','fragile','réduit') NOT NULL DEFAULT '',
        price DECIMAL(10,2) NOT NULL,
        weight FLOAT,
        rating DOUBLE,
        barcode BIGINT UNSIGNED,
        `from` DATE COMMENT 'sold from this day on',
        picture BLOB
    ) CHARACTER SET utf8mb4
    """,
    """
    CREATE TABLE orders (
        id BIGINT UNSIGNED PRIMARY KEY,
        customer_id INT UNSIGNED NOT NULL,
        status ENUM('new','paid','sent','cancelled') NOT NULL,
        ordered_at DATETIME(6) NOT NULL,
        paid_at TIMESTAMP NULL,
        took TIME(3) COMMENT 'from the first click to the order',
        note TEXT,
        INDEX (customer_id)
    ) CHARACTER SET utf8mb4
    """,
    """
    CREATE TABLE order_lines (
        order_id BIGINT UNSIGNED,
        line SMALLINT UNSIGNED,
        sku CHAR(8) CHARACTER SET ascii NOT NULL,
        quantity MEDIUMINT NOT NULL,
        price DECIMAL(10,2) NOT NULL,
        PRIMARY KEY (order_id, line)
    )
    """,
    """
    CREATE TABLE visits (id INT, year SMALLINT, path VARCHAR(200), PRIMARY KEY (id, year))
        PARTITION BY RANGE (year) (
            PARTITION before_2024 VALUES LESS THAN (2024),
            PARTITION since VALUES LESS THAN MAXVALUE
        )
    """,
    # No key: its rows are counted.
    """
    CREATE TABLE page_views (path VARCHAR(200), seen_at DATETIME, tiny TINYINT)
    """,
)

_NAMES = (
    "Ada",
    "Zoë",
    "Łukasz",
    "José",
    "陳大文",
    "Σοφία",
    "Нина",
    "O'Neil",
    "Anaïs 🌻",
    "山田 花子",
)
_CITIES = ("Zürich", "Málaga", "Århus", "São Paulo", "Köln", "Paris", None)
_NOTES = (None, "", "ring twice", "c/o Müller 🎁", "two\nlines\tand a tab", "'quoted' \\ \"twice\"")
_BEGIN = datetime(2024, 1, 1)


def create(cursor: Cursor) -> None:
    """Make the tables."""
    for statement in TABLES:
        cursor.execute(statement)


def fill(cursor: Cursor, *, logged: Callable[[], None]) -> None:
    """Insert the first customers, products and orders; autocommit is on.

    Args:
        cursor: Of the shop's server.
        logged: Called half-way: the shop has existed for years when its log begins.
    """
    chance = random.Random("shop")
    insert(cursor, "customers", [_customer(chance, number) for number in range(CUSTOMER_COUNT)])
    insert(cursor, "products", [_product(chance, number) for number in range(PRODUCT_COUNT)])
    insert(cursor, "page_views", [(f"/p/{number}", _BEGIN, number % 100) for number in range(50)])
    insert(cursor, "visits", [(n, 2022 + n % 4, f"/p/{n}") for n in range(100)])
    for first in range(1, ORDER_COUNT, _ORDERS_PER_TRANSACTION):
        if first <= ORDER_COUNT // 2 < first + _ORDERS_PER_TRANSACTION:
            logged()
        numbers = range(first, first + _ORDERS_PER_TRANSACTION)
        cursor.execute("BEGIN")
        insert(cursor, "orders", [_order(chance, number) for number in numbers])
        lines = [line for number in numbers for line in _lines(chance, number)]
        insert(cursor, "order_lines", lines)
        cursor.execute("COMMIT")


def insert(cursor: Cursor, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows in as few statements as may be."""
    cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)


def _customer(chance: random.Random, number: int) -> tuple[Any, ...]:
    name = f"{chance.choice(_NAMES)} {number}"
    return (
        number + 1,
        name,
        chance.choice(_CITIES),
        f"c{number}@example.com" if number % 9 else None,
        date(1930, 1, 1) + timedelta(days=chance.randrange(28_000)) if number % 7 else None,
        chance.randrange(2),
        f"{chance.randrange(-50_000, 500_000) / 100:.2f}",
        chance.randbytes(8) if number % 5 else chance.randbytes(5),
        _BEGIN + timedelta(milliseconds=chance.randrange(10**10)) if number % 11 else None,
    )


def _product(chance: random.Random, number: int) -> tuple[Any, ...]:
    return (
        sku(number),
        f"{chance.choice(('Blue', 'Große', '小さな', 'Old'))} thing {number}",
        chance.choice(("book", "toy", "garden", "café")),
        ",".join(chance.sample(("new", "fragile", "réduit"), chance.randrange(4))),
        f"{chance.randrange(100, 100_000) / 100:.2f}",
        chance.uniform(0.01, 80) if number % 6 else None,
        chance.gauss(3, 1) if number % 4 else None,
        2**64 - 1 - number if number % 3 else number,
        date(1999, 12, 31) + timedelta(days=number * 40) if number % 8 else None,
        chance.randbytes(chance.randrange(200)) if number % 2 else None,
    )


def _order(chance: random.Random, number: int) -> tuple[Any, ...]:
    ordered = _BEGIN + timedelta(microseconds=chance.randrange(10**14))
    paid = number % 3 > 0
    # Some left the page open for days; some clocks ran backwards.
    took = timedelta(milliseconds=chance.randrange(-60_000, 10**9))
    return (
        number,
        chance.randrange(CUSTOMER_COUNT) + 1,
        "paid" if paid else "new",
        ordered,
        (ordered + timedelta(hours=1)).replace(microsecond=0) if paid else None,
        took if number % 10 else None,
        chance.choice(_NOTES),
    )


def _lines(chance: random.Random, order: int) -> list[tuple[Any, ...]]:
    return [
        (order, line, sku(chance.randrange(PRODUCT_COUNT)), chance.randrange(1, 9), "9.90")
        for line in range(1, chance.randrange(2, 6))
    ]


def sku(number: int) -> str:
    """Return the key of a product."""
    return f"P{number:05}"
