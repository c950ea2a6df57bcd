"""The order of a table's rows by its key, and the server's estimate of its size.

Source: MySQL 9.7 reference manual, 10.3.13 Descending Indexes, 28.3.34 The INFORMATION_SCHEMA
STATISTICS Table, 28.3.45 The INFORMATION_SCHEMA TABLES Table; MariaDB documentation, SHOW INDEX,
Information Schema TABLES Table.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors, query
from airflow_provider_binlog.transport.server.information_schema import quote_table
from airflow_provider_binlog.transport.server.status import server_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from airflow_provider_binlog.transport.server.driver import Row


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
