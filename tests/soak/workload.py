"""Writes without end: random transactions over tables of many types, with and without keys."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

import pymysql

from tests.fixtures.mysql import connect
from tests.services.servers import Account

DATABASE = "soak"

_KINDS = """n bigint unsigned, i int, s smallint, f double, a decimal(20,4), h decimal(50,10),
    b bit(10), y year, d date, m datetime(6), w timestamp(3) NULL, t time(2), v varchar(200),
    x text, g varchar(40) CHARACTER SET gbk, l char(8) CHARACTER SET latin1, r binary(5), o blob,
    e enum('new','grün','done'), z set('a','b','c')"""
TABLES = {
    "every": f"id bigint unsigned PRIMARY KEY, {_KINDS}",
    "pairs": """p int, q varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, c text, k int,
        PRIMARY KEY (q, p)""",
    "moving": "id int PRIMARY KEY, c varchar(300), k int",
    "keyless": "i int, c varchar(50), d double",
    "truncated": "id int AUTO_INCREMENT PRIMARY KEY, c varchar(200)",
}
SETUP = [
    f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    *(f"CREATE TABLE {DATABASE}.{name} ({columns})" for name, columns in TABLES.items()),
]
# What two writers do to each other, and to keys that exist: part of the noise.
_LOST = {0, 1053, 1927, 2003, 2006, 2013}
_EXPECTED = {1062, 1205, 1213, 1020, 1412}
_TEXTS = (
    "",
    "plain",
    "été",
    "日本語",
    "😀 emoji",
    "line\nbreak \0 zero",
    "' quote \\ slash",
    "x" * 150,
)

Statement = tuple[str, tuple[Any, ...]]


def text(random: Random, *, plain: bool = False) -> str:
    """Return some text; `plain` is what every character set has."""
    found = random.choice(_TEXTS[:2] if plain else _TEXTS)
    return f"{found} {random.randint(0, 99)}"


def _maybe(random: Random, value: Any) -> Any:
    return None if random.random() < 0.1 else value


def values(random: Random) -> list[Any]:
    """Return a value for every column of `_KINDS`."""
    made = [
        random.randint(0, 2**64 - 1),
        random.randint(-(2**31), 2**31 - 1),
        random.randint(-(2**15), 2**15 - 1),
        random.uniform(-1e9, 1e9),
        f"{random.randint(-(10**15), 10**15)}.{random.randint(0, 9999):04}",
        f"{random.randint(-(10**38), 10**38)}.{random.randint(0, 10**10 - 1):010}",
        random.randint(0, 1023),
        random.choice([1901, 2024, 2155]),
        f"{random.randint(1000, 9999)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}",
        f"20{random.randint(10, 99)}-02-03 04:05:{random.uniform(0, 59):09.6f}",
        f"20{random.randint(10, 37)}-12-31 23:59:59.{random.randint(0, 999):03}",
        f"{random.choice(['', '-'])}{random.randint(0, 837)}:12:{random.randint(0, 59):02}.25",
        text(random),
        text(random) * random.choice([1, 1, 40]),
        "漢字 text",
        "tschüß"[: random.randint(0, 6)],
        random.randbytes(random.randint(0, 4)),
        random.randbytes(random.choice([0, 10, 3000])),
        random.choice(["new", "grün", "done"]),
        random.choice(["", "a", "a,c", "a,b,c"]),
    ]
    return [_maybe(random, value) for value in made]


def _into_every(random: Random) -> Statement:
    rows = [(random.randint(0, 500), *values(random)) for _ in range(random.choice([1, 1, 5, 60]))]
    marks = "(" + ", ".join(["%s"] * len(rows[0])) + ")"
    verb = random.choice(["INSERT IGNORE", "REPLACE", "REPLACE"])
    return f"{verb} INTO every VALUES {', '.join([marks] * len(rows))}", sum(rows, ())


def _update_every(random: Random) -> Statement:
    low = random.randint(0, 500)
    sql = "UPDATE every SET i = %s, m = NOW(6), x = %s, n = %s WHERE id BETWEEN %s AND %s"
    new = (random.randint(0, 99), text(random), random.randint(0, 2**64 - 1))
    return sql, (*new, low, low + random.choice([0, 0, 3, 100]))


def _pair(random: Random) -> tuple[int, str]:
    return random.randint(0, 30), random.choice(["a", "A", "b", "ä", "日"])


def _into_pairs(random: Random) -> Statement:
    row = (*_pair(random), text(random), random.randint(0, 9))
    sql = "INSERT INTO pairs VALUES (%s, %s, %s, %s) ON DUPLICATE KEY UPDATE k = k + 1, c = %s"
    return sql, (*row, text(random))


def _move_pair(random: Random) -> Statement:
    return "UPDATE IGNORE pairs SET p = p + 1 WHERE q = %s ORDER BY p DESC", _pair(random)[1:]


def _into_moving(random: Random) -> Statement:
    return "REPLACE INTO moving (id, c, k) VALUES (%s, %s, %s)", (
        random.randint(0, 80),
        text(random),
        0,
    )


def _move(random: Random) -> Statement:
    # Chains within one statement: every key becomes the one that its neighbour had.
    way = random.choice(["+ 1 ORDER BY id DESC", "- 1 ORDER BY id", "+ 1000 WHERE id < 5"])
    return f"UPDATE moving SET id = id {way}", ()


def _swap(random: Random) -> Statement:
    one, other = random.randint(0, 80), random.randint(0, 80)
    return "UPDATE moving SET c = CONCAT(LEFT(c, 200), '!'), k = %s WHERE id IN (%s, %s)", (
        (random.randint(0, 9), one, other)
    )


def _into_keyless(random: Random) -> Statement:
    rows = [
        (random.randint(0, 9), text(random)[:50], random.choice([0.5, None]))
        for _ in range(random.choice([1, 3]))
    ]
    marks = ", ".join(["(%s, %s, %s)"] * len(rows))
    return f"INSERT INTO keyless VALUES {marks}", sum(rows, ())


def _delete(table: str, column: str, most: int) -> Callable[[Random], Statement]:
    def statement(random: Random) -> Statement:
        low = random.randint(0, most)
        return f"DELETE FROM {table} WHERE {column} BETWEEN %s AND %s LIMIT 40", (low, low + 3)

    return statement


def _update_keyless(random: Random) -> Statement:
    return "UPDATE keyless SET d = d + 1, i = %s WHERE i = %s", (
        (random.randint(0, 9), random.randint(0, 9))
    )


def _into_truncated(random: Random) -> Statement:
    return "INSERT INTO truncated (c) VALUES (%s), (%s)", (text(random), None)


_STATEMENTS: tuple[tuple[int, Callable[[Random], Statement]], ...] = (
    (5, _into_every),
    (4, _update_every),
    (2, _delete("every", "id", 500)),
    (4, _into_pairs),
    (2, _move_pair),
    (1, _delete("pairs", "p", 30)),
    (3, _into_moving),
    (3, _move),
    (2, _swap),
    (1, _delete("moving", "id", 80)),
    (3, _into_keyless),
    (2, _update_keyless),
    (1, _delete("keyless", "i", 9)),
    (2, _into_truncated),
)
_ALONE = ("TRUNCATE TABLE truncated", "FLUSH BINARY LOGS", "ALTER TABLE moving ADD COLUMN c{0} int")
_COLUMNS_ADDED_MAX = 5
_COLUMN_EXISTS = 1060


def _is_lost(error: Exception) -> bool:
    """Whether the server has ended the connection, or is not there."""
    if isinstance(error, pymysql.InterfaceError | OSError):
        return True
    return isinstance(error, pymysql.MySQLError) and error.args[0] in _LOST


class Writer:
    """A session that writes until a test stops it."""

    def __init__(
        self,
        account: Account,
        seed: int,
        *,
        per_second: float,
        alters: bool,
        reconnects: bool = False,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.failure: Exception | None = None
        self._account = account
        self._random = Random(seed)
        self._pause = 1 / per_second
        self._alters = alters
        self._reconnects = reconnects
        self._added = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End after the transaction that is under way.

        Raises:
            Exception: What ended the writer early.
        """
        self._stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(connect(self._account, database=DATABASE)) as connection:
                    self._write(connection)
            except Exception as error:  # noqa: BLE001 - raised by `stop`
                if not (self._reconnects and _is_lost(error)):
                    self.failure = error
                    return
                self.done["lost"] += 1
                time.sleep(self._pause)

    def _write(self, connection: pymysql.Connection[Any]) -> None:
        while not self._stopping.is_set():
            self._transaction(connection)
            time.sleep(self._pause * 2 * self._random.random())

    def _transaction(self, connection: pymysql.Connection[Any]) -> None:
        random = self._random
        with connection.cursor() as cursor:
            if self._alters and random.random() < 0.01:
                self._alone(cursor)
                return
            cursor.execute("BEGIN")
            try:
                for _ in range(random.choice([1, 1, 2, 6])):
                    weights = [weight for weight, _ in _STATEMENTS]
                    (make,) = random.choices([make for _, make in _STATEMENTS], weights)
                    cursor.execute(*make(random))
                    self.done["statements"] += 1
            except pymysql.MySQLError as error:
                if error.args[0] not in _EXPECTED:
                    raise
                self.done["refused"] += 1
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute("ROLLBACK")
                return
            ends = "ROLLBACK" if random.random() < 0.1 else "COMMIT"
            cursor.execute(ends)
            self.done[ends.lower()] += 1

    def _alone(self, cursor: Any) -> None:
        statement = self._random.choice(_ALONE)
        if "ADD COLUMN" in statement:
            if self._added == _COLUMNS_ADDED_MAX:
                return
            self._added += 1
        try:
            cursor.execute(statement.format(self._added))
        except pymysql.MySQLError as error:
            # A writer before this one has added it.
            if error.args[0] != _COLUMN_EXISTS:
                raise
        self.done[statement.split(maxsplit=1)[0].lower()] += 1
