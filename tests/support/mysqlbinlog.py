"""What `mysqlbinlog -vv` prints of a file: a second opinion on events, positions and values."""

from __future__ import annotations

import json
import re
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Field

Compare: TypeAlias = Callable[[str, Any, "Field"], bool]

_VERBS = {"INSERT INTO": ChangeType.INSERT, "DELETE FROM": ChangeType.DELETE, "UPDATE": None}
_AT = re.compile(r"# at (\d+)")
_VERB = re.compile(r"### (INSERT INTO|DELETE FROM|UPDATE) (.*)")
_VALUE = re.compile(r"###   @(\d+)=('.*'|.*?)(?: +/\* (\w+)([^']*) \*/)?")
_ESCAPES = {
    Flavor.MYSQL: re.compile(r"\\(x[0-9a-f]{2}|.)"),
    # Which prints quotes and backslashes as they are.
    Flavor.MARIADB: re.compile(r"\\(x[0-9a-f]{2})"),
}
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0"}
_QUOTED = re.compile(r"'((?:[^']|'')*)'")


@dataclass
class Image:
    """A row image as it is printed.

    Attributes:
        position: Where the event that was announced last begins.
        change: What it is.
        table: Quoted, as it is printed.
        values: Texts by the column's number, from 1; those that are absent are left out. Between
            quotes stand bytes, each as the character of its number, without escapes.
        types: What the comment after each value calls its type; those of MariaDB's compressed
            columns are all COMPRESSED.
    """

    position: int
    change: ChangeType
    table: str
    values: dict[int, str] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Printed:
    """What is printed of a file: where events begin, and the row images in order."""

    positions: list[int]
    images: list[Image]


def read_printed(program: list[str], file: Path, flavor: Flavor) -> Printed:
    """Have a file printed by a family's program, and read that."""
    escape = _ESCAPES[flavor]
    command = [*program, "-vv", "--base64-output=DECODE-ROWS", str(file)]
    done = subprocess.run(command, capture_output=True, check=True)
    positions: list[int] = []
    images: list[Image] = []
    table = ""
    for line in done.stdout.decode("latin1").split("\n"):
        if match := _AT.fullmatch(line):
            positions.append(int(match[1]))
        elif match := _VERB.fullmatch(line):
            table = match[2]
            change = _VERBS[match[1]] or ChangeType.UPDATE_PREIMAGE
            images.append(Image(positions[-1], change, table))
        elif line == "### SET" and images[-1].change is ChangeType.UPDATE_PREIMAGE:
            images.append(Image(positions[-1], ChangeType.UPDATE_POSTIMAGE, table))
        elif match := _VALUE.fullmatch(line):
            number = int(match[1])
            is_quoted = match[2].startswith("'")
            images[-1].values[number] = escape.sub(_unescape, match[2]) if is_quoted else match[2]
            compressed = " COMPRESSED " in (match[4] or "")
            images[-1].types[number] = "COMPRESSED" if compressed else match[3] or ""
    return Printed(positions, images)


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)


def agrees(printed: str, type_: str, value: Any, column: Field) -> bool | None:
    """Whether a staged value is the printed one; None where print and value cannot be compared.

    Those are zero dates and invalid dates, and changes of JSON documents, which are printed as
    functions.
    """
    if value is None:
        return printed == "NULL" or (None if type_ in _MOMENTS else False)
    if printed.startswith(("JSON_", "@")):
        return None
    if type_ in _COMPARED:
        return _COMPARED[type_](printed, value, column)
    if isinstance(value, int | Decimal):
        # A number that may be unsigned is printed in both ways: -1 (255).
        return str(value) in _NUMBER.findall(printed)
    return _agrees_bytes(_unquoted(printed), value, column)


def microseconds(printed: str) -> int:
    """Return a TIME as it is staged."""
    clock = printed.strip("'")
    sign = -1 if clock.startswith("-") else 1
    hours, minutes, seconds = clock.lstrip("-").split(":")
    whole = (int(hours) * 60 + int(minutes)) * 60_000_000
    return sign * (whole + int(Decimal(seconds) * 1_000_000))


def _agrees_bytes(printed: bytes, value: str | bytes, column: Field) -> bool:
    if isinstance(value, str):
        charset = column.charset or ""
        return printed == value.encode(_CODECS.get(charset, charset))
    # Of a BINARY the zeros at its end are not logged.
    return printed == (
        value.rstrip(b"\0") if (column.mysql_type or "").startswith("binary") else value
    )


def _agrees_compressed(printed: str, value: str | bytes, column: Field) -> bool:
    """Compare what MariaDB compressed: as it is after a byte of 0, else deflated after its size."""
    data = _unquoted(printed)
    if data[:1] > b"\0":
        data = zlib.decompress(data[1 + (data[0] & 7) :], -zlib.MAX_WBITS)
    else:
        data = data[1:]
    return _agrees_bytes(data, value, column)


def _agrees_json(printed: str, value: str, _: Field) -> bool:
    """Compare a document, printed as SELECT does, or a text in one, without what JSON adds."""
    text = _unquoted(printed).decode()
    return bool(text == (json.loads(value) if value.startswith('"') else value))


def _agrees_bits(printed: str, value: bytes | bool, _: Field) -> bool:
    number = int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)
    return int(printed[2:-1], 2) == number


def _agrees_decimal(printed: str, value: Decimal | str, _: Field) -> bool:
    return printed == (value if isinstance(value, str) else f"{value:f}")


def _agrees_enum(printed: str, value: str, column: Field) -> bool:
    # The number 0 is the invalid value.
    return ["", *_values(column)][int(printed)] == value


def _agrees_set(printed: str, value: str, column: Field) -> bool:
    """Compare the members of a SET, which is printed byte after byte, the lowest byte first."""
    bits = printed[2:-1]
    lowest_first = "".join(bits[at : at + 8][::-1] for at in range(0, len(bits), 8))
    named = zip(_values(column), lowest_first, strict=False)
    return ",".join(name for name, bit in named if bit == "1") == value


def _agrees_vector(printed: str, value: list[float], _: Field) -> bool:
    return printed == "[" + ",".join(f"{each:.5e}" for each in value) + "]"


def _values(column: Field) -> list[str]:
    return [each.replace("''", "'") for each in _QUOTED.findall(column.mysql_type or "")]


def _unquoted(printed: str) -> bytes:
    return printed[1:-1].encode("latin1")


def _timestamp(printed: str) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(
        microseconds=int(Decimal(printed) * 1_000_000)
    )


def _read_by(read: Callable[[str], Any]) -> Compare:
    return lambda printed, value, _: bool(read(printed) == value)


_MOMENTS = ("DATE", "DATETIME", "TIMESTAMP")
_NUMBER = re.compile(r"-?[\d.]+")
_CODECS = {
    "latin1": "cp1252",
    "koi8r": "koi8-r",
    "sjis": "shift_jis",
    "utf16": "utf-16-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}
"""Python's names of character sets, where it has another."""

_COMPARED: dict[str, Compare] = {
    "BIT": _agrees_bits,
    "COMPRESSED": _agrees_compressed,
    "DATE": _read_by(lambda printed: date.fromisoformat(printed.strip("'").replace(":", "-"))),
    "DATETIME": _read_by(lambda printed: datetime.fromisoformat(printed.strip("'"))),
    "DECIMAL": _agrees_decimal,
    "DOUBLE": _read_by(float),
    "ENUM": _agrees_enum,
    "FLOAT": lambda printed, value, _: printed == f"{value:g}",
    "JSON": _agrees_json,
    "SET": _agrees_set,
    "TIME": _read_by(microseconds),
    "TIMESTAMP": _read_by(_timestamp),
    "VECTOR": _agrees_vector,
    # The year 0 is printed as 1900, which no YEAR is.
    "YEAR": _read_by(lambda printed: int(printed) if printed != "1900" else 0),
}
