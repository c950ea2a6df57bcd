"""Writes without end: random transactions over tables of many types, with and without keys."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Any

import pymysql

from airflow_provider_binlog.names import quote_identifier as quote
from tests.fixtures.mysql import connect
from tests.oracle.kinds import Kind, common_kinds
from tests.oracle.session import EXPECTED, SETTINGS
from tests.oracle.tables import KEY, Column
from tests.services.servers import Account
from tests.support.row_statements import RowStatements

DATABASE = "soak"

_ID, _PART = KEY
_NUMBERED = replace(_ID, declared="int NOT NULL AUTO_INCREMENT")
_COMMON = common_kinds()
_WORDS = next(kind for kind in _COMMON if kind.sql == "varchar(200)")
_NUMBER = next(kind for kind in _COMMON if kind.sql == "int")


def _columns(*kinds: Kind) -> tuple[Column, ...]:
    return tuple(Column(f"c{n}", kind, None, f"{kind.sql} NULL") for n, kind in enumerate(kinds))


TABLES: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
    "every": ((_ID,), _columns(*_COMMON)),
    "pairs": ((_PART, _ID), _columns(_WORDS, _NUMBER)),
    "moving": ((_ID,), _columns(_WORDS, _NUMBER)),
    "keyless": ((), (_ID, *_columns(_WORDS, _NUMBER))),
    "truncated": ((_NUMBERED,), _columns(_WORDS)),
}
"""Columns of the key, and the others, by table."""


def _create(name: str, key: tuple[Column, ...], columns: tuple[Column, ...]) -> str:
    declared = [f"{column.name} {column.declared}" for column in (*key, *columns)]
    if key:
        declared.append(f"PRIMARY KEY ({', '.join(column.name for column in key)})")
    return f"CREATE TABLE {DATABASE}.{name} ({', '.join(declared)})"


SETUP = [
    f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    *(_create(name, *columns) for name, columns in TABLES.items()),
]
# What two writers do to each other is part of the noise, as is what a value does not fit in.
_LOST = {0, 1053, 1927, 2003, 2006, 2013}
_EXPECTED = EXPECTED | {1205, 1213, 1020, 1412}
_ALONE = (
    "TRUNCATE TABLE truncated",
    "FLUSH BINARY LOGS",
    "ALTER TABLE moving ADD COLUMN added{0} int",
)
_COLUMNS_ADDED_MAX = 5
_COLUMN_EXISTS = 1060


def _is_lost(error: Exception) -> bool:
    """Whether the server has ended the connection, or is not there."""
    if isinstance(error, pymysql.InterfaceError | OSError):
        return True
    return isinstance(error, pymysql.MySQLError) and error.args[0] in _LOST


class Writer:
    """A session that writes until it is stopped, and begins again where the server ends it."""

    def __init__(
        self,
        account: Account,
        seed: int,
        *,
        per_second: float,
        alters: bool,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.failure: Exception | None = None
        self._account = account
        self._random = Random(seed)
        self._rows = RowStatements(self._random, counts=(1, 1, 5, 60), ids=500)
        self._pause = 1 / per_second
        self._alters = alters
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
                options = {"database": DATABASE, "init_command": SETTINGS}
                with closing(connect(self._account, **options)) as connection:
                    self._write(connection)
            except Exception as error:  # noqa: BLE001 - raised by `stop`
                if not _is_lost(error):
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
                    name, (key, columns) = random.choice([*TABLES.items()])
                    cursor.execute(self._rows.write(quote(name), columns, key))
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
