"""Foreign keys that change rows of which the log says nothing.

`ON DELETE` and `ON UPDATE` with `CASCADE` or `SET NULL` change the rows that refer to another one.
MariaDB, and MySQL before 9.6, do it inside InnoDB, and log the statement's own rows alone.

Source: MySQL 9.7 reference manual, 15.1.24.5 FOREIGN KEY Constraints, and
`innodb_native_foreign_keys`; MariaDB documentation, Foreign Keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server import server
from airflow_provider_binlog.transport.sql import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    Connection = pymysql.Connection[Any]

_LOGGED_SINCE = (9, 6)
_QUESTION = """
SELECT constraint_schema AS db, table_name AS name, constraint_name AS foreign_key,
    delete_rule AS on_delete, update_rule AS on_update
FROM information_schema.referential_constraints
WHERE delete_rule IN ('CASCADE', 'SET NULL') OR update_rule IN ('CASCADE', 'SET NULL')
ORDER BY db, name, foreign_key
"""


class UnloggedForeignKey(NamedTuple):
    """A foreign key that changes rows, and has nothing logged of it.

    Attributes:
        database: Of the table whose rows are changed.
        table: Its name.
        name: The foreign key's.
        rules: What it does: `ON DELETE CASCADE`, `ON DELETE SET NULL ON UPDATE CASCADE`.
    """

    database: str
    table: str
    name: str
    rules: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}: {self.name} {self.rules}"


def unlogged_foreign_keys(
    connection: Connection, captured: Callable[[str, str], bool]
) -> list[UnloggedForeignKey]:
    """Return the foreign keys of captured tables that change their rows without a word in the log.

    Those of tables that the account may not see are not among them: it takes a privilege on the
    table, such as SELECT.

    Raises:
        SourceError: The server, or the way to it, failed.
    """
    if _are_logged(connection):
        return []
    return [
        UnloggedForeignKey(row["db"], row["name"], row["foreign_key"], _rules(row))
        for row in ask(connection, _QUESTION)
        if captured(row["db"], row["name"])
    ]


def _are_logged(connection: Connection) -> bool:
    asked = server(connection)
    if asked.flavor is Flavor.MARIADB or asked.version < _LOGGED_SINCE:
        return False
    native = ask(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return all(str(row["Value"]).upper() != "ON" for row in native)


def _rules(row: dict[str, Any]) -> str:
    changing = ("CASCADE", "SET NULL")
    rules = (("ON DELETE", row["on_delete"]), ("ON UPDATE", row["on_update"]))
    return " ".join(f"{event} {rule}" for event, rule in rules if rule in changing)
