"""The version, the variables and the load of a server.

Source: MySQL 9.7 reference manual, 7.1.10 Server Status Variables, 15.7.7.36 SHOW REPLICA STATUS;
MariaDB documentation, SHOW REPLICA STATUS.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors, query

if TYPE_CHECKING:
    import pymysql

    from airflow_provider_binlog.transport.server.driver import Row

    Connection = pymysql.Connection[Any]


@dataclass(frozen=True)
class ServerVersion:
    """The flavor and version of a server.

    Attributes:
        flavor: MySQL's family or MariaDB's.
        version: The numbers at the front of the version: `(9, 7, 4)`.
        text: The version in full, as `SELECT VERSION()` prints it.
    """

    flavor: Flavor
    version: tuple[int, ...]
    text: str


@driver_errors()
def server_version(connection: Connection) -> ServerVersion:
    """Return the server's flavor and version."""
    return parse_version(str(query(connection, "SELECT VERSION() AS version")[0]["version"]))


def parse_version(text: str) -> ServerVersion:
    """Return the flavor and version in the text of `SELECT VERSION()`.

    `8.0.mysql_aurora.3.08.0` counts as the MySQL version it stands for. The prefix `5.5.5-`, which
    MariaDB adds for old replicas and proxies pass on, does not count.
    """
    flavor = Flavor.MARIADB if "mariadb" in text.lower() else Flavor.MYSQL
    front = text.removeprefix("5.5.5-") if flavor is Flavor.MARIADB else text
    numbers = re.match(r"\d+(?:\.\d+)*", front, re.ASCII)
    version = tuple(map(int, numbers[0].split("."))) if numbers else ()
    return ServerVersion(flavor, version, text)


GLOBAL_VARIABLES = (
    "binlog_storage_engine",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_checksum",
    "gtid_mode",
    "gtid_domain_id",
    "log_bin",
    "log_bin_basename",
    "log_replica_updates",
    "log_slave_updates",
    "lower_case_table_names",
    "server_id",
    "server_uid",
    "server_uuid",
    "time_zone",
    "version",
    "wsrep_on",
)
"""The global variables that capture reads."""


@driver_errors()
def global_variables(connection: Connection) -> dict[str, str]:
    """Return `GLOBAL_VARIABLES` by name, without those that the server does not have."""
    marks = ", ".join(["%s"] * len(GLOBAL_VARIABLES))
    rows = query(
        connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", *GLOBAL_VARIABLES
    )
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}


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
