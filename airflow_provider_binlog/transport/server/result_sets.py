"""Statements asked over a PyMySQL connection: rows by column name, and our errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymysql.cursors import Cursor

from airflow_provider_binlog.transport.server.driver import driver_errors

if TYPE_CHECKING:
    import pymysql

Row = dict[str, Any]


def query(connection: pymysql.Connection[Any], statement: str, *arguments: object) -> list[Row]:
    """Return the rows that `statement` gives, each as a dict by column name.

    Raises:
        AccessDeniedError: The account lacks a privilege.
        ConnectionLostError: The connection ended, or the server is shutting down.
        ServerSetupError: The statement needs the binary log, and it is off.
        FormatError: The answer breaks the protocol.
        SourceError: Any other answer that is an error.
    """
    # Not the connection's own cursor class, which may give dicts, or stream.
    with driver_errors(statement=statement), connection.cursor(Cursor) as cursor:
        cursor.execute(statement, arguments or None)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
