"""The commands of a replica: registration, the request for the log, and the session before it.

Each command is the payload of one packet, its command byte first.

    COM_REGISTER_SLAVE    | 15 | 4 server id | 1 + host | 1 + user | 1 + password | 2 port | 8 |
    COM_BINLOG_DUMP       | 12 | 4 position | 2 flags | 4 server id | file |
    COM_BINLOG_DUMP_GTID  | 1e | 2 flags | 4 server id | 4 + file | 8 position | 4 + GTID set |

No statement returns when a file was created: `file_created` reads it from the first two events of
a stream. It needs PyMySQL alone, so that the triggerer loads no NumPy.

Source: mysql-server, sql/rpl_source.cc, register_replica, com_binlog_dump, com_binlog_dump_gtid;
mariadb, sql/sql_repl.cc and sql/slave.cc.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql

from airflow_provider_binlog.binlog.events.control import (
    FormatDescription,
    verify_checksum,
)
from airflow_provider_binlog.binlog.header import EventHeader, EventType, event_name
from airflow_provider_binlog.errors import FormatError, UnsupportedError, error_context
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor
from airflow_provider_binlog.transport.server.driver import driver_errors, query
from airflow_provider_binlog.transport.server.errors import from_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
    from airflow_provider_binlog.position import Position

    Connection = pymysql.Connection[Any]

NON_BLOCK = 0x0001
"""Dump flag: the server ends the stream at the end of its log, and does not wait for more."""

HEARTBEAT_V2 = 0x0002
"""Dump flag of MySQL: heartbeats carry the whole position."""

SEND_ANNOTATE_ROWS = 0x0002
"""Dump flag of MariaDB: ANNOTATE_ROWS is sent as well. Without it offsets cannot be counted."""

_NET_WRITE_TIMEOUT_SECONDS = 3600
"""How long the server waits for a reader that does not read."""

_COM_BINLOG_DUMP = 0x12
_COM_REGISTER_SLAVE = 0x15
_COM_BINLOG_DUMP_GTID = 0x1E


# A real replica's server id is small, or made of its address; the upper half is ours.
_SERVER_ID_FIRST = 1 << 31
_SERVER_ID_COUNT = (1 << 31) - 1

MAX_SERVER_ID = (1 << 32) - 1
"""The highest that a server takes."""

_DERIVED_COUNT = 1 << 30


def new_server_id() -> int:
    """Return a server id that no replica is likely to have."""
    return _SERVER_ID_FIRST + secrets.randbelow(_SERVER_ID_COUNT)


def derived_server_id(seed: str) -> int:
    """Return a server id that no replica is likely to have, with many free ones after it."""
    digest = hashlib.sha256(seed.encode()).digest()
    return _SERVER_ID_FIRST + int.from_bytes(digest[:8], "big") % _DERIVED_COUNT


def dump_flags(flavor: Flavor) -> int:
    """Return the flags of the dump commands: every log event, to the end of the log."""
    return NON_BLOCK | (HEARTBEAT_V2 if flavor is Flavor.MYSQL else SEND_ANNOTATE_ROWS)


def register_slave(server_id: int, *, host: str) -> bytes:
    """Return COM_REGISTER_SLAVE: it makes the reader visible in SHOW REPLICAS, no more."""
    name = host.encode()[:255]
    return struct.pack("<BIB", _COM_REGISTER_SLAVE, server_id, len(name)) + name + bytes(12)


def binlog_dump(file: str, offset: int, *, server_id: int, flags: int) -> bytes:
    """Return COM_BINLOG_DUMP: the log from a position on; the empty file is the first one.

    Raises:
        UnsupportedError: The offset is after 4 GiB, which this command cannot express.
    """
    if offset >= 1 << 32:
        raise UnsupportedError(
            "a position after 4 GiB: start by GTID, or at a file's beginning",
            file=file,
            offset=offset,
        )
    return struct.pack("<BIHI", _COM_BINLOG_DUMP, offset, flags, server_id) + file.encode()


def binlog_dump_gtid(
    executed: GtidSet,
    *,
    server_id: int,
    flags: int,
    file: str = "",
    offset: int = FIRST_OFFSET,
) -> bytes:
    """Return COM_BINLOG_DUMP_GTID: what is not in `executed`. MySQL with `gtid_mode=ON` only.

    Without a file the server chooses it, and refuses if it has purged what is asked for. With a
    file it does not check that; with an empty set, this reaches offsets after 4 GiB.
    The set is written with tags only where it has some: servers before 8.3 read no others.
    """
    name, gtids = file.encode(), executed.encode()
    return (
        struct.pack("<BHII", _COM_BINLOG_DUMP_GTID, flags, server_id, len(name))
        + name
        + struct.pack("<QI", offset, len(gtids))
        + gtids
    )


def session_statements(
    flavor: Flavor,
    *,
    heartbeat_seconds: float,
    connect_state: MariadbGtidPosition | None = None,
) -> list[str]:
    """Return the statements that prepare a session for one of the dump commands.

    Args:
        flavor: Of the server.
        heartbeat_seconds: After so much silence the server sends a heartbeat; 0 for never.
        connect_state: MariaDB only: start after this GTID position, whatever the dump command
            says. A domain left out is sent from its beginning.
    """
    period = int(heartbeat_seconds * 1_000_000_000)
    # The source_ names are for MySQL from 8.0.26 on, the master_ names for all others; a
    # user variable that a server does not look at is harmless.
    statements = [
        "SET @source_binlog_checksum = @@global.binlog_checksum",
        "SET @master_binlog_checksum = @@global.binlog_checksum",
        f"SET @source_heartbeat_period = {period}, @master_heartbeat_period = {period}",
        f"SET SESSION net_write_timeout = {_NET_WRITE_TIMEOUT_SECONDS}",
    ]
    if flavor is Flavor.MARIADB:
        # Below 4 the server rewrites GTID events into something else.
        statements.append("SET @mariadb_slave_capability = 4")
        if connect_state is not None:
            statements.append(f"SET @slave_connect_state = '{connect_state}'")
            statements.append("SET @slave_gtid_strict_mode = 1")
    return statements


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
    dump = binlog_dump(
        position.file,
        offset,
        server_id=new_server_id(),
        flags=dump_flags(flavor),
    )
    with closing(connect()) as connection:
        for statement in session_statements(flavor, heartbeat_seconds=0):
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
        types = EventHeader.parse(rotate).type, EventHeader.parse(event).type
        if types != (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            raise FormatError(
                "the stream does not begin with ROTATE and FORMAT_DESCRIPTION",
                events=[event_name(code) for code in types],
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
