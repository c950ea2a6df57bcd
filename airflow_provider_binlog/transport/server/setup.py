"""Check the setup of a server for capture, its log filters included; name what corrects it.

Source: MySQL 9.7 reference manual, 19.1.6.4, 19.2.5.1 Evaluation of Database-Level Replication and
Binary Logging Options, 8.2.2 Privileges; MariaDB documentation, GRANT, Replication Filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from airflow_provider_binlog.errors import AccessDeniedError, ServerSetupError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server import driver, queries
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors, query
from airflow_provider_binlog.transport.server.information_schema import list_tables


@driver_errors()
def check_setup(connection: Connection) -> None:
    """Refuse a server or an account that capture cannot work with, naming all that is wrong.

    Settings are the server's global ones; a session may have its own, which only its events show.

    Raises:
        ServerSetupError: A variable is not as it must be; the text has the statement that sets it.
        AccessDeniedError: Only privileges are missing; the text has the GRANT.
    """
    asked = queries.server_version(connection)
    wrong = setting_problems(asked, queries.global_variables(connection))
    missing = _privilege_problems(connection, asked)
    if problem := find_replica_problem(connection):
        wrong.append(f"{problem}.")
    if not wrong and not missing:
        return
    numbered = [f"({number}) {text}" for number, text in enumerate([*wrong, *missing], start=1)]
    kind = ServerSetupError if wrong else AccessDeniedError
    raise kind(f"this server cannot be captured yet: {' '.join(numbered)}", server=asked.text)


def setting_problems(of: queries.ServerVersion, values: dict[str, str]) -> list[str]:
    """Return a sentence for each variable that is not as it must be, with what sets it."""
    problems = []
    if values.get("log_bin", "OFF").upper() not in {"ON", "1"}:
        problems.append(f"{driver.LOG_IS_OFF}.")
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
    if problem := queries.find_engine_problem(values):
        problems.append(problem)
    if (value := values.get("binlog_format", "ROW")).upper() != "ROW":
        correction = _set(of, "binlog_format", "ROW")
        problems.append(f"binlog_format is {value}, statements hold no row changes: {correction}")
    return problems


def _privilege_problems(connection: Connection, asked: queries.ServerVersion) -> list[str]:
    problems = []
    if not _may(connection, "SHOW BINARY LOGS"):
        problems.append(_lacks(connection, "REPLICATION CLIENT", "reading where the log ends"))
    if asked.flavor is Flavor.MARIADB:
        may_dump = _may_dump_by_grants(connection)
    else:
        # Takes the same privilege; SHOW GRANTS would leave out what a role brings.
        may_dump = _may(connection, f"SHOW {'REPLICAS' if asked.says_replica else 'SLAVE HOSTS'}")
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


def _set(of: queries.ServerVersion, name: str, value: str) -> str:
    if of.flavor is Flavor.MYSQL and of.version >= (8,):
        return f"SET PERSIST {name} = {value};"
    return f"SET GLOBAL {name} = {value}; and {name}={value} under [mysqld] in the option file."


@driver_errors()
def check_databases(
    connection: Connection, captures: Callable[[str], bool], databases: Collection[str]
) -> None:
    """Refuse a server whose log leaves out databases that are captured.

    `databases` are looked at besides those that the account sees.

    Raises:
        ServerSetupError: Names the databases; or the server is a replica that logs nothing.
    """
    if problem := find_replica_problem(connection):
        raise ServerSetupError(problem)
    status = queries.log_status(connection)
    only, ignored = (
        set(filter(None, str(status.get(name) or "").split(",")))
        for name in ("Binlog_Do_DB", "Binlog_Ignore_DB")
    )
    if not only and not ignored:
        return
    seen = {database for database, _ in list_tables(connection)}
    candidates = {*databases, *seen, *ignored}
    # Where some are logged alone, the server does not look at those that it ignores.
    left_out = candidates - only if only else candidates & ignored
    if left_out := set(filter(captures, left_out)):
        raise ServerSetupError(
            "the server does not log changes of databases that are captured: correct binlog_do_db "
            "or binlog_ignore_db in its option file and restart it, then load their tables from "
            "new snapshots; or leave these databases out",
            databases=", ".join(sorted(left_out)),
        )


@driver_errors()
def find_replica_problem(connection: Connection) -> str:
    """Return what is wrong with a replica that does not log what it applies; empty if nothing.

    A node of a Galera cluster is one, too: it applies what the other nodes write.
    """
    values = queries.global_variables(connection)
    names = ("log_replica_updates", "log_slave_updates")
    name = next((candidate for candidate in names if candidate in values), None)
    if name is None or values[name].upper() != "OFF":
        return ""
    if values.get("wsrep_on", "OFF").upper() == "ON":
        what, other = "is a node of a Galera cluster", "another node that logs it"
    elif _is_replica(connection):
        what, other = "is a replica", "its source"
    else:
        return ""
    return (
        f"the server {what}, and does not log what it applies: put {name}=ON under [mysqld] and "
        f"restart it, then load the tables from new snapshots; or capture from {other}"
    )


def _is_replica(connection: Connection) -> bool:
    try:
        return bool(queries.replica_status(connection))
    except AccessDeniedError:
        # On MariaDB that takes REPLICA MONITOR; this says only whether it applies at the moment.
        return any(queries.global_status(connection, "Slaves_running").values())
