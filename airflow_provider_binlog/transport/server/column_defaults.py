"""Defaults of columns as information_schema prints them, or that they are not certain.

MySQL prints a literal bare, and marks an expression in EXTRA; MariaDB prints SQL. Both print in
utf8mb3: a character that it does not hold is printed as `?`.

Source: mysql-server, sql/dd/dd_table.cc, prepare_default_value_string; mariadb, sql/sql_show.cc,
get_field_default_value; what MySQL 9.7 and MariaDB 10.11 and 11.8 print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Default
from airflow_provider_binlog.sql import defaults
from airflow_provider_binlog.sql.column_types import ENUMS, INTEGERS, STRINGS, TEXTS, SqlType
from airflow_provider_binlog.sql.lexer import split_words
from airflow_provider_binlog.sql.literals import Literal, LiteralKind, read_literal
from airflow_provider_binlog.sql.session import STRICT_ALL_TABLES, Session

if TYPE_CHECKING:
    from airflow_provider_binlog.sql.partial_schema import Facts
    from airflow_provider_binlog.transport.server.version import ServerVersion

# Before, MariaDB printed literals bare, and expressions no differently.
_PRINTS_SQL = (10, 2, 7)

_NUMBERS = frozenset({*INTEGERS, "decimal", "year"})
_TEXTS = frozenset({*STRINGS, *TEXTS, *ENUMS})
_READ = _NUMBERS | _TEXTS | {"date", "datetime", "time"}


def read_default(
    column: Facts, printed: str | None, extra: str, of: ServerVersion
) -> Default | None:
    """Return what an insert leaves in a column that it does not name; None if that is not certain.

    Args:
        column: What is known of the column besides.
        printed: Its COLUMN_DEFAULT.
        extra: Its EXTRA.
        of: The server that says so.
    """
    if column.generated or "DEFAULT_GENERATED" in extra.upper():
        return None
    session = Session(
        of.flavor,
        sql_mode=STRICT_ALL_TABLES,
        connection_charset="utf8mb4",
        client_charset="utf8mb4",
    )
    if of.flavor is Flavor.MARIADB:
        if of.version < _PRINTS_SQL or printed is None:
            return None
        literal = _literal(printed, session)
    elif printed is None:
        literal = Literal(LiteralKind.NULL)
    else:
        is_number = column.data_type in _NUMBERS
        literal = Literal(LiteralKind.NUMBER if is_number else LiteralKind.STRING, printed)
    if literal.kind is LiteralKind.NULL:
        return NULL if column.nullable else None
    if column.data_type not in _READ or (
        column.data_type in _TEXTS and not _is_exact(column, literal)
    ):
        return None
    found = defaults.read_default(_type(column), literal, session)
    return found if isinstance(found, Default) else None


def _literal(printed: str, session: Session) -> Literal:
    readings = [] if "\\" in printed else split_words(printed, session)
    return read_literal(readings[0]) if readings else Literal(LiteralKind.EXPRESSION)


def _is_exact(column: Facts, literal: Literal) -> bool:
    is_text = literal.kind is LiteralKind.STRING and column.charset not in (None, "binary")
    return is_text and "?" not in literal.text


def _type(column: Facts) -> SqlType:
    is_decimal = column.data_type == "decimal"
    return SqlType(
        column.data_type or "",
        column.precision if is_decimal else None,
        column.scale if is_decimal else None,
        column.fsp or 0,
        bool(column.unsigned),
        column.charset,
        column.values,
    )
