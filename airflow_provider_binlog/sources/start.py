"""Where the first run begins: what a person writes, resolved to a position in one log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.transport.server import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    Connect = Callable[[], pymysql.Connection[Any]]

Start = str | Mapping[str, Any]
"""`"now"`, `"earliest"`, `file:offset`, a GTID set, or what the sensor returned."""

_FILE_AND_OFFSET = re.compile(r"(?P<file>[^:]+\.\d+):(?P<offset>\d+)", re.ASCII)
# A UUID followed by numbers, or MariaDB's domain-server-sequence; the rest is parsed by its user.
_GTIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}:|\d+-\d+-\d+", re.ASCII | re.IGNORECASE)


def find_gtid_text(start: Start) -> str | None:
    """Return the GTID set that a start is; None if it is another kind of start."""
    text = start.get("start") if isinstance(start, Mapping) else start
    return text.strip() if isinstance(text, str) and _GTIDS.match(text.strip()) else None


def resolve_position(connect: Connect, start: Start) -> Position:
    """Return the position that `start`, which is no GTID set, means on this server now.

    Args:
        connect: Opens a connection to the server.
        start: What a person wrote.

    Raises:
        ConfigurationError: It is none of the ways to name a position.
    """
    text = "" if isinstance(start, Mapping) else start.strip()
    if text not in ("now", "earliest"):
        return read_position(start)
    with closing(connect()) as connection:
        query = queries.log_end if text == "now" else queries.first_position
        return query(connection)


def read_position(start: Start) -> Position:
    """Return a position in words or in JSON, or the one in what the sensor returned.

    Raises:
        ConfigurationError: It is none of them.
    """
    if isinstance(start, Mapping):
        return _read_json(start)
    text = start.strip()
    match = _FILE_AND_OFFSET.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            'a start is "now", "earliest", a position such as "binlog.000042:4" or a GTID set',
            given=repr(start),
        )
    if int(match["offset"]) < FIRST_OFFSET:
        raise ConfigurationError(f"the first event of a file is at {FIRST_OFFSET}", given=text)
    return Position(match["file"], int(match["offset"]))


def _read_json(value: Mapping[str, Any]) -> Position:
    try:
        return Position.from_json(dict(value.get("start", value)))
    except (FormatError, TypeError, ValueError) as error:
        raise ConfigurationError(
            "not a position, nor what the sensor returned", given=value
        ) from error
