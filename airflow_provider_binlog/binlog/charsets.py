"""From a collation id to text: every character set of MySQL and MariaDB.

A value is in its column's character set, which the TABLE_MAP names by a collation id. Decoded
here it equals what `CONVERT(value USING utf8mb4)` gives on the server, down to the question marks
for codes that are well-formed but have no character.

Decoding is as fast as Python's codecs, so decode many values in one call: join them by a control
character that none of them holds, such as NUL. It is part of no longer character in any of the
sets, and separates the same values in the result.

Source: mysql-server, strings/ctype-*.cc, sql/field.cc; mariadb, strings/ctype-*.c.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeVar

from airflow_provider_binlog.binlog.charset_tables import (
    BYTES_PER_CHARACTER,
    CHANGED,
    COLLATIONS,
    MULTI_BYTE,
    SINGLE_BYTE,
    UNICODE,
)
from airflow_provider_binlog.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

BINARY = "binary"
"""The character set of columns that hold bytes, not text."""

BINARY_COLLATION = 63

_Value = TypeVar("_Value")

Errors = Literal["strict", "replace"]


def _ids(ranges: str) -> list[int]:
    """Return the ids of `"1,84,1025-1027"`."""
    ids: list[int] = []
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        ids.extend(range(int(first), int(last or first) + 1))
    return ids


_CHARSETS = {id_: name for name, ranges in COLLATIONS.items() for id_ in _ids(ranges)}


def charset_of(collation_id: int) -> str:
    """Return the character set of a collation: `utf8mb4` for 255, `binary` for 63.

    Raises:
        UnsupportedError: No known server has such a collation.
    """
    try:
        return _CHARSETS[collation_id]
    except KeyError:
        raise UnsupportedError(
            "a collation of no known server: convert the column to another one",
            collation_id=collation_id,
        ) from None


def bytes_per_character(charset: str) -> int:
    """Return the most bytes that a character of the set has."""
    return _of(BYTES_PER_CHARACTER, charset)


def encode_ascii(text: str, charset: str) -> bytes:
    """Return a text of ASCII letters, digits and commas in the set, or in `binary`."""
    return text.encode(UNICODE[charset][0] if charset in UNICODE else "ascii")


@cache
def single_byte_table(charset: str) -> list[str] | None:
    """Return the character of each of the 256 bytes; None for sets that are not single-byte.

    Bytes without a character are question marks, as in the server's own conversion.
    """
    if charset not in SINGLE_BYTE:
        return None
    codec, changed = SINGLE_BYTE[charset]
    table = [_one_byte(codec, byte) for byte in range(256)]
    for first, characters in changed.items():
        table[first : first + len(characters)] = characters
    return table


def decode_text(data: bytes | memoryview, charset: str, errors: Errors = "strict") -> str:
    """Return a value's text.

    Args:
        data: In `charset`.
        charset: Any but `binary`.
        errors: Under "replace", U+FFFD stands for every ill-formed sequence.

    Raises:
        FormatError: The value is ill-formed, which no server lets into a column; only "strict".
        UnsupportedError: The set is not one of MySQL's or MariaDB's, or it is `binary`.
    """
    table = _charmap(charset)
    if table is not None:
        return codecs.charmap_decode(data, "strict", table)[0]
    try:
        if charset in UNICODE:
            return str(data, UNICODE[charset][0], errors)
        codec, _ = _of(MULTI_BYTE, charset)
        data = bytes(data)
        if not any(code in data for code in _misleading(charset)):
            return str(data, codec, "strict")
    except UnicodeDecodeError as error:
        if charset in UNICODE:
            raise _ill_formed(bytes(data), charset) from error
    return _decode_by_character(bytes(data), charset, errors)


def decode_identifier(name: bytes | memoryview) -> str:
    """Return a name that the server logged: UTF-8, whatever the character sets of the values.

    Raises:
        FormatError: It is not UTF-8.
    """
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("a name that is not UTF-8", name=bytes(name).hex()) from error


def _of(sets: Mapping[str, _Value], charset: str) -> _Value:
    try:
        return sets[charset]
    except KeyError:
        raise UnsupportedError("not a character set of text", charset=charset) from None


def _one_byte(codec: str, byte: int) -> str:
    try:
        return bytes((byte,)).decode(codec)
    except UnicodeDecodeError:
        return "?"


@cache
def _charmap(charset: str) -> str | None:
    table = single_byte_table(charset)
    return None if table is None else "".join(table)


@cache
def _misleading(charset: str) -> list[bytes]:
    """Return the codes that Python's codec decodes, and the servers otherwise.

    Codes that Python's codec refuses need no search: it refuses the whole value.
    """
    codec = MULTI_BYTE[charset][0]
    return [code for code in CHANGED.get(charset, {}) if _maybe(code, codec) is not None]


def _maybe(code: bytes, codec: str) -> str | None:
    try:
        return code.decode(codec)
    except UnicodeDecodeError:
        return None


@cache
def _characters(charset: str) -> re.Pattern[bytes]:
    """Split a value: runs of ASCII, one longer character, or one byte that belongs to none."""
    pattern = f"([\\x00-\\x7F]+)|({MULTI_BYTE[charset][1]})|(.)"
    return re.compile(pattern.encode("ascii"), re.DOTALL)


@cache
def _known(charset: str) -> dict[bytes, str]:
    """Characters met so far, by code: filled as they come."""
    return dict(CHANGED.get(charset, {}))


def _decode_by_character(data: bytes, charset: str, errors: Errors) -> str:
    """Decode what Python's codec refuses or reads otherwise."""
    codec, known, text = MULTI_BYTE[charset][0], _known(charset), []
    for match in _characters(charset).finditer(data):
        code = match[0]
        if match.lastindex == 1:
            text.append(code.decode("ascii"))
        elif match.lastindex == 2:
            if code not in known:
                known[code] = _maybe(code, codec) or "?"
            text.append(known[code])
        elif errors == "strict":
            raise _ill_formed(data, charset)
        else:
            text.append("\ufffd")
    return "".join(text)


def _ill_formed(data: bytes, charset: str) -> FormatError:
    shown = data[:64].hex() + ("..." if len(data) > 64 else "")
    return FormatError("a value is ill-formed in its character set", charset=charset, value=shown)
