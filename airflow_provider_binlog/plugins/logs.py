"""The log of a source, read for the page: its lag, and the events around a position."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import BinlogError, ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import reach
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from airflow_provider_binlog.sources.lag import Lag, read_lag
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.sources.state import Log
from airflow_provider_binlog.sql.lexer import Session, mask_literals

if TYPE_CHECKING:
    from airflow_provider_binlog.cli.events import ListedEvent

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 10

EVENTS_BEFORE, EVENTS_AFTER = 100, 200
_BYTES_BEFORE = 4 << 20
"""Of log that is read before a position, from a boundary that is known."""

_READ_SECONDS = 10.0

_SECRET = re.compile(
    r"password|identified|secret|connection\s*=|master_user|source_user", re.IGNORECASE
)
HIDDEN = "(not shown, because it may hold a password)"

_WITH_STATEMENT = ("Query", "Rows_query", "Annotate_rows")
_BACKSLASH = re.compile(r"[\\\0]")
_SPACES = str.maketrans("\n\t", "  ")


def short_settings(conn_id: str) -> ConnectionSettings:
    """Return how to reach a server that a person waits for."""
    settings = BinlogHook(conn_id).settings
    return replace(
        settings,
        connect_timeout=min(settings.connect_timeout, _CONNECT_SECONDS),
        read_timeout=min(settings.read_timeout, _ANSWER_SECONDS),
        query_timeout=min(settings.query_timeout, _ANSWER_SECONDS),
        server_id=None,
    )


def read_server_lag(conn_id: str, position: Position, identity: SourceIdentity) -> Lag:
    """Return the lag of a position at the server of a connection; raises as `read_lag`."""
    return read_lag(Connections(short_settings(conn_id)).open, position, identity)


@dataclass(frozen=True)
class EventsAround:
    """The events before a position and after it.

    Attributes:
        before, after: In the order of the log.
        note: Why there are no more, if the log has more.
    """

    before: Sequence[ListedEvent]
    after: Sequence[ListedEvent]
    note: str = ""


def open_log(conn_id: str, files: Any) -> Log:
    """Return the log of a connection's server, or of files; close it."""
    # They load NumPy, which the other pages do without.
    from airflow_provider_binlog.sources.binlog_files import find_files
    from airflow_provider_binlog.sources.file_log import FileLog
    from airflow_provider_binlog.sources.server_log import ServerLog

    return (
        ServerLog(short_settings(conn_id)) if files is None else FileLog(find_files(files, reach))
    )


def find_anchor(position: Position, boundaries: Iterable[Position]) -> Position:
    """Return where to read from: a boundary not far before a position, or the position itself.

    Of the boundaries that are known, the nearest one that has some events after it.
    """
    start = Position(position.file, FIRST_OFFSET)
    near = [
        boundary
        for boundary in (start, *boundaries)
        if boundary.file == position.file and 0 < position.offset - boundary.offset <= _BYTES_BEFORE
    ]
    far_enough = [boundary for boundary in near if position.offset - boundary.offset >= 4096]
    nearest = max(far_enough, key=lambda boundary: boundary.offset, default=None)
    return nearest or min(near, key=lambda boundary: boundary.offset, default=position)


def read_events(log: Log, position: Position, anchor: Position) -> EventsAround:
    """Return the events around a position, read from a boundary before it.

    Raises:
        ConfigurationError: No event begins at the position.
        SourceError, FormatError: The log cannot be read there.
    """
    from airflow_provider_binlog.blocks.expansion import Expander
    from airflow_provider_binlog.cli.events import list_events

    before: deque[ListedEvent] = deque(maxlen=EVENTS_BEFORE)
    after: list[ListedEvent] = []
    expander, deadline = Expander(), time.monotonic() + _READ_SECONDS
    with closing(log):
        try:
            for block in log.blocks(anchor):
                is_file = block.file == position.file
                for listed in list_events(block, expander):
                    event = listed._replace(info=shown_info(listed.type, listed.info))
                    offset = event.position
                    # Events inside a compressed transaction are listed at its end.
                    is_before = offset < position.offset or event.end == offset
                    if is_file and not after and is_before:
                        before.append(event)
                        continue
                    if not after and (not is_file or offset != position.offset):
                        raise ConfigurationError("no event begins at the position", at=position)
                    after.append(event)
                    if len(after) >= EVENTS_AFTER:
                        return EventsAround(before, after, f"{EVENTS_AFTER} events are shown")
                    if time.monotonic() > deadline:
                        note = f"the log was read for {_READ_SECONDS:.0f} s"
                        return EventsAround(before, after, note)
        except BinlogError as error:
            if not after:
                raise
            return EventsAround(before, after, str(error))
    return EventsAround(before, after)


def shown_info(type_: str, info: str) -> str:
    """Return what everybody may see of the column Info: no password, and `?` for literals.

    Of a statement nothing is shown from a backslash on: the session's mode, which is not known
    here, says whether a quote after it ends a literal.
    """
    if _SECRET.search(info):
        return HIDDEN
    if type_ not in _WITH_STATEMENT:
        return info
    text, *cut = _BACKSLASH.split(info, maxsplit=1)
    shown = mask_literals(text.translate(_SPACES), Session(Flavor.MYSQL), len(text))
    return f"{shown} ..." if cut else shown
