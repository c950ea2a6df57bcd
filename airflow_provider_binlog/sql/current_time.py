"""CURRENT_TIMESTAMP as the default of an added column: one value, in all rows that were there.

That is the time at which the statement started, which the log has: TIMESTAMP as it is, DATETIME in
the session's time zone, if that is an offset.

Source: mysql-server, sql/sql_table.cc, mysql_alter_table, and sql/field.cc,
evaluate_insert_default_function; mariadb, sql/sql_table.cc, the same.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_binlog.schema import Default

if TYPE_CHECKING:
    from airflow_provider_binlog.sql.column_types import SqlType
    from airflow_provider_binlog.sql.literals import Literal
    from airflow_provider_binlog.sql.session import Session

# As the words of an expression are shown, with a space between each two.
_NOW = re.compile(
    r"(?:NOW \( |(?:CURRENT_TIMESTAMP|LOCALTIMESTAMP|LOCALTIME)(?: \( )?)(?:([0-6]) )?\)?",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)", re.ASCII)


def read_current_time(of: SqlType, literal: Literal, session: Session) -> Default | None:
    """Return what rows from before a column hold in it; None where the log does not say.

    Args:
        of: The column's type.
        literal: Of its DEFAULT clause: an expression.
        session: That ran the statement.
    """
    match = _NOW.fullmatch(literal.text)
    if match is None or int(match[1] or 0) != of.fsp or session.seconds is None:
        return None
    offset = timedelta(0) if of.name == "timestamp" else _offset(session.time_zone)
    if offset is None or of.name not in ("timestamp", "datetime"):
        return None
    fraction = ""
    if of.fsp:
        if session.microseconds is None:
            return None
        fraction = f".{session.microseconds:06}"[: 1 + of.fsp]
    moment = datetime.fromtimestamp(session.seconds, UTC) + offset
    return Default(f"{moment:%Y-%m-%d %H:%M:%S}{fraction}")


def _offset(time_zone: str | None) -> timedelta | None:
    """Return how far a time zone is from UTC; None for one that is not the same at all times."""
    if time_zone == "UTC":
        return timedelta(0)
    match = _OFFSET.fullmatch(time_zone or "")
    if match is None:
        return None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return -offset if match[1] == "-" else offset
