"""Airflow's connections: the hook for a server with its binary log."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from typing import Any

import pymysql
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_binlog.errors import BinlogError, ConnectionNotFoundError
from airflow_provider_binlog.sources.binlog_source import DEFAULT_CONN_ID
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.spark.target.postgresql.settings import PostgresSettings


class BinlogHook(BaseHook):
    """Connect to a MySQL or MariaDB server as a replica does.

    .. seealso:: ``docs/connection.md``: the connection's fields and its account's privileges.

    :param binlog_conn_id: Id of a connection of type ``binlog``.
    """

    conn_name_attr = "binlog_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "binlog"
    hook_name = "MySQL / MariaDB binary log"

    def __init__(self, binlog_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.binlog_conn_id = binlog_conn_id

    @cached_property
    def settings(self) -> ConnectionSettings:
        """The connection's fields, checked.

        Raises:
            ConnectionNotFoundError: There is no such connection.
            ConfigurationError: A field cannot be used as given.
        """
        refusal = "the connection of the source does not exist"
        return read_settings(find_connection(self.binlog_conn_id, refusal))

    def get_conn(self) -> pymysql.Connection[Any]:
        """Return a new connection; the caller closes it."""
        return self.settings.connect()

    def test_connection(self) -> tuple[bool, str]:
        """Return whether capture can work with this connection, and what is missing or unusual."""
        from airflow_provider_binlog.transport.server import information_schema, queries, setup

        try:
            with closing(self.get_conn()) as connection:
                findings = setup.list_findings(connection)
                # First, since a server without a log has no identity.
                setup.raise_errors(findings, queries.server_version(connection))
                identity = queries.identify(connection)
                end = queries.log_end(connection)
                tables = information_schema.describe_tables(connection)
                if (unreadable := setup.find_unreadable(connection)) is not None:
                    return False, str(unreadable)
        except BinlogError as error:
            return False, str(error)
        server = f"{identity.flavor.value} server {identity.server}"
        warnings = [str(finding) for finding in findings if finding.level is setup.Level.WARNING]
        lines = [f"{server}, log ends at {end}, tables: {tables}", *warnings]
        return True, "; ".join(lines)


def read_settings(connection: Connection) -> ConnectionSettings:
    """Return the fields of an Airflow connection, checked."""
    return ConnectionSettings.from_fields(
        host=connection.host,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        extra=connection.extra_dejson,
    )


def read_postgres_settings(conn_id: str) -> PostgresSettings:
    """Return the fields of an Airflow connection to a PostgreSQL database, checked."""
    refusal = "the connection of the PostgreSQL database does not exist"
    connection = find_connection(conn_id, refusal)
    return PostgresSettings.from_fields(
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        login=connection.login,
        password=connection.password,
        extra=connection.extra_dejson,
    )


def find_connection(conn_id: str, refusal: str) -> Connection:
    """Return a connection; ConnectionNotFoundError says the refusal if Airflow shows none."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise ConnectionNotFoundError(refusal, conn_id=conn_id) from error
