"""Whether a server is set up for capture; if not, everything that is wrong, and what corrects it.

Source: MySQL 9.7 reference manual, 19.1.6.4 Binary Logging Options and Variables, and 8.2.2
Privileges Provided by MySQL; MariaDB documentation, GRANT and Replication and Binary Log System
Variables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import AccessDeniedError, ServerSetupError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server.driver import LOG_IS_OFF, driver_errors
from airflow_provider_binlog.transport.server.log_filter import find_replica_problem
from airflow_provider_binlog.transport.server.result_sets import query
from airflow_provider_binlog.transport.server.version import (
    ServerVersion,
    global_variables,
    server_version,
)

if TYPE_CHECKING:
    import pymysql

    Connection = pymysql.Connection[Any]


@driver_errors()
def check_setup(connection: Connection) -> None:
    """Refuse a server or an account that capture cannot work with, naming all that is wrong.

    Settings are the server's global ones; a session may have its own, which only its events show.

    Raises:
        ServerSetupError: A variable is not as it must be; the text has the statement that sets it.
        AccessDeniedError: Only privileges are missing; the text has the GRANT.
    """
    asked = server_version(connection)
    wrong = setting_problems(asked, global_variables(connection))
    missing = _privilege_problems(connection, asked)
    if problem := find_replica_problem(connection):
        wrong.append(f"{problem}.")
    if not wrong and not missing:
        return
    numbered = [f"({number}) {text}" for number, text in enumerate([*wrong, *missing], start=1)]
    kind = ServerSetupError if wrong else AccessDeniedError
    raise kind(f"this server cannot be captured yet: {' '.join(numbered)}", server=asked.text)


def setting_problems(of: ServerVersion, values: dict[str, str]) -> list[str]:
    """Return a sentence for each variable that is not as it must be, with what sets it."""
    problems = []
    if values.get("log_bin", "OFF").upper() not in {"ON", "1"}:
        problems.append(f"{LOG_IS_OFF}.")
    if values.get("server_id", "0") == "0":
        problems.append(
            "server_id is 0, and the server then sends its log to nobody: "
            + _set(of, "server_id", "1")
        )
    if values.get("lower_case_table_names", "0") != "0":
        problems.append(
            "lower_case_table_names is not 0: statements in the log then write names as their "
            "author did, and rows do not, so that a TRUNCATE could be missed. It is set for good "
            "when a server is initialised: capture from a replica that was initialised with 0."
        )
    if (value := values.get("binlog_format", "ROW")).upper() != "ROW":
        correction = _set(of, "binlog_format", "ROW")
        problems.append(f"binlog_format is {value}, statements hold no row changes: {correction}")
    return problems


def _privilege_problems(connection: Connection, asked: ServerVersion) -> list[str]:
    problems = []
    if not _may(connection, "SHOW BINARY LOGS"):
        problems.append(_lacks(connection, "REPLICATION CLIENT", "reading where the log ends"))
    if asked.flavor is Flavor.MARIADB:
        may_dump = _may_dump_by_grants(connection)
    else:
        # Takes the same privilege; SHOW GRANTS would leave out what a role brings.
        renamed = asked.version >= (8, 0, 22)
        may_dump = _may(connection, "SHOW REPLICAS" if renamed else "SHOW SLAVE HOSTS")
    if not may_dump:
        problems.append(_lacks(connection, "REPLICATION SLAVE", "reading the log"))
    return problems


def _may_dump_by_grants(connection: Connection) -> bool:
    """Read the grants: MariaDB has no harmless statement that takes REPLICATION SLAVE alone.

    Those of the session's role are among them.
    """
    lines = [str(next(iter(row.values()))) for row in query(connection, "SHOW GRANTS")]
    may = re.compile(r"GRANT (?:.*, )?(?:ALL PRIVILEGES|REPLICATION SLAVE)(?:, .*?)? ON \*\.\* TO ")
    return any(may.match(line) for line in lines)


def _may(connection: Connection, statement: str) -> bool:
    try:
        query(connection, statement)
    except AccessDeniedError:
        return False
    except ServerSetupError:  # the log is off, which the settings have said already
        return True
    return True


def _lacks(connection: Connection, privilege: str, purpose: str) -> str:
    account = str(query(connection, "SELECT CURRENT_USER() AS account")[0]["account"])
    user, _, host = account.rpartition("@")
    quoted = "@".join(map(quote_identifier, (user, host)))
    return f"the account lacks {privilege} for {purpose}: GRANT {privilege} ON *.* TO {quoted};"


def _set(of: ServerVersion, name: str, value: str) -> str:
    if of.flavor is Flavor.MYSQL and of.version >= (8,):
        return f"SET PERSIST {name} = {value};"
    return f"SET GLOBAL {name} = {value}; and {name}={value} under [mysqld] in the option file."
