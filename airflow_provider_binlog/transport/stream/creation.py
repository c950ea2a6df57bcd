"""When a file of a server's log was created: the first two events of a stream say it.

No statement returns it. This reads two packets with PyMySQL, and so without NumPy, for those who
only compare positions.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql

from airflow_provider_binlog.binlog.event_types import EventType, event_name
from airflow_provider_binlog.binlog.events.format_description import FormatDescription
from airflow_provider_binlog.binlog.footer import verify_checksum
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.errors import FormatError, error_context
from airflow_provider_binlog.position import FIRST_OFFSET
from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.errors import from_reply
from airflow_provider_binlog.transport.server.result_sets import query
from airflow_provider_binlog.transport.stream import commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.position import Flavor, Position

    Connection = pymysql.Connection[Any]

_OFFSET_END = 1 << 32


def file_created(connect: Callable[[], Connection], flavor: Flavor, position: Position) -> int:
    """Return when the file of a position was created, seconds since 1970.

    Args:
        connect: Opens a connection, which is closed again.
        flavor: Of the server.
        position: In a file that the server has.

    Raises:
        PositionPurgedError, ForeignPositionError: The server does not have the file.
        ConnectionLostError: The connection ended.
        FormatError: The server sends something else.
    """
    # What follows the two events is sent in vain: little, from the position on.
    offset = position.offset if position.offset < _OFFSET_END else FIRST_OFFSET
    dump = commands.binlog_dump(
        position.file,
        offset,
        server_id=commands.new_server_id(),
        flags=commands.dump_flags(flavor),
    )
    with closing(connect()) as connection:
        for statement in commands.session_statements(flavor, heartbeat_seconds=0):
            query(connection, statement)
        try:
            with driver_errors(command="COM_BINLOG_DUMP"):
                return _read(connection, dump, position)
        finally:
            connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001


def _read(connection: Connection, dump: bytes, position: Position) -> int:
    stream: Any = connection
    stream._execute_command(dump[0], dump[1:])  # noqa: SLF001
    with error_context(file=position.file):
        rotate, event = _next_event(stream), _next_event(stream)
        found = EventHeader.parse(rotate).type, EventHeader.parse(event).type
        if found != (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            raise FormatError(
                "the stream does not begin with ROTATE and FORMAT_DESCRIPTION",
                events=[event_name(each) for each in found],
            )
        description = FormatDescription.parse(event)
        if description.checksum_size:
            verify_checksum(event, description)
        return description.created


def _next_event(stream: Any) -> bytes:
    try:
        packet: bytes = stream._read_packet().get_all_data()  # noqa: SLF001
    except pymysql.OperationalError as error:
        code, text = error.args
        raise from_reply(code, text) from error
    if packet[:1] != b"\0":
        raise FormatError("the stream ends before FORMAT_DESCRIPTION")
    return packet[1:]
