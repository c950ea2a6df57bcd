"""What kind of server answers, and its variables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.result_sets import LOG_IS_OFF, ask

if TYPE_CHECKING:
    import pymysql

    Connection = pymysql.Connection[Any]

__all__ = ["LOG_IS_OFF", "SETTINGS", "Server", "parse_version", "server", "settings"]


@dataclass(frozen=True)
class Server:
    """What a server says it is.

    Attributes:
        flavor: MySQL's family or MariaDB's.
        version: The numbers at the front of the version: `(9, 7, 4)`.
        text: The version in full, as `SELECT VERSION()` prints it.
    """

    flavor: Flavor
    version: tuple[int, ...]
    text: str


def server(connection: Connection) -> Server:
    """Return the server's flavor and version."""
    return parse_version(str(ask(connection, "SELECT VERSION() AS version")[0]["version"]))


def parse_version(text: str) -> Server:
    """Return what a server's version says.

    `8.0.mysql_aurora.3.08.0` counts as the MySQL version it stands for. `5.5.5-`, which MariaDB
    puts in front for old replicas, and proxies hand on, does not count.
    """
    flavor = Flavor.MARIADB if "mariadb" in text.lower() else Flavor.MYSQL
    front = text.removeprefix("5.5.5-") if flavor is Flavor.MARIADB else text
    numbers = re.match(r"\d+(?:\.\d+)*", front, re.ASCII)
    version = tuple(map(int, numbers[0].split("."))) if numbers else ()
    return Server(flavor, version, text)


SETTINGS = (
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_checksum",
    "gtid_mode",
    "gtid_domain_id",
    "log_bin",
    "log_bin_basename",
    "lower_case_table_names",
    "server_id",
    "server_uid",
    "server_uuid",
    "time_zone",
    "version",
)
"""The variables that capture looks at."""


def settings(connection: Connection) -> dict[str, str]:
    """Return the global variables that matter to capture; left out are those it does not have."""
    marks = ", ".join(["%s"] * len(SETTINGS))
    rows = ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", *SETTINGS)
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
