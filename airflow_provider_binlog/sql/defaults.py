"""The value that a default leaves in a column: as SELECT prints it, or why it is not certain.

`information_schema` and DEFAULT clauses share this: both are literals of a known type.

Source: mysql-server, sql/field.cc, the store functions, and sql/sql_table.cc,
prepare_create_field; mariadb, the same; MySQL 9.7 reference manual, 13.6 Data Type Default Values.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Default, UnknownDefault
from airflow_provider_binlog.sql.columns import (
    BLOBS,
    BYTES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    STRINGS,
    TEXTS,
    SqlType,
)
from airflow_provider_binlog.sql.lexer import EMPTY_STRING_IS_NULL
from airflow_provider_binlog.sql.literals import Literal, LiteralKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.sql.lexer import Session

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_INTEGER_HEX_DIGITS = 16
_DECIMAL = re.compile(r"(-?)([0-9]{1,65})(?:\.([0-9]{1,38}))?")
_PRINTED = re.compile(r"0|-?[1-9][0-9]{0,17}")
_YEAR = re.compile(r"[0-9]{4}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})( [0-9]{2}:[0-9]{2}:[0-9]{2})?(?(2)(?:\.([0-9]+))?)"
)
_TIME = re.compile(r"(-?)([0-9]{2,3}):([0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_YEARS = range(1901, 2156)
_HOURS_MAX = 838
_FLOAT_DIGITS = {"float": 6, "double": 15}
_FLOAT_ZEROS = 3
# Character sets in which a byte below 128 is not the ASCII character, and those that hold Unicode.
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_UNICODE = frozenset({"utf8mb4", "utf8mb3", "utf8", *_WIDE})
_NOT_ASCII = _WIDE | {"swe7"}
_INTRODUCERS = frozenset({"ascii", "latin1", "utf8", "utf8mb3", "utf8mb4", "binary"})

_ROUNDED = "its literal does not fit its type as it is"


def read_default(of: SqlType, literal: Literal, session: Session) -> Default | UnknownDefault:
    """Return the value that a literal leaves in a column.

    Args:
        of: The column's type.
        literal: Of its DEFAULT clause.
        session: That wrote it.
    """
    if literal.kind is LiteralKind.NULL:
        return NULL
    if literal.kind is LiteralKind.EXPRESSION:
        return UnknownDefault(f"it is the result of an expression: {literal.text}")
    if "\ufffd" in literal.text:
        return UnknownDefault("its literal has characters that cannot be read")
    if literal.kind is LiteralKind.STRING and not literal.text and _empty_is_null(session):
        return UnknownDefault("sql_mode has EMPTY_STRING_IS_NULL")
    read = _READERS.get(of.name)
    value = None if read is None else read(of, literal, session)
    if value is None:
        return UnknownDefault(f"{_ROUNDED}: {literal.text[:40]!r} for {of.name}")
    return Default(value)


def implicit_default(of: SqlType, session: Session) -> Default | UnknownDefault:
    """Return what a column of this type holds that is NOT NULL and has no DEFAULT clause."""
    value = _IMPLICIT.get(of.name)
    if of.name == "json":
        value = "null" if session.flavor is Flavor.MYSQL else ""
    elif of.name in NUMBERS and of.scale:
        value = f"0.{'0' * of.scale}"
    elif of.name == "binary" and of.length is not None:
        value = "00" * of.length
    elif of.name == "bit":
        value = "00" * _bit_bytes(of)
    elif of.name == "enum" and of.values:
        value = of.values[0]
    elif of.name == "time" and of.fsp:
        value = f"00:00:00.{'0' * of.fsp}"
    if value is None:
        return UnknownDefault(f"it is NOT NULL without a default, of type {of.name}")
    return Default(value)


_IMPLICIT = {
    **dict.fromkeys(NUMBERS, "0"),
    **dict.fromkeys((*STRINGS, *TEXTS, *BLOBS, "varbinary", "set"), ""),
    "year": "0000",
    "time": "00:00:00",
    "inet4": "0.0.0.0",  # noqa: S104
    "inet6": "::",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def _empty_is_null(session: Session) -> bool:
    return session.flavor is Flavor.MARIADB and bool(session.has(EMPTY_STRING_IS_NULL))


def _integer(of: SqlType, literal: Literal, session: Session) -> str | None:
    text = literal.text
    if literal.kind is LiteralKind.BYTES:
        known = session.flavor is Flavor.MYSQL and 0 < len(text) <= _INTEGER_HEX_DIGITS
        text = str(int(text, 16)) if known else ""
    if not _INTEGER.fullmatch(text):
        return None
    number, bits = int(text), 8 * INTEGERS[of.name]
    least = 0 if of.unsigned else -(1 << bits - 1)
    return str(number) if least <= number < least + (1 << bits) else None


def _decimal(of: SqlType, literal: Literal, _: Session) -> str | None:
    match = _DECIMAL.fullmatch(literal.text)
    is_bytes = literal.kind is LiteralKind.BYTES
    if match is None or is_bytes or of.length is None or of.scale is None:
        return None
    sign, whole, fraction = match[1], match[2].lstrip("0"), match[3] or ""
    if len(whole) > of.length - of.scale or len(fraction) > of.scale:
        return None
    padded = fraction.ljust(of.scale, "0")
    if not (whole + padded).strip("0"):
        sign = ""
    if sign and of.unsigned:
        return None
    return sign + (whole or "0") + (f".{padded}" if of.scale else "")


def _float(of: SqlType, literal: Literal, _: Session) -> str | None:
    """Return a number whose digits the type holds: SELECT prints it as it is."""
    match = _DECIMAL.fullmatch(literal.text)
    if match is None or literal.kind is LiteralKind.BYTES:
        return None
    sign, whole, fraction = match[1], match[2].lstrip("0"), (match[3] or "").rstrip("0")
    digits = (whole + fraction).lstrip("0")
    small = not whole and len(fraction) - len(fraction.lstrip("0")) >= _FLOAT_ZEROS
    if len(whole + fraction) > _FLOAT_DIGITS[of.name] or small or (sign and of.unsigned):
        return None
    if of.scale is not None:
        if of.length is None or len(whole) > of.length - of.scale or len(fraction) > of.scale:
            return None
        fraction = fraction.ljust(of.scale, "0")
    return (sign if digits else "") + (whole or "0") + (f".{fraction}" if fraction else "")


def _text(of: SqlType, literal: Literal, session: Session) -> str | None:
    text = _characters(of, literal, session)
    if literal.kind is LiteralKind.NUMBER and not _PRINTED.fullmatch(literal.text):
        return None
    if text is None or (of.length is not None and len(text) > of.length):
        return None
    # As it is stored: the spaces at its end are not.
    return text.rstrip(" ") if of.name == "char" else text


def _characters(of: SqlType, literal: Literal, session: Session) -> str | None:
    """Return the text of a literal in the column's character set, if none was lost on the way."""
    if literal.kind is LiteralKind.BYTES:
        data = bytes.fromhex(literal.text)
        known = of.charset is not None and of.charset not in _NOT_ASCII
        return data.decode("ascii") if known and data.isascii() else None
    if literal.text.isascii():
        if of.charset == "swe7" or literal.introducer not in {None, *_INTRODUCERS}:
            return None
        return literal.text
    if literal.introducer is not None or literal.in_brackets:
        return None
    # The server refuses a default that its column does not hold, but not one that the connection
    # does not: that one has question marks.
    if session.connection_charset == session.client_charset is not None:
        return literal.text
    return literal.text if session.connection_charset in _UNICODE else None


def _bytes(of: SqlType, literal: Literal, session: Session) -> str | None:
    if literal.kind is LiteralKind.NUMBER:
        return None
    if literal.kind is LiteralKind.BYTES:
        data = bytes.fromhex(literal.text)
    elif literal.text.isascii():
        plain = session.connection_charset not in _NOT_ASCII
        if not plain or literal.introducer not in {None, *_INTRODUCERS}:
            return None
        data = literal.text.encode()
    elif literal.introducer is None and session.connection_charset in ("utf8mb4", "utf8mb3"):
        data = literal.text.encode()
    else:
        return None
    if of.length is not None and len(data) > of.length:
        return None
    return (data.ljust(of.length or 0, b"\0") if of.name == "binary" else data).hex()


def _bit(of: SqlType, literal: Literal, _: Session) -> str | None:
    if literal.kind is LiteralKind.BYTES:
        number = int(literal.text or "0", 16)
    elif literal.kind is LiteralKind.NUMBER and literal.text.isdecimal():
        number = int(literal.text)
    else:
        return None
    return f"{number:0{2 * _bit_bytes(of)}x}" if number < 1 << (of.length or 1) else None


def _bit_bytes(of: SqlType) -> int:
    return ((of.length or 1) + 7) // 8


def _enum(of: SqlType, literal: Literal, session: Session) -> str | None:
    values = of.values or ()
    if literal.kind is not LiteralKind.STRING or literal.text not in values:
        return None
    return literal.text if _are_distinct(values, session) else None


def _set(of: SqlType, literal: Literal, session: Session) -> str | None:
    values, chosen = of.values or (), literal.text.split(",") if literal.text else []
    if literal.kind is not LiteralKind.STRING or not values or not set(chosen) <= set(values):
        return None
    if not _are_distinct(values, session):
        return None
    return ",".join(each for each in values if each in chosen)


def _are_distinct(values: tuple[str, ...], session: Session) -> bool:
    """Whether no two values are one to the column's collation: a strict server refuses that."""
    if session.is_strict:
        return True
    folded = {each.casefold() for each in values}
    return len(folded) == len(values) and all(map(str.isascii, values))


def _year(_: SqlType, literal: Literal, __: Session) -> str | None:
    text = literal.text
    if literal.kind is LiteralKind.BYTES or not _YEAR.fullmatch(text):
        return None
    return text if int(text) in _YEARS else None


def _date(_: SqlType, literal: Literal, __: Session) -> str | None:
    text = literal.text
    if literal.kind is not LiteralKind.STRING or not _DATE.fullmatch(text):
        return None
    return text if _is_real(date.fromisoformat, text) else None


def _datetime(of: SqlType, literal: Literal, _: Session) -> str | None:
    match = _DATETIME.fullmatch(literal.text)
    if literal.kind is not LiteralKind.STRING or match is None:
        return None
    whole = match[1] + (match[2] or " 00:00:00")
    if not _is_real(datetime.fromisoformat, whole):
        return None
    return _with_fraction(of, whole, match[3] or "")


def _time(of: SqlType, literal: Literal, _: Session) -> str | None:
    match = _TIME.fullmatch(literal.text)
    if literal.kind is not LiteralKind.STRING or match is None or int(match[2]) > _HOURS_MAX:
        return None
    fraction = match[4] or ""
    zero = not (match[2] + match[3] + fraction).strip("0:")
    sign = "" if zero else match[1]
    return _with_fraction(of, f"{sign}{int(match[2]):02}:{match[3]}", fraction)


def _with_fraction(of: SqlType, whole: str, fraction: str) -> str | None:
    if len(fraction) > of.fsp:
        return None
    return f"{whole}.{fraction.ljust(of.fsp, '0')}" if of.fsp else whole


def _is_real(read: Callable[[str], object], text: str) -> bool:
    """Whether it is none of the zero dates, which are staged as other values, or as NULL."""
    try:
        read(text)
    except ValueError:
        return False
    return True


def _uuid(_: SqlType, literal: Literal, __: Session) -> str | None:
    is_uuid = literal.kind is LiteralKind.STRING and _UUID.fullmatch(literal.text)
    return literal.text.lower() if is_uuid else None


def _json(of: SqlType, literal: Literal, session: Session) -> str | None:
    if session.flavor is Flavor.MARIADB:
        return _text(of, literal, session)
    is_empty = literal.kind is LiteralKind.STRING and literal.text in ("{}", "[]", "null")
    return literal.text if is_empty else None


_READERS: dict[str, Callable[[SqlType, Literal, Session], str | None]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys((*STRINGS, *TEXTS), _text),
    **dict.fromkeys(BYTES, _bytes),
    "decimal": _decimal,
    "bit": _bit,
    "enum": _enum,
    "set": _set,
    "year": _year,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
    "uuid": _uuid,
    "json": _json,
}


# ------------------------------------------------------------------- current time

# As the words of an expression are shown, with a space between each two.
_NOW_CALL = re.compile(
    r"(?:NOW \( |(?:CURRENT_TIMESTAMP|LOCALTIMESTAMP|LOCALTIME)(?: \( )?)(?:([0-6]) )?\)?",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)", re.ASCII)


def read_current_time(of: SqlType, literal: Literal, session: Session) -> Default | None:
    """Return what rows from before a column hold in it; None where the log does not say.

    CURRENT_TIMESTAMP is one value in all of them: the time at which the statement started, which
    the log has; TIMESTAMP as it is, DATETIME in the session's time zone, if that is an offset.
    Source: mysql-server, sql/sql_table.cc, mysql_alter_table; mariadb, the same.

    Args:
        of: The column's type.
        literal: Of its DEFAULT clause: an expression.
        session: That ran the statement.
    """
    match = _NOW_CALL.fullmatch(literal.text)
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
