"""What `mysqlbinlog -vv` prints of a file: a second opinion on events, positions and values."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from airflow_provider_binlog.changes import ChangeType

_VERBS = {"INSERT INTO": ChangeType.INSERT, "DELETE FROM": ChangeType.DELETE, "UPDATE": None}
_AT = re.compile(r"# at (\d+)")
_VERB = re.compile(r"### (INSERT INTO|DELETE FROM|UPDATE) (.*)")
_VALUE = re.compile(r"###   @(\d+)=(.*?)(?: /\* (\w+).*\*/)?")
_TEXT = re.compile(r"'([ !#-&(-\[\]-~]*)'")
"""Texts that are printed as they are, whatever their character set."""


@dataclass
class Image:
    """A row image as it is printed.

    Attributes:
        position: Where the event that was announced last begins.
        change: What it is.
        table: Quoted, as it is printed.
        values: Texts by the column's number, from 1; those that are absent are left out.
        types: What the comment behind each value calls its type.
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


def read_printed(program: list[str], file: Path) -> Printed:
    """Have a file printed, and read that."""
    command = [*program, "-vv", "--base64-output=DECODE-ROWS", str(file)]
    done = subprocess.run(command, capture_output=True, check=True)
    positions: list[int] = []
    images: list[Image] = []
    table = ""
    for line in done.stdout.decode("latin1").splitlines():
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
            images[-1].values[number] = match[2]
            images[-1].types[number] = match[3] or ""
    return Printed(positions, images)


def agrees(printed: str, type_: str, value: Any) -> bool | None:
    """Whether a staged value is the printed one; None where print and value cannot be compared.

    A label is printed as its number, and text of other character sets as its bytes.
    """
    if value is None:
        return printed == "NULL" or (None if type_ in _MOMENTS else False)
    if type_ in _SHOWN:
        return bool(_SHOWN[type_](printed) == value)
    if isinstance(value, int | Decimal):
        # A number that may be unsigned is printed in both ways: -1 (255).
        number = f"{value:f}" if isinstance(value, Decimal) else str(value)
        return number in _NUMBER.findall(printed)
    match = _TEXT.fullmatch(printed)
    return match[1] == value if match is not None and isinstance(value, str) else None


def _micros(printed: str) -> int:
    clock = printed.strip("'")
    sign = -1 if clock.startswith("-") else 1
    hours, minutes, seconds = clock.lstrip("-").split(":")
    whole = (int(hours) * 60 + int(minutes)) * 60_000_000
    return sign * (whole + int(Decimal(seconds) * 1_000_000))


def _timestamp(printed: str) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(
        microseconds=int(Decimal(printed) * 1_000_000)
    )


_MOMENTS = ("DATE", "DATETIME", "TIMESTAMP")
_NUMBER = re.compile(r"-?[\d.]+")
_SHOWN: dict[str, Callable[[str], Any]] = {
    "TIME": _micros,
    "DATE": lambda printed: date.fromisoformat(printed.strip("'").replace(":", "-")),
    "DATETIME": lambda printed: datetime.fromisoformat(printed.strip("'")),
    "TIMESTAMP": _timestamp,
    # The year 0 is printed as 1900, which no YEAR is.
    "YEAR": lambda printed: int(printed) if printed != "1900" else 0,
}
