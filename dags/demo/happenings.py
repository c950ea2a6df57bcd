"""What happens in the shop between two runs: every way in which rows change."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dags.demo.shop import CUSTOMER_COUNT, PRODUCT_COUNT, sku

if TYPE_CHECKING:
    from dags.demo.shop import Cursor

HAPPENINGS = {
    "updates": """
        UPDATE products SET price = ROUND(price * 1.05, 2), tags = tags | 2
            WHERE category = 'toy';
        UPDATE orders SET status = 'sent', note = NULL WHERE status = 'paid' AND id <= 900;
        UPDATE customers SET city = 'Genève', balance = -balance, newsletter = b'1'
            WHERE city = 'Paris';
        UPDATE customers SET name = name WHERE id < 10;
    """,
    "deletes": """
        DELETE FROM order_lines WHERE order_id BETWEEN 2000 AND 2099;
        DELETE FROM orders WHERE id BETWEEN 2000 AND 2099;
        DELETE FROM customers WHERE id IN (5, 6, 7);
    """,
    "key changes": """
        UPDATE products SET sku = 'NEW-0001' WHERE sku = 'P00001';
        UPDATE order_lines SET line = line + 10 WHERE order_id = 3 ORDER BY line DESC;
        UPDATE orders SET id = id + 18446744073709540000 WHERE id > 2990;
    """,
    "two keys swapped": """
        BEGIN;
        UPDATE products SET sku = 'SWAP' WHERE sku = 'P00002';
        UPDATE products SET sku = 'P00002' WHERE sku = 'P00003';
        UPDATE products SET sku = 'P00003' WHERE sku = 'SWAP';
        COMMIT;
    """,
    "keys used again": """
        DELETE FROM customers WHERE id = 8;
        INSERT INTO customers (id, name) VALUES (8, 'another eight');
        REPLACE INTO customers (id, name) VALUES (9, 'another nine');
        INSERT INTO customers (id, name) VALUES (10, 'x')
            ON DUPLICATE KEY UPDATE name = CONCAT(name, ' again');
    """,
    "a transaction rolled back": """
        BEGIN;
        DELETE FROM order_lines;
        UPDATE customers SET balance = 0;
        INSERT INTO customers (id, name) VALUES (66666, 'nobody');
        ROLLBACK;
    """,
    "a transaction over three tables": """
        BEGIN;
        INSERT INTO orders VALUES
            (4000, 1, 'new', '2024-02-29 23:59:59.999999', NULL, '-00:00:00.001', 'leap 🦘');
        INSERT INTO order_lines VALUES (4000, 1, 'P00007', 2, 19.90), (4000, 2, 'P00008', 1, 5);
        UPDATE customers SET balance = balance - 44.80 WHERE id = 1;
        SAVEPOINT before_the_note;
        UPDATE orders SET note = 'taken back' WHERE id = 4000;
        ROLLBACK TO SAVEPOINT before_the_note;
        COMMIT;
    """,
    "equal rows of a table without a key": """
        INSERT INTO page_views SELECT * FROM page_views WHERE tiny < 10;
        DELETE FROM page_views WHERE tiny = 3 LIMIT 1;
        UPDATE page_views SET path = '/moved' WHERE tiny IN (4, 40);
    """,
    "a table added": """
        CREATE TABLE reviews (
            sku CHAR(8) CHARACTER SET ascii,
            customer_id INT UNSIGNED,
            stars TINYINT UNSIGNED NOT NULL,
            year YEAR,
            text MEDIUMTEXT CHARACTER SET utf8mb4,
            PRIMARY KEY (sku, customer_id)
        );
        INSERT INTO reviews VALUES
            ('P00004', 1, 5, 2024, 'très bien 👍'),
            ('P00004', 2, 1, 1901, REPEAT('нет ', 5000)),
            ('P00005', 1, 255, 2155, '');
        DELETE FROM reviews WHERE sku = 'P00005';
    """,
    "a column added": """
        ALTER TABLE customers ADD COLUMN phone VARCHAR(20);
        UPDATE customers SET phone = CONCAT('+41 ', id) WHERE id % 4 = 0;
        INSERT INTO customers (name, city, phone) VALUES ('Zoé', 'Évry', '+33 1');
    """,
    "a partition truncated, whose rows no log has": """
        ALTER TABLE visits TRUNCATE PARTITION before_2024;
    """,
}

SPOILING = "UPDATE customers SET balance = balance + 0.01 WHERE id = 100"
"""A change to keep from the log: the lake then differs in one value."""


def statements(script: str) -> list[str]:
    """Return the statements of a script; no text in ours holds a semicolon."""
    return [statement.strip() for statement in script.split(";") if statement.strip()]


def trickle(cursor: Cursor, chance: random.Random) -> str:
    """Let one small thing happen; return what."""
    kind = chance.choice(["order", "order", "payment", "price"])
    if kind == "price":
        product = sku(chance.randrange(10, PRODUCT_COUNT))
        price = f"{chance.randrange(100, 9_999) / 100:.2f}"
        cursor.execute("UPDATE products SET price = %s WHERE sku = %s", (price, product))
        return f"{product} costs {price}"
    if kind == "payment":
        cursor.execute(
            "UPDATE orders SET status = 'paid', paid_at = CURRENT_TIMESTAMP"
            " WHERE status = 'new' ORDER BY ordered_at DESC LIMIT 1"
        )
        return "an order was paid"
    now = datetime.now(UTC)
    order = int(now.timestamp() * 1000)
    cursor.execute("BEGIN")
    cursor.execute(
        "INSERT INTO orders VALUES (%s, %s, 'new', %s, NULL, '00:05:00', NULL)",
        (order, chance.randrange(CUSTOMER_COUNT) + 1, now.replace(tzinfo=None)),
    )
    for line in range(1, chance.randrange(2, 5)):
        product = sku(chance.randrange(10, PRODUCT_COUNT))
        cursor.execute(
            "INSERT INTO order_lines VALUES (%s, %s, %s, 1, 9.90)", (order, line, product)
        )
    cursor.execute("COMMIT")
    return f"order {order}"
