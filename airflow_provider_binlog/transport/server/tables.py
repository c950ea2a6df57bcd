"""Facts of tables: the order of rows by the key, estimated sizes, foreign keys without row events.

`ON DELETE` and `ON UPDATE` with `CASCADE` or `SET NULL` change the rows that refer to another one.
MariaDB, and MySQL before 9.6, do it inside InnoDB, and log the statement's own rows alone.

Source: MySQL 9.7 reference manual, 10.3.13, 28.3.45, 15.1.24.5 FOREIGN KEY Constraints; MDEV-32500.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from pymysql.constants import ER

from airflow_provider_binlog.errors import AccessDeniedError, BinlogError, SourceError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.transport.server import information_schema
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors, query
from airflow_provider_binlog.transport.server.queries import server_version


class ColumnOrder(NamedTuple):
    """Order of rows by one column of a key.

    Attributes:
        collation: None where the type has none.
        descending: Whether the index has its greatest value first.
    """

    collation: str | None = None
    descending: bool = False


@driver_errors()
def read_order(
    connection: Connection, name: TableName, key: Sequence[str]
) -> tuple[ColumnOrder, ...]:
    """Return how each column of a table's key orders rows."""
    rows = query(
        connection,
        "SELECT COLUMN_NAME AS name, COLLATION_NAME AS collation FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *name,
    )
    collations = {str(row["name"]): row["collation"] for row in rows}
    descending = [False] * len(key)
    for index in information_schema.unique_indexes(connection, name).values():
        if [row["Column_name"] for row in index] == list(key):
            descending = [row["Collation"] == "D" for row in index]
            break
    return tuple(map(ColumnOrder, (collations[column] for column in key), descending))


_ROW_BYTES = 100
"""Size of a row where the server has no estimate."""


def row_bytes(connection: Connection, name: TableName) -> int:
    """Return about how many bytes a row of a table takes, at least 1."""
    return _estimate(connection, name, "AVG_ROW_LENGTH") or _ROW_BYTES


def data_bytes(connection: Connection, name: TableName) -> int:
    """Return about how many bytes a table takes, without its indexes; 0 if nobody knows."""
    return _estimate(connection, name, "DATA_LENGTH")


@driver_errors()
def _estimate(connection: Connection, name: TableName, what: str) -> int:
    of = server_version(connection)
    if of.flavor is Flavor.MYSQL and of.version >= (8,):
        # Else the estimate may be a day old.
        query(connection, "SET SESSION information_schema_stats_expiry = 0")
    rows = query(
        connection,
        f"SELECT {what} AS size FROM information_schema.TABLES"  # noqa: S608
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *name,
    )
    return int(rows[0]["size"] or 0) if rows else 0


_LOGGED_SINCE = (9, 6)
_LOCK_WAIT_SECONDS = 5
_NAMED_MAX = 10


class UnloggedForeignKey(NamedTuple):
    """A foreign key of a table, and how it changes the table's rows without row events.

    `rules` is `ON DELETE CASCADE`, `ON DELETE SET NULL ON UPDATE CASCADE`, ...
    """

    database: str
    table: str
    name: str
    rules: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}: {self.name} {self.rules}"


@dataclass(frozen=True)
class ForeignKeys:
    """The known foreign keys that change rows without row events.

    Attributes:
        unlogged: In the order of their tables' names.
        unknown: Why there may be others; empty where these are all.
    """

    unlogged: tuple[UnloggedForeignKey, ...] = ()
    unknown: str = ""

    def __str__(self) -> str:
        """Return one line; empty where there are none."""
        parts = [str(key) for key in self.unlogged[:_NAMED_MAX]]
        if more := len(self.unlogged) - len(parts):
            parts.append(f"and {more} more, which `check` lists")
        if self.unknown:
            parts.append(f"not known is whether there are{' others' * bool(parts)}: {self.unknown}")
        return "; ".join(parts)


def unlogged_foreign_keys(
    connect: Callable[[], Connection],
    captured: Callable[[str, str], bool],
    logged: Collection[TableName] = (),
) -> ForeignKeys:
    """Return the foreign keys of captured tables that change their rows without row events.

    It takes SELECT on the tables; those in the log that the account may not see are named. Raises
    no `BinlogError`: the result says that a query failed.
    """
    try:
        with closing(connect()) as connection:
            return _find(connection, captured, logged)
    except BinlogError as error:
        # What would be a warning must not stop capture.
        return ForeignKeys(unknown=f"the server could not be queried: {error}")


@driver_errors()
def _find(
    connection: Connection,
    captured: Callable[[str, str], bool],
    logged: Collection[TableName],
) -> ForeignKeys:
    if _are_logged(connection):
        return ForeignKeys()
    query(connection, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}, sql_mode = ''")
    query(connection, "SET SESSION sql_quote_show_create = ON")
    tables = {name for name in information_schema.list_tables(connection) if captured(*name)}
    unlogged: list[UnloggedForeignKey] = []
    hidden = set(logged) - tables
    rows = query(
        connection,
        "SELECT DISTINCT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL",
    )
    for name in sorted(tables & {(str(row["database"]), str(row["table"])) for row in rows}):
        definition = _definition(connection, name)
        if not definition:
            hidden.add(name)
        unlogged += (
            UnloggedForeignKey(*name, key["name"].replace("``", "`"), rules)
            for key in _FOREIGN_KEY.finditer(definition)
            if (rules := "".join(_CHANGING_RULE.findall(key["rules"])).strip())
        )
    return ForeignKeys(tuple(sorted(unlogged)), _why_unknown(tables, hidden))


def _are_logged(connection: Connection) -> bool:
    of = server_version(connection)
    if of.flavor is Flavor.MARIADB or of.version < _LOGGED_SINCE:
        return False
    native = query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return all(str(row["Value"]).upper() != "ON" for row in native)


def _why_unknown(tables: Collection[TableName], hidden: Collection[TableName]) -> str:
    if hidden:
        names = sorted(map(".".join, hidden))
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        listed = ", ".join(names[:_NAMED_MAX]) + more
        return f"the account lacks SELECT on {listed}, or they were dropped"
    if not tables:
        return "the account sees none of the tables: if there are any, it lacks SELECT on them"
    return ""


def _definition(connection: Connection, name: TableName) -> str:
    """Return what SHOW CREATE TABLE prints; empty if the table may not be read, or was dropped.

    information_schema of MariaDB shows the rules only to accounts with more than SELECT.
    """
    try:
        (row,) = query(connection, f"SHOW CREATE TABLE {information_schema.quote_table(name)}")
    except AccessDeniedError:
        return ""
    except SourceError as error:
        if error.context.get("code") != ER.NO_SUCH_TABLE:
            raise
        return ""
    return str(row["Create Table"])


_RULE = r"(?:CASCADE|SET NULL|SET DEFAULT|NO ACTION|RESTRICT)"
_FOREIGN_KEY = re.compile(
    r"^  CONSTRAINT `(?P<name>.*?)` FOREIGN KEY \(.*\) REFERENCES .*?\)"
    rf"(?P<rules>(?: ON DELETE {_RULE})?(?: ON UPDATE {_RULE})?),?$",
    re.MULTILINE,
)
"""A line of SHOW CREATE TABLE. One of a name that holds a line break is not recognized."""
_CHANGING_RULE = re.compile(r" ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL)")
