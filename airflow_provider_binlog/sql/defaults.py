"""DEFAULT clauses: the literal, and the value it leaves in a column, as SELECT prints it.

Or why the value is not certain. `information_schema` prints the same literals.

Source: mysql-server, sql/sql_yacc.yy, now_or_signed_literal, sql/field.cc, the store functions, and
sql/sql_table.cc, prepare_create_field; mariadb, the same, and column_default_expr; MySQL 9.7
reference manual, 11.1 Literal Values, and 13.6 Data Type Default Values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Default, UnknownDefault
from airflow_provider_binlog.sql import columns as types
from airflow_provider_binlog.sql.lexer import EMPTY_STRING_IS_NULL, Session, Word, keyword


class LiteralKind(StrEnum):
    """Type of a literal."""

    NULL = "null"
    NUMBER = "number"
    """Digits, perhaps signed and with a point, `text` without the plus sign."""
    STRING = "string"
    BYTES = "bytes"
    """Of `x'41'`, `0x41` and `b'1'`: `text` is hex digits, two for each byte."""
    EXPRESSION = "expression"
    """Anything else: `text` is the beginning of it."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal, or any other expression; `text` is its content, as the kind has it."""

    kind: LiteralKind
    text: str = ""


NULL_LITERAL = Literal(LiteralKind.NULL)

# As words, with a space between each two.
_NUMBER = re.compile(r"(?:([-+]) )?(\d+)?(?: ?\.(?: (\d+))?)?", re.ASCII)
_HEX_NUMBER = re.compile(r"0x([0-9A-Fa-f]+)", re.ASCII)
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*", re.ASCII)
_BITS = re.compile(r"[01]*")
_STRINGS = ("'", '"')
_WORDS = {
    "NULL": NULL_LITERAL,
    "TRUE": Literal(LiteralKind.NUMBER, "1"),
    "FALSE": Literal(LiteralKind.NUMBER, "0"),
}
_SHOWN = 40


def read_literal(words: Sequence[Word]) -> Literal:
    """Return what the words of a DEFAULT clause are, all of them, perhaps in brackets."""
    in_brackets = len(words) > 1 and words[0] == Word("(") and words[-1] == Word(")")
    literal = _read(words[1:-1] if in_brackets else words)
    # To MySQL it is an expression in brackets, of which the connection's character set may be lost.
    if literal is None or (in_brackets and not literal.text.isascii()):
        text = " ".join(word.text for word in words)[:_SHOWN]
        return Literal(LiteralKind.EXPRESSION, text)
    return literal


def _read(words: Sequence[Word]) -> Literal | None:
    quotes = [word.quote for word in words]
    text = " ".join(word.text for word in words)
    if len(words) == 1 and quotes[0] in _STRINGS:
        return Literal(LiteralKind.STRING, text)
    if len(words) == 2 and not quotes[0] and quotes[1] in _STRINGS:
        return _read_bytes(keyword(words[0]), words[1].text)
    if any(quotes):
        return None
    if (digits := _HEX_NUMBER.fullmatch(text)) is not None:
        return Literal(LiteralKind.BYTES, digits[1].lower().zfill(len(digits[1]) + 1 & ~1))
    number = _NUMBER.fullmatch(text)
    if number is None or not (number[2] or number[3]):
        return _WORDS.get(text.upper()) if text.isascii() else None
    sign, fraction = "-" if number[1] == "-" else "", f".{number[3]}" if number[3] else ""
    return Literal(LiteralKind.NUMBER, f"{sign}{number[2] or 0}{fraction}")


def _read_bytes(prefix: str, text: str) -> Literal | None:
    if prefix == "X" and _HEX.fullmatch(text):
        return Literal(LiteralKind.BYTES, text.lower())
    if prefix == "B" and _BITS.fullmatch(text):
        size = (len(text) + 7) // 8 * 2
        return Literal(LiteralKind.BYTES, f"{int(text, 2):0{size}x}" if text else "")
    return None


# ------------------------------------------------------------------- the value in a column

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_DECIMAL = re.compile(r"(-?)([0-9]{1,65})(?:\.([0-9]{1,38}))?")
_PRINTED = re.compile(r"0|-?[1-9][0-9]{0,17}")
_YEAR = re.compile(r"[0-9]{4}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})( [0-9]{2}:[0-9]{2}:[0-9]{2})?(?(2)(?:\.([0-9]+))?)"
)
_TIME = re.compile(r"(-?)([0-9]{2,3}):([0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?")
_YEARS = range(1901, 2156)
_HOURS_MAX = 838
_FLOAT_DIGITS = {"float": 6, "double": 15}
_FLOAT_ZEROS = 3
# Character sets in which a byte below 128 is not the ASCII character, and those that hold Unicode.
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_UNICODE = frozenset({"utf8mb4", "utf8mb3", "utf8", *_WIDE})
_NOT_ASCII = _WIDE | {"swe7"}

_ROUNDED = "its literal does not fit its type as it is"


def read_default(of: types.SqlType, literal: Literal, session: Session) -> Default | UnknownDefault:
    """Return the value that a literal of a DEFAULT clause leaves in a column."""
    if literal.kind is LiteralKind.NULL:
        return NULL
    if literal.kind is LiteralKind.EXPRESSION:
        return UnknownDefault(f"it is the result of an expression: {literal.text}")
    if "\ufffd" in literal.text:
        return UnknownDefault("its literal has characters that cannot be read")
    oracle = session.flavor is Flavor.MARIADB and session.has(EMPTY_STRING_IS_NULL)
    if oracle and literal.kind is LiteralKind.STRING and not literal.text:
        return UnknownDefault("sql_mode has EMPTY_STRING_IS_NULL")
    of_bytes = literal.kind is LiteralKind.BYTES and of.name not in ("bit", *types.BYTES)
    read = None if of_bytes else _READERS.get(of.name)
    value = None if read is None else read(of, literal, session)
    if value is None:
        return UnknownDefault(f"{_ROUNDED}: {literal.text[:_SHOWN]!r} for {of.name}")
    return Default(value)


def implicit_default(of: types.SqlType, session: Session) -> Default | UnknownDefault:
    """Return what a column of this type holds that is NOT NULL and has no DEFAULT clause."""
    value = _IMPLICIT.get(of.name)
    if of.name == "json":
        value = "null" if session.flavor is Flavor.MYSQL else ""
    elif of.name in types.NUMBERS and of.scale:
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
    **dict.fromkeys(types.NUMBERS, "0"),
    **dict.fromkeys((*types.STRINGS, *types.TEXTS, *types.BLOBS, "varbinary", "set"), ""),
    "year": "0000",
    "time": "00:00:00",
}


def _integer(of: types.SqlType, literal: Literal, _: Session) -> str | None:
    if not _INTEGER.fullmatch(literal.text):
        return None
    number, bits = int(literal.text), 8 * types.INTEGERS[of.name]
    least = 0 if of.unsigned else -(1 << bits - 1)
    return str(number) if least <= number < least + (1 << bits) else None


def _decimal(of: types.SqlType, literal: Literal, _: Session) -> str | None:
    match = _DECIMAL.fullmatch(literal.text)
    if match is None or of.length is None or of.scale is None:
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


def _float(of: types.SqlType, literal: Literal, _: Session) -> str | None:
    """Return a number whose digits the type holds: SELECT prints it as it is."""
    match = _DECIMAL.fullmatch(literal.text)
    if match is None:
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


def _text(of: types.SqlType, literal: Literal, session: Session) -> str | None:
    text = _characters(of, literal, session)
    if literal.kind is LiteralKind.NUMBER and not _PRINTED.fullmatch(literal.text):
        return None
    if text is None or (of.length is not None and len(text) > of.length):
        return None
    # As it is stored: the spaces at its end are not.
    return text.rstrip(" ") if of.name == "char" else text


def _characters(of: types.SqlType, literal: Literal, session: Session) -> str | None:
    """Return the text of a literal in the column's character set, if none was lost on the way."""
    if literal.text.isascii():
        return None if of.charset == "swe7" else literal.text
    # The server refuses a default that its column does not hold, but not one that the connection
    # does not: that one has question marks.
    same = session.connection_charset == session.client_charset is not None
    return literal.text if same or session.connection_charset in _UNICODE else None


def _bytes(of: types.SqlType, literal: Literal, session: Session) -> str | None:
    if literal.kind is LiteralKind.BYTES:
        data = bytes.fromhex(literal.text)
    elif (
        literal.kind is LiteralKind.STRING
        and literal.text.isascii()
        and session.connection_charset not in _NOT_ASCII
    ):
        data = literal.text.encode()
    else:
        return None
    if of.length is not None and len(data) > of.length:
        return None
    return (data.ljust(of.length or 0, b"\0") if of.name == "binary" else data).hex()


def _bit(of: types.SqlType, literal: Literal, _: Session) -> str | None:
    if literal.kind is LiteralKind.BYTES:
        number = int(literal.text or "0", 16)
    elif literal.kind is LiteralKind.NUMBER and literal.text.isdecimal():
        number = int(literal.text)
    else:
        return None
    return f"{number:0{2 * _bit_bytes(of)}x}" if number < 1 << (of.length or 1) else None


def _bit_bytes(of: types.SqlType) -> int:
    return ((of.length or 1) + 7) // 8


def _enum(of: types.SqlType, literal: Literal, session: Session) -> str | None:
    values = of.values or ()
    if literal.kind is not LiteralKind.STRING or literal.text not in values:
        return None
    return literal.text if _are_distinct(values, session) else None


def _set(of: types.SqlType, literal: Literal, session: Session) -> str | None:
    values, chosen = of.values or (), literal.text.split(",") if literal.text else []
    if literal.kind is not LiteralKind.STRING or not values or not set(chosen) <= set(values):
        return None
    if not _are_distinct(values, session):
        return None
    return ",".join(value for value in values if value in chosen)


def _are_distinct(values: tuple[str, ...], session: Session) -> bool:
    """Whether no two values are one to the column's collation: a strict server refuses that."""
    if session.is_strict:
        return True
    folded = {value.casefold() for value in values}
    return len(folded) == len(values) and all(map(str.isascii, values))


def _year(_: types.SqlType, literal: Literal, __: Session) -> str | None:
    text = literal.text
    return text if _YEAR.fullmatch(text) and int(text) in _YEARS else None


def _date(_: types.SqlType, literal: Literal, __: Session) -> str | None:
    text = literal.text
    if literal.kind is not LiteralKind.STRING or not _DATE.fullmatch(text):
        return None
    return text if _is_real(date.fromisoformat, text) else None


def _datetime(of: types.SqlType, literal: Literal, _: Session) -> str | None:
    match = _DATETIME.fullmatch(literal.text)
    if literal.kind is not LiteralKind.STRING or match is None:
        return None
    whole = match[1] + (match[2] or " 00:00:00")
    if not _is_real(datetime.fromisoformat, whole):
        return None
    return _with_fraction(of, whole, match[3] or "")


def _time(of: types.SqlType, literal: Literal, _: Session) -> str | None:
    match = _TIME.fullmatch(literal.text)
    if literal.kind is not LiteralKind.STRING or match is None or int(match[2]) > _HOURS_MAX:
        return None
    fraction = match[4] or ""
    zero = not (match[2] + match[3] + fraction).strip("0:")
    sign = "" if zero else match[1]
    return _with_fraction(of, f"{sign}{int(match[2]):02}:{match[3]}", fraction)


def _with_fraction(of: types.SqlType, whole: str, fraction: str) -> str | None:
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


def _json(of: types.SqlType, literal: Literal, session: Session) -> str | None:
    if session.flavor is Flavor.MARIADB:
        return _text(of, literal, session)
    is_empty = literal.kind is LiteralKind.STRING and literal.text in ("{}", "[]", "null")
    return literal.text if is_empty else None


_READERS: dict[str, Callable[[types.SqlType, Literal, Session], str | None]] = {
    **dict.fromkeys(types.INTEGERS, _integer),
    **dict.fromkeys(types.FLOATS, _float),
    **dict.fromkeys((*types.STRINGS, *types.TEXTS), _text),
    **dict.fromkeys(types.BYTES, _bytes),
    "decimal": _decimal,
    "bit": _bit,
    "enum": _enum,
    "set": _set,
    "year": _year,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
    "json": _json,
}


# ------------------------------------------------------------------- current time

# As the words of an expression are shown, with a space between each two.
_NOW_CALL = re.compile(
    r"(?:NOW \( |(?:CURRENT_TIMESTAMP|LOCALTIMESTAMP|LOCALTIME)(?: \( )?)(?:([0-6]) )?\)?",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)", re.ASCII)


def read_current_time(of: types.SqlType, literal: Literal, session: Session) -> Default | None:
    """Return what rows from before a column hold in it; None where the log does not say.

    CURRENT_TIMESTAMP is one value in all of them: the time at which the statement started, which
    the log has; TIMESTAMP as it is, DATETIME in the session's time zone, if that is an offset.
    Source: mysql-server, sql/sql_table.cc, mysql_alter_table; mariadb, the same.
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
