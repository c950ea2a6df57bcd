"""Literals: how a DEFAULT clause writes a value.

Source: mysql-server, sql/sql_yacc.yy, now_or_signed_literal; mariadb, column_default_expr; MySQL
9.7 reference manual, 11.1 Literal Values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_binlog.sql.lexer import Reader, Word, keyword

if TYPE_CHECKING:
    from collections.abc import Sequence


class LiteralKind(Enum):
    """What a literal is."""

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
    """A literal, or any other expression.

    Attributes:
        kind: What it is.
        text: Its content, as the kind has it.
        in_brackets: Whether it is in brackets: to MySQL it is an expression then, which is
            evaluated for each row.
        introducer: Of a string: `_latin1` without the underscore; None where there is none.
    """

    kind: LiteralKind
    text: str = ""
    in_brackets: bool = False
    introducer: str | None = None


NULL_LITERAL = Literal(LiteralKind.NULL)

_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_HEX = re.compile(r"[0-9A-Fa-f]*", re.ASCII)
_BITS = re.compile(r"[01]*")
_PREFIXED = re.compile(r"0x([0-9A-Fa-f]+)|0b([01]+)", re.ASCII)
_STRINGS = ("'", '"')
_WORDS = {
    "NULL": NULL_LITERAL,
    "TRUE": Literal(LiteralKind.NUMBER, "1"),
    "FALSE": Literal(LiteralKind.NUMBER, "0"),
}
_TYPED = ("DATE", "TIME", "TIMESTAMP")
_SHOWN = 40


def read_literal(words: Sequence[Word]) -> Literal:
    """Return what the words of a DEFAULT clause are, all of them."""
    in_brackets = len(words) > 1 and words[0] == Word("(") and words[-1] == Word(")")
    reader = Reader(words[1:-1] if in_brackets else words)
    found = _read(reader)
    if found is None or reader.peek() != Word(""):
        text = " ".join(word.text for word in words)[:_SHOWN]
        return Literal(LiteralKind.EXPRESSION, text, in_brackets)
    return replace(found, in_brackets=in_brackets)


def _read(reader: Reader) -> Literal | None:
    first, second = reader.peek(), reader.peek(1)
    word = keyword(first)
    if first.quote in _STRINGS:
        return _string(reader, None)
    if second.quote in _STRINGS and word:
        reader.next()
        return _prefixed_string(word, reader)
    if word in _WORDS:
        reader.next()
        return _WORDS[word]
    prefixed = None if first.quote else _PREFIXED.fullmatch(first.text)
    if prefixed is not None:
        reader.next()
        return _hex(prefixed[1]) if prefixed[1] else _bits(prefixed[2])
    return _number(reader)


def _prefixed_string(prefix: str, reader: Reader) -> Literal | None:
    """Read a string after `x`, `b`, `N`, `_latin1` or `DATE`."""
    if prefix in ("X", "B"):
        return _bytes(prefix, reader)
    if prefix in _TYPED:
        return _string(reader, None)
    introducer = "utf8mb3" if prefix == "N" else prefix[1:].lower()
    return _string(reader, introducer) if prefix == "N" or prefix[0] == "_" else None


def _string(reader: Reader, introducer: str | None) -> Literal:
    """Read a string, and those that follow it: they are one."""
    text = ""
    while reader.peek().quote in _STRINGS:
        text += reader.peek().text
        reader.next()
    return Literal(LiteralKind.STRING, text, introducer=introducer)


def _bytes(prefix: str, reader: Reader) -> Literal | None:
    word = reader.next()
    text = "" if word is None else word.text
    if prefix == "X":
        even = len(text) % 2 == 0
        return _hex(text) if even and _HEX.fullmatch(text) else None
    return _bits(text) if _BITS.fullmatch(text) else None


def _hex(digits: str) -> Literal:
    return Literal(LiteralKind.BYTES, digits.lower().zfill(len(digits) + len(digits) % 2))


def _bits(digits: str) -> Literal:
    size = (len(digits) + 7) // 8 * 2
    return Literal(LiteralKind.BYTES, f"{int(digits, 2):0{size}x}" if digits else "")


def _number(reader: Reader) -> Literal | None:
    sign = "-" if reader.take("-") else ""
    if not sign:
        reader.take("+")
    whole, fraction = reader.peek(), ""
    if _is_digits(whole):
        reader.next()
    elif whole == Word(".") and _is_digits(reader.peek(1)):
        whole = Word("0")
    else:
        return None
    if reader.take("."):
        digits = reader.peek()
        if _is_digits(digits):
            reader.next()
            fraction = "." + digits.text
    return Literal(LiteralKind.NUMBER, sign + whole.text + fraction)


def _is_digits(word: Word) -> bool:
    return not word.quote and _NUMBER.fullmatch(word.text) is not None
