"""A position in a binary log, and the identity of the server that issued it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_binlog.errors import FormatError

FIRST_OFFSET = 4
"""Offset of the first event of every binlog file: after the four magic bytes."""

# The digits of 2**63 - 1. Python refuses to parse integers of several thousand digits.
_NUMBER_DIGITS_MAX = 19


class Flavor(StrEnum):
    """The family of a server, which decides how the events of its log are read."""

    MYSQL = "mysql"
    MARIADB = "mariadb"


@dataclass(frozen=True)
class SourceIdentity:
    """The log that a position belongs to.

    Attributes:
        flavor: MySQL's family or MariaDB's.
        server: `@@server_uuid` of a MySQL server, `@@server_uid` of a MariaDB server.
        log_name: Base name of the binlog files, `binlog` for `binlog.000001`.
    """

    flavor: Flavor
    server: str
    log_name: str

    def __str__(self) -> str:
        """Return the family and the server, for people."""
        return f"{self.flavor.value} {self.server}"

    def to_json(self) -> dict[str, str]:
        """Return plain values that `from_json` reads back."""
        return {"flavor": self.flavor.value, "server": self.server, "log_name": self.log_name}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SourceIdentity:
        """Read what `to_json` wrote; raise FormatError for anything else."""
        try:
            return cls(Flavor(value["flavor"]), str(value["server"]), str(value["log_name"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError("not a source identity", value=value) from error


@dataclass(frozen=True)
class Position:
    """A boundary between two transactions of one server's log, ordered by `coordinates`.

    On another server only its GTID set has a meaning.

    Attributes:
        file: Name of the binlog file, without its folder.
        offset: Bytes from the start of the file; never wrapped at 4 GiB.
        gtid: Everything executed before this boundary, as MySQL's GTID set or MariaDB's list of
            GTIDs in text; None where it is not known.
        logged: The part of `gtid` that is logged before this boundary in this server's log. The
            rest is logged after it, because it was staged from another server's log, in another
            order. None if all of `gtid` is logged before the boundary.
        file_created: When the server created the file, seconds since 1970: a server that was reset,
            or restored from a backup, has another file of that name. None where it is not known.
            Two positions are equal whether or not it is.
    """

    file: str
    offset: int
    gtid: str | None = None
    logged: str | None = None
    file_created: int | None = field(default=None, compare=False)

    @property
    def logged_gtid(self) -> str | None:
        """Everything that is logged before this boundary in this server's log, as in `gtid`."""
        return self.gtid if self.logged is None else self.logged

    @property
    def file_number(self) -> int:
        """The number after the last dot of `file`, by which files are ordered."""
        return split_file_name(self.file)[1]

    @property
    def coordinates(self) -> tuple[int, int]:
        """(file number, offset): the order of positions on one server."""
        return self.file_number, self.offset

    @property
    def file_start(self) -> Position:
        """Start of the first event of the same file."""
        return Position(self.file, FIRST_OFFSET, file_created=self.file_created)

    def to_json(self) -> dict[str, str | int | None]:
        """Return plain values that `from_json` reads back."""
        value: dict[str, str | int | None] = {
            "file": self.file,
            "offset": self.offset,
            "gtid": self.gtid,
        }
        optional = (("logged", self.logged), ("file_created", self.file_created))
        return value | {name: own for name, own in optional if own is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Position:
        """Read what `to_json` wrote; raise FormatError if a field is missing or of another type."""
        try:
            file, offset, gtid = value["file"], value["offset"], value.get("gtid")
            logged, created = value.get("logged"), value.get("file_created")
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError("not a position", value=value) from error
        proper = isinstance(file, str) and type(offset) is int and offset >= FIRST_OFFSET
        proper = proper and all(isinstance(text, str | None) for text in (gtid, logged))
        if not proper or (created is not None and type(created) is not int):
            raise FormatError("not a position", value=value)
        return cls(file, offset, gtid, logged, created)

    def __str__(self) -> str:
        """Return `file:offset`, the form that people write."""
        return f"{self.file}:{self.offset}"


def is_contiguous(
    stop: Position, stop_of: SourceIdentity, start: Position, start_of: SourceIdentity
) -> bool:
    """Whether a range that starts at `start` continues one that ended at `stop`, without overlap.

    On one server both have the same coordinates, in the same file. After a failover, the same GTIDs
    have been executed before both.
    """
    if stop_of == start_of:
        known = {stop.file_created, start.file_created} - {None}
        return stop.coordinates == start.coordinates and len(known) < 2
    return stop_of.flavor is start_of.flavor and bool(stop.gtid) and stop.gtid == start.gtid


def parse_position(text: str) -> Position:
    """Return the position that a person wrote as `file:offset`.

    Raises:
        FormatError: The text is not of that form, or no event of a file is at the offset.
    """
    file, _, offset = text.strip().rpartition(":")
    if not file or not _is_number(offset):
        raise FormatError("not a position such as binlog.000042:4", text=text)
    if int(offset) < FIRST_OFFSET:
        raise FormatError(f"the first event of a file is at {FIRST_OFFSET}", text=text)
    return Position(file, int(offset))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX


def split_file_name(file: str) -> tuple[str, int]:
    """Return a binlog file's base name and number: `("binlog", 7)` for `binlog.000007`.

    Raises:
        FormatError: The name does not end in a dot and digits, or in more of them than a server
            counts to.
    """
    log_name, _, number = file.rpartition(".")
    if not log_name or not _is_number(number):
        raise FormatError("not the name of a binlog file", file=file)
    return log_name, int(number)
