"""Statements asked over a PyMySQL connection: rows by column name, and our errors."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pymysql.cursors import Cursor

from airflow_provider_binlog.errors import FormatError, SourceError
from airflow_provider_binlog.transport.server.driver import driver_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@contextmanager
def ended_by(connection: pymysql.Connection[Any], statement: str) -> Iterator[None]:
    """Execute a statement after a body, such as ROLLBACK; a connection that is closed needs none.

    An error of the body is raised, whatever the statement does then: it may be the connection's.
    """
    try:
        yield
    except BaseException:
        if connection.open:
            with suppress(FormatError, SourceError):
                query(connection, statement)
        raise
    if connection.open:
        query(connection, statement)
