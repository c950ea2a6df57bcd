"""Defaults of columns as catalogues print them: the value that they leave, or that it is not clear.

MySQL prints a literal bare, and marks an expression in EXTRA; MariaDB prints SQL. Both print in
utf8mb3: what it does not hold has become a `?`.

Source: mysql-server, sql/dd/dd_table.cc, prepare_default_value_string; mariadb, sql/sql_show.cc,
get_field_default_value; what MySQL 9.7 and MariaDB 10.11 and 11.8 print.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.manifest import ColumnDefault
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.transport.server.server_column import ServerColumn
    from airflow_provider_binlog.transport.server.version import ServerVersion

NULL = ColumnDefault(None)

# Before, MariaDB printed literals bare, and expressions no differently.
_PRINTS_SQL = (10, 2, 7)

_QUOTED = re.compile(r"'((?:[^'\\]|'')*)'", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_DECIMAL = re.compile(r"(-?)([0-9]{1,65})(?:\.([0-9]{1,38}))?")
_YEAR = re.compile(r"[0-9]{4}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?")
_TIME = re.compile(r"(-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?")
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_YEARS = range(1901, 2156)


def read_default(
    column: ServerColumn, printed: str | None, extra: str, of: ServerVersion
) -> ColumnDefault | None:
    """Return what an insert leaves in a column that it does not name; None if that is not certain.

    Args:
        column: The column.
        printed: Its COLUMN_DEFAULT.
        extra: Its EXTRA.
        of: The server that says so.
    """
    if column.generated or "DEFAULT_GENERATED" in extra.upper():
        return None
    if of.flavor is Flavor.MARIADB:
        if of.version < _PRINTS_SQL or printed is None:
            return None
        if printed.upper() == "NULL":
            return NULL if column.nullable else None
        literal = _unquoted(column, printed)
    elif printed is None:
        return NULL if column.nullable else None
    else:
        literal = printed
    read = _READERS.get(column.data_type)
    value = None if read is None or literal is None else read(column, literal)
    return None if value is None else ColumnDefault(value)


def _unquoted(column: ServerColumn, printed: str) -> str | None:
    """Return a literal of SQL; None for an expression, and for one with a backslash."""
    match = _QUOTED.fullmatch(printed)
    if match is not None:
        return match[1].replace("''", "'")
    return printed if column.data_type in _BARE else None


def _integer(column: ServerColumn, literal: str) -> str | None:
    if not _INTEGER.fullmatch(literal):
        return None
    number, bits = int(literal), _BITS[column.data_type]
    least = 0 if column.unsigned else -(1 << bits - 1)
    return str(number) if least <= number < least + (1 << bits) else None


def _decimal(column: ServerColumn, literal: str) -> str | None:
    match = _DECIMAL.fullmatch(literal)
    if match is None or column.precision is None or column.scale is None:
        return None
    sign, whole, fraction = match[1], match[2].lstrip("0"), match[3] or ""
    if len(whole) > column.precision - column.scale or len(fraction) > column.scale:
        return None
    padded = fraction.ljust(column.scale, "0")
    if not (whole + padded).strip("0"):
        sign = ""
    return sign + (whole or "0") + (f".{padded}" if column.scale else "")


def _text(column: ServerColumn, literal: str) -> str | None:
    if "?" in literal or column.charset in (None, "binary"):
        return None
    # As it is stored: the spaces at its end are not.
    return literal.rstrip(" ") if column.data_type == "char" else literal


def _enum(column: ServerColumn, literal: str) -> str | None:
    return literal if literal in (column.labels or ()) and "?" not in literal else None


def _set(column: ServerColumn, literal: str) -> str | None:
    known = "?" not in literal and set(literal.split(",")) <= {*(column.labels or ())}
    return literal if known or (not literal and column.labels) else None


def _year(_: ServerColumn, literal: str) -> str | None:
    return literal if _YEAR.fullmatch(literal) and int(literal) in _YEARS else None


def _date(_: ServerColumn, literal: str) -> str | None:
    return literal if _DATE.fullmatch(literal) and _is_real(date.fromisoformat, literal) else None


def _datetime(column: ServerColumn, literal: str) -> str | None:
    match = _DATETIME.fullmatch(literal)
    if match is None or not _is_real(datetime.fromisoformat, match[1]):
        return None
    return _with_fraction(column, match[1], match[2] or "")


def _time(column: ServerColumn, literal: str) -> str | None:
    match = _TIME.fullmatch(literal)
    return None if match is None else _with_fraction(column, match[1], match[2] or "")


def _with_fraction(column: ServerColumn, whole: str, fraction: str) -> str | None:
    digits = column.fsp
    if digits is None or len(fraction) > digits:
        return None
    return f"{whole}.{fraction.ljust(digits, '0')}" if digits else whole


def _is_real(read: Callable[[str], object], text: str) -> bool:
    """Whether it is none of the zero dates, which are staged as other values, or as none."""
    try:
        read(text)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[ServerColumn, str], str | None]] = {
    **dict.fromkeys(_BITS, _integer),
    "decimal": _decimal,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _text),
    "enum": _enum,
    "set": _set,
    "year": _year,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
}
_BARE = frozenset({*_BITS, "decimal", "year"})
