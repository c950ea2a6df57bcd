"""The server's flavor and version, and its global variables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.result_sets import query

if TYPE_CHECKING:
    import pymysql

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
