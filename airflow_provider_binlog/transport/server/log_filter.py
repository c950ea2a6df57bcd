"""Which changes a server leaves out of its log: those of some databases, or of its source.

Source: MySQL 9.7 reference manual, 19.1.6.4 Binary Logging Options and Variables, 19.2.5.1
Evaluation of Database-Level Replication and Binary Logging Options; MariaDB documentation,
Replication and Binary Log System Variables, Replication Filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import AccessDeniedError, ServerSetupError
from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.information_schema import list_tables
from airflow_provider_binlog.transport.server.load import replica_status
from airflow_provider_binlog.transport.server.queries import log_status
from airflow_provider_binlog.transport.server.result_sets import query
from airflow_provider_binlog.transport.server.version import global_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pymysql

    Connection = pymysql.Connection[Any]


@dataclass(frozen=True)
class LogFilter:
    """The databases whose changes a server logs.

    Attributes:
        only: `binlog_do_db`: if there are any, no others.
        ignored: `binlog_ignore_db`, which is not looked at if there are any of the first.
    """

    only: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def leaves_out(self, database: str) -> bool:
        """Whether changes of this database's tables are not logged."""
        return database not in self.only if self.only else database in self.ignored


@driver_errors()
def check_databases(
    connection: Connection, captures: Callable[[str], bool], databases: Collection[str]
) -> None:
    """Refuse a server whose log leaves out databases that are captured.

    Args:
        connection: To the server.
        captures: Whether tables of a database may be captured.
        databases: Names to look at, besides those that the account sees.

    Raises:
        ServerSetupError: Names the databases; or the server is a replica that logs nothing.
    """
    if problem := find_replica_problem(connection):
        raise ServerSetupError(problem)
    found = read_filter(connection)
    if found == LogFilter():
        return
    seen = {database for database, _ in list_tables(connection)}
    left_out = [
        each
        for each in sorted({*databases, *seen, *found.ignored})
        if found.leaves_out(each) and captures(each)
    ]
    if left_out:
        raise ServerSetupError(
            "the server does not log changes of databases that are captured: correct binlog_do_db "
            "or binlog_ignore_db in its option file and restart it, then load their tables from "
            "new snapshots; or leave these databases out",
            databases=", ".join(left_out),
        )


def read_filter(connection: Connection) -> LogFilter:
    """Return which databases a server logs."""
    status = log_status(connection)
    only, ignored = (
        frozenset(filter(None, str(status.get(name) or "").split(",")))
        for name in ("Binlog_Do_DB", "Binlog_Ignore_DB")
    )
    return LogFilter(only, ignored)


@driver_errors()
def find_replica_problem(connection: Connection) -> str:
    """Return what is wrong with a replica that does not log what it applies; empty if nothing.

    A node of a Galera cluster is one, too: it applies what the other nodes write.
    """
    values = global_variables(connection)
    names = ("log_replica_updates", "log_slave_updates")
    name = next((each for each in names if each in values), None)
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
        return bool(replica_status(connection))
    except AccessDeniedError:
        # On MariaDB that takes REPLICA MONITOR; this says only whether it applies at the moment.
        rows = query(connection, "SHOW GLOBAL STATUS WHERE Variable_name = 'Slaves_running'")
        return any(int(row["Value"]) for row in rows)
