"""How large a table and its rows are, by the server's own estimate.

Source: MySQL 9.7 reference manual, 28.3.45 The INFORMATION_SCHEMA TABLES Table; MariaDB
documentation, Information Schema TABLES Table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.result_sets import query
from airflow_provider_binlog.transport.server.version import server_version

if TYPE_CHECKING:
    import pymysql

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
