"""Statements asked over a PyMySQL connection: rows by column name, and our errors."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from airflow_provider_binlog.errors import (
    AccessDeniedError,
    ConnectionLostError,
    ServerSetupError,
    SourceError,
)

Row = dict[str, Any]

LOG_IS_OFF = "the server writes no binary log: put log_bin=binlog under [mysqld] and restart it"

# Numbers that PyMySQL, or its type stubs, have no name for. Source: messages_to_clients.txt of
# MySQL, errmsg-utf8.txt of MariaDB.
_ACCESS_DENIED_NO_PASSWORD = 1698
_MUST_CHANGE_PASSWORD = 1820
_MUST_CHANGE_PASSWORD_LOGIN = 1862
_CONNECTION_KILLED = 1927  # MariaDB
_ACCOUNT_LOCKED = 3118  # MySQL
_ACCOUNT_LOCKED_MARIADB = 4151
_CLIENT_INTERACTION_TIMEOUT = 4031  # MySQL: idle for wait_timeout

_DENIED = frozenset(
    {
        ER.DBACCESS_DENIED_ERROR,
        ER.ACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
        _MUST_CHANGE_PASSWORD,
        _ACCESS_DENIED_NO_PASSWORD,
        _MUST_CHANGE_PASSWORD_LOGIN,
        _ACCOUNT_LOCKED,
        _ACCOUNT_LOCKED_MARIADB,
    }
)
_PASSING = frozenset(
    {
        ER.CON_COUNT_ERROR,
        ER.SERVER_SHUTDOWN,
        ER.NORMAL_SHUTDOWN,
        ER.TOO_MANY_USER_CONNECTIONS,
        ER.USER_LIMIT_REACHED,
        ER.QUERY_INTERRUPTED,
        _CONNECTION_KILLED,
        _CLIENT_INTERACTION_TIMEOUT,
    }
)
_CLIENT_ERRORS = range(2000, 3000)
"""PyMySQL's own numbers: it could not connect, or the connection ended."""


def query(connection: pymysql.Connection[Any], statement: str, *arguments: object) -> list[Row]:
    """Return the rows that `statement` gives, each as a dict by column name.

    Raises:
        AccessDeniedError: The account lacks a privilege.
        ConnectionLostError: The connection ended, or the server is shutting down.
        ServerSetupError: The statement needs the binary log, and it is off.
        SourceError: Any other answer that is an error.
    """
    try:
        # Not the connection's own cursor class, which may give dicts, or stream.
        with connection.cursor(Cursor) as cursor:
            cursor.execute(statement, arguments or None)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except (pymysql.MySQLError, OSError) as error:
        raise translate(error, statement=statement) from error


def translate(error: Exception, **context: object) -> SourceError:
    """Return what an error of PyMySQL means in our words."""
    code, text = _code_and_text(error)
    context = {**context, "code": code} if code else context
    if code in _DENIED:
        return AccessDeniedError(text, **context)
    if code == ER.NO_BINARY_LOGGING:
        return ServerSetupError(LOG_IS_OFF, **context)
    client_side = isinstance(error, (pymysql.InterfaceError, OSError)) or code in _CLIENT_ERRORS
    if client_side or code in _PASSING:
        return ConnectionLostError(text or "the connection is closed", **context)
    return SourceError(text, **context)


def _code_and_text(error: Exception) -> tuple[int, str]:
    match error.args:
        case (int(code), str(text), *_):
            return code, text
        case _:
            return 0, str(error)
