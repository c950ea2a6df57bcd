"""A connection that writes: what the server refuses is counted, if it may."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql

from tests.fixtures.mysql import connect

if TYPE_CHECKING:
    from tests.services.servers import Server

# Values that do not fit, keys that exist, invalid documents: the server refuses them, and
# nothing is logged.
EXPECTED = frozenset(
    {
        *(
            1022,
            1048,
            1054,
            1060,
            1062,
            1067,
            1118,
            1197,
            1264,
            1265,
            1292,
            1305,
            1364,
            1366,
            1406,
            1411,
        ),
        *(1690, 1901, 3037, 3108, 3140, 3141, 3143, 3144, 3146, 3149, 3150, 3548, 3616, 3903, 4078),
    }
)
# Days that no calendar has are taken as well; a lock that nobody gives back is not waited for.
SETTINGS = "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', lock_wait_timeout = 30"
_SHOWN = 1000


class Session:
    """One connection.

    Attributes:
        done: Statements by kind, and those that the server refused.
    """

    def __init__(self, server: Server, **options: Any) -> None:
        """Connect, with `options` of the driver."""
        self.done: Counter[str] = Counter()
        self._connection = connect(server, init_command=SETTINGS, **options)

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        with closing(self._connection.cursor()) as cursor:
            try:
                cursor.execute(sql)
            except pymysql.MySQLError as error:
                error.add_note(f"SQL: {sql[:_SHOWN]}")
                raise
            return list(cursor.fetchall())

    def attempt(self, sql: str) -> bool:
        """Execute a statement; return whether the server took it."""
        try:
            self.execute(sql)
        except pymysql.MySQLError as error:
            if error.args[0] not in EXPECTED:
                raise
            self.done["refused"] += 1
            return False
        self.done[sql.split(" ", 1)[0].lower()] += 1
        return True
