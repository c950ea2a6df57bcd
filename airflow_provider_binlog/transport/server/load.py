"""How busy a server is: the statements that it executes, and its lag as a replica.

Source: MySQL 9.7 reference manual, 7.1.10 Server Status Variables, 15.7.7.36 SHOW REPLICA STATUS;
MariaDB documentation, SHOW REPLICA STATUS.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.result_sets import query
from airflow_provider_binlog.transport.server.version import server_version

if TYPE_CHECKING:
    import pymysql

    from airflow_provider_binlog.transport.server.result_sets import Row

    Connection = pymysql.Connection[Any]

_LAG = "seconds_"
"""What the name of the column begins with: the rest of it is the version's."""


@driver_errors()
def threads_running(connection: Connection) -> int:
    """Return how many threads are not asleep, that of this connection among them."""
    rows = query(connection, "SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_running'")
    return int(rows[0]["Value"])


@driver_errors()
def replica_lag(connection: Connection) -> float | None:
    """Return the greatest lag among a replica's channels, in seconds; None if it is no replica.

    It is infinite where replication is stopped.

    Raises:
        AccessDeniedError: The account may not read the state of the replica.
    """
    lags = []
    for row in replica_status(connection):
        lag = next(value for name, value in row.items() if name.lower().startswith(_LAG))
        lags.append(math.inf if lag is None else float(lag))
    return max(lags, default=None)


def replica_status(connection: Connection) -> list[Row]:
    """Return the state of a replica, a row for each of its channels; none if it is no replica.

    Raises:
        AccessDeniedError: The account may not read it.
    """
    return query(connection, _status_statement(connection))


def _status_statement(connection: Connection) -> str:
    of = server_version(connection)
    if of.flavor is Flavor.MARIADB:
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if of.version >= (8, 0, 22) else "SHOW SLAVE STATUS"
