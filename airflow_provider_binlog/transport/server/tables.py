"""Facts of tables: the order of rows by the key, estimated sizes, foreign keys without row events.

`ON DELETE` and `ON UPDATE` with `CASCADE` or `SET NULL` change the rows that refer to another one.
MariaDB, and MySQL before 9.6, do it inside InnoDB, and log the statement's own rows alone. Such
keys are worth a warning, and no more: a failed query is reported as such.

Source: MySQL 9.7 reference manual, 10.3.13 Descending Indexes, 28.3.34 The INFORMATION_SCHEMA
STATISTICS Table, 28.3.45 The INFORMATION_SCHEMA TABLES Table, 15.1.24.5 FOREIGN KEY Constraints,
and `innodb_native_foreign_keys`; MariaDB documentation, SHOW INDEX, Information Schema TABLES
Table, Foreign Keys; MariaDB, MDEV-32500; storage/innobase/dict/dict0dict.cc,
dict_print_info_on_foreign_key_in_create_format.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pymysql.constants import ER

from airflow_provider_binlog.errors import AccessDeniedError, BinlogError, SourceError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors, query
from airflow_provider_binlog.transport.server.information_schema import (
    TableName,
    quote_table,
    rows_of_tables,
)
from airflow_provider_binlog.transport.server.status import server_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pymysql

    from airflow_provider_binlog.transport.server.driver import Row
    from airflow_provider_binlog.transport.server.status import ServerVersion

    Connection = pymysql.Connection[Any]


class ColumnOrder(NamedTuple):
    """How one column of a key orders rows.

    Attributes:
        collation: None where the type has none.
        descending: Whether the index has its greatest value first.
    """

    collation: str | None = None
    descending: bool = False


@driver_errors()
def read_order(
    connection: pymysql.Connection[Any], name: tuple[str, str], key: Sequence[str]
) -> tuple[ColumnOrder, ...]:
    """Return how each column of a table's key orders rows."""
    rows = query(
        connection,
        "SELECT COLUMN_NAME AS name, COLLATION_NAME AS collation FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *name,
    )
    collations = {str(row["name"]): row["collation"] for row in rows}
    descending = _directions(connection, name, key)
    return tuple(map(ColumnOrder, (collations[column] for column in key), descending))


def _directions(
    connection: pymysql.Connection[Any], name: tuple[str, str], key: Sequence[str]
) -> list[bool]:
    """Return which columns the unique index on these columns has in descending order."""
    indexes: dict[str, list[Row]] = defaultdict(list)
    for row in query(connection, f"SHOW INDEX FROM {quote_table(name)}"):
        if not int(row["Non_unique"]):
            indexes[str(row["Key_name"])].append(row)
    for rows in indexes.values():
        if [row["Column_name"] for row in rows] == list(key):
            return [row["Collation"] == "D" for row in rows]
    return [False] * len(key)


_ROW_BYTES = 100
"""Where the server has no estimate."""


def row_bytes(connection: pymysql.Connection[Any], name: tuple[str, str]) -> int:
    """Return about how many bytes a row of a table takes, at least 1."""
    return _estimate(connection, name, "AVG_ROW_LENGTH") or _ROW_BYTES


def data_bytes(connection: pymysql.Connection[Any], name: tuple[str, str]) -> int:
    """Return about how many bytes a table takes, without its indexes; 0 if nobody knows."""
    return _estimate(connection, name, "DATA_LENGTH")


@driver_errors()
def _estimate(connection: pymysql.Connection[Any], name: tuple[str, str], what: str) -> int:
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
_CHANGING = ("CASCADE", "SET NULL")
_LOCK_WAIT_SECONDS = 5
_NAMED_MAX = 10


class UnloggedForeignKey(NamedTuple):
    """A foreign key that changes rows without row events.

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
            parts.append(f"and {more} more, which `status` lists")
        if self.unknown:
            parts.append(f"not known is whether there are{' others' * bool(parts)}: {self.unknown}")
        return "; ".join(parts)


def unlogged_foreign_keys(
    connect: Callable[[], Connection],
    captured: Callable[[str, str], bool],
    logged: Collection[TableName] = (),
) -> ForeignKeys:
    """Return the foreign keys of captured tables that change their rows without row events.

    It takes SELECT on the tables. Raises no `BinlogError`: the result says that a query
    failed.

    Args:
        connect: Opens a connection, which is closed again.
        captured: Whether a table is captured, by database and name.
        logged: Tables that there are, by the log. Those of them that the account may not see are
            named.
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
    of = server_version(connection)
    if _are_logged(connection, of):
        return ForeignKeys()
    tables = {name for name in _list_tables(connection) if captured(*name)}
    query_rules = _query_mysql if of.flavor is Flavor.MYSQL else _query_mariadb
    unlogged: list[UnloggedForeignKey] = []
    hidden = set(logged) - tables
    for name, key, on_delete, on_update in query_rules(connection, tables):
        if on_delete is None:
            hidden.add(name)
        elif rules := _changing_rules(on_delete, on_update or ""):
            unlogged.append(UnloggedForeignKey(*name, key, rules))
    return ForeignKeys(tuple(sorted(unlogged)), _why_unknown(tables, hidden))


def _are_logged(connection: Connection, of: ServerVersion) -> bool:
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


def _changing_rules(on_delete: str, on_update: str) -> str:
    rules = (("ON DELETE", on_delete), ("ON UPDATE", on_update))
    return " ".join(f"{event} {rule}" for event, rule in rules if rule in _CHANGING)


def _list_tables(connection: Connection) -> Iterator[TableName]:
    # These two columns alone: MariaDB opens no table for them.
    statement = "SELECT TABLE_SCHEMA AS db, TABLE_NAME AS name FROM information_schema.TABLES"
    return ((str(row["db"]), str(row["name"])) for row in query(connection, statement))


# A table, one of its foreign keys, ON DELETE and ON UPDATE; None where they may not be seen.
_Rules = tuple[TableName, str, str | None, str | None]


def _query_mysql(connection: Connection, tables: Collection[TableName]) -> Iterator[_Rules]:
    for database in sorted({database for database, _ in tables}):
        for row in query(
            connection,
            "SELECT TABLE_NAME AS name, CONSTRAINT_NAME AS foreign_key,"
            " DELETE_RULE AS on_delete, UPDATE_RULE AS on_update"
            " FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s",
            database,
        ):
            if (name := (database, str(row["name"]))) in tables:
                yield name, row["foreign_key"], row["on_delete"], row["on_update"]


def _query_mariadb(connection: Connection, tables: Collection[TableName]) -> Iterator[_Rules]:
    """Read the rules from the tables' definitions.

    information_schema shows them only to accounts with another privilege than SELECT. It shows
    which tables have foreign keys to every account that may read those.
    """
    query(connection, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}, sql_mode = ''")
    query(connection, "SET SESSION sql_quote_show_create = ON")
    rows = rows_of_tables(
        connection,
        tables,
        "SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`, CONSTRAINT_NAME AS foreign_key,"
        " REFERENCED_TABLE_NAME AS other FROM information_schema.KEY_COLUMN_USAGE",
        order="ORDINAL_POSITION",
    )
    keys: dict[TableName, set[str]] = defaultdict(set)
    for row in rows:
        if row["other"] is not None:
            keys[row["database"], row["table"]].add(str(row["foreign_key"]))
    for name in sorted(keys):
        rules = {
            match["name"].replace("``", "`"): (match["on_delete"] or "", match["on_update"] or "")
            for match in _FOREIGN_KEY.finditer(_definition(connection, name))
        }
        for key in sorted(keys[name]):
            # MariaDB does not double the backticks in the name of a foreign key.
            yield name, key, *rules.get(key.replace("``", "`"), (None, None))


def _definition(connection: Connection, name: TableName) -> str:
    """Return what SHOW CREATE TABLE prints; empty if the table may not be read, or was dropped."""
    try:
        (row,) = query(connection, f"SHOW CREATE TABLE {quote_table(name)}")
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
    rf"(?: ON DELETE (?P<on_delete>{_RULE}))?(?: ON UPDATE (?P<on_update>{_RULE}))?,?$",
    re.MULTILINE,
)
"""A line of SHOW CREATE TABLE. One of a name that holds a line break is not recognized: then the
warning says that the rules of this key are not known."""
