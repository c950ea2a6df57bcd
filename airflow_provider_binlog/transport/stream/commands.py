"""The commands of a replica: registration, the request for the log, and the session before it.

    COM_REGISTER_SLAVE    | 15 | 4 server id | 1 + host | 1 + user | 1 + password | 2 port | 8 |
    COM_BINLOG_DUMP       | 12 | 4 position | 2 flags | 4 server id | file |
    COM_BINLOG_DUMP_GTID  | 1e | 2 flags | 4 server id | 4 + file | 8 position | 4 + GTID set |

No statement returns when a file was created: `file_created` reads it from the first two events of
a stream. It needs PyMySQL alone, so that a sensor loads no NumPy.

Source: mysql-server, sql/rpl_source.cc; mariadb, sql/sql_repl.cc and sql/slave.cc.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pymysql

from airflow_provider_binlog.binlog.events.control import FormatDescription, verify_checksum
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import EventHeader, EventType, event_name
from airflow_provider_binlog.errors import FormatError, error_context
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.transport.server import driver
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors, query
from airflow_provider_binlog.transport.server.errors import from_reply

NON_BLOCK = 0x0001
"""Dump flag: the server ends the stream at the end of its log, and does not wait for more."""

HEARTBEAT_V2 = 0x0002
"""Dump flag of MySQL: heartbeats carry the whole position."""

SEND_ANNOTATE_ROWS = 0x0002
"""Dump flag of MariaDB: ANNOTATE_ROWS is sent as well. Without it offsets cannot be counted."""

_NET_WRITE_TIMEOUT_SECONDS = 3600
"""Seconds that the server waits for a reader that does not read."""

_COM_BINLOG_DUMP = 0x12
_COM_REGISTER_SLAVE = 0x15
_COM_BINLOG_DUMP_GTID = 0x1E
_OFFSET_END = 1 << 32
"""COM_BINLOG_DUMP has 32 bits for the offset."""

# A real replica's server id is small, or made of its address; the upper half is ours.
_SERVER_ID_FIRST = 1 << 31
_SERVER_ID_COUNT = (1 << 31) - 1


def new_server_id() -> int:
    """Return a server id that no replica is likely to have."""
    return _SERVER_ID_FIRST + secrets.randbelow(_SERVER_ID_COUNT)


def dump_flags(flavor: Flavor) -> int:
    """Return the flags of the dump commands: every log event, to the end of the log."""
    return NON_BLOCK | (HEARTBEAT_V2 if flavor is Flavor.MYSQL else SEND_ANNOTATE_ROWS)


def register_slave(server_id: int, *, host: str) -> bytes:
    """Return COM_REGISTER_SLAVE: it makes the reader visible in SHOW REPLICAS, no more."""
    name = host.encode()[:255]
    return struct.pack("<BIB", _COM_REGISTER_SLAVE, server_id, len(name)) + name + bytes(12)


def binlog_dump(start: Position, *, server_id: int, flags: int) -> bytes:
    """Return COM_BINLOG_DUMP: the log from a position on; the empty file is the first one.

    The command cannot express an offset after 4 GiB: then the file is sent from its beginning.
    """
    offset = start.offset if start.offset < _OFFSET_END else FIRST_OFFSET
    return struct.pack("<BIHI", _COM_BINLOG_DUMP, offset, flags, server_id) + start.file.encode()


def binlog_dump_gtid(executed: GtidSet, *, server_id: int, flags: int) -> bytes:
    """Return COM_BINLOG_DUMP_GTID: what is not in `executed`. MySQL with `gtid_mode=ON` only.

    The server chooses the file, and refuses if it has purged what is asked for. The set is written
    with tags only where it has some: servers before 8.3 read no others.
    """
    no_file, gtids = 0, executed.encode()
    front = struct.pack("<BHII", _COM_BINLOG_DUMP_GTID, flags, server_id, no_file)
    return front + struct.pack("<QI", FIRST_OFFSET, len(gtids)) + gtids


def session_statements(
    flavor: Flavor,
    *,
    heartbeat_seconds: float,
    connect_state: MariadbGtidPosition | None = None,
) -> list[str]:
    """Return the statements that prepare a session for one of the dump commands.

    After so many seconds of silence the server sends a heartbeat; 0 for never. A `connect_state`,
    MariaDB only, is where to start, whatever the dump command says; a domain left out is sent from
    its beginning.
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


def file_created(connect: Callable[[], Connection], flavor: Flavor, position: Position) -> int:
    """Return when the file of a position was created, seconds since 1970.

    Raises:
        PositionPurgedError, ForeignPositionError: The server does not have the file.
        FormatError: The server sends something else.
    """
    with _stream(connect, flavor, position) as events:
        first = [event for _, event in zip(range(2), events, strict=False)]
        types = tuple(EventHeader.parse(event).type for event in first)
        if types != (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            raise FormatError(
                "the stream does not begin with ROTATE and FORMAT_DESCRIPTION",
                events=[event_name(code) for code in types],
            )
        description = FormatDescription.parse(first[1])
        if description.checksum_size:
            verify_checksum(first[1], description)
        return description.created


_OF_FILES = frozenset(
    {
        *(EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.STOP),
        *(EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST),
        *(EventType.BINLOG_CHECKPOINT, EventType.START_ENCRYPTION),
        *(EventType.HEARTBEAT, EventType.HEARTBEAT_V2),
    }
)
"""Events that a server logs, or sends, without a client's statement."""


def next_event_time(
    connect: Callable[[], Connection], flavor: Flavor, position: Position
) -> int | None:
    """Return when the first statement after a position began, seconds since 1970.

    None if none is logged yet. Raises as `file_created`.
    """
    with _stream(connect, flavor, position) as events:
        for event in events:
            header = EventHeader.parse(event)
            if header.type not in _OF_FILES:
                return header.timestamp
    return None


@contextmanager
def _stream(
    connect: Callable[[], Connection], flavor: Flavor, position: Position
) -> Iterator[Iterator[bytes]]:
    """Yield the events that the server sends from a position on, to the end of its log.

    What is not read of them is sent in vain: little, from the position on.
    """
    dump = binlog_dump(position, server_id=new_server_id(), flags=dump_flags(flavor))
    with closing(connect()) as connection:
        for statement in session_statements(flavor, heartbeat_seconds=0):
            query(connection, statement)
        try:
            with driver_errors(command="COM_BINLOG_DUMP"), error_context(file=position.file):
                driver.send_command(connection, dump)
                yield _read_events(connection)
        finally:
            driver.cut(connection)


def _read_events(connection: Connection) -> Iterator[bytes]:
    while True:
        try:
            packet: bytes = driver.read_packet(connection).get_all_data()
        except pymysql.OperationalError as error:
            code, text = error.args
            raise from_reply(code, text) from error
        if packet[:1] != b"\0":
            return
        yield packet[1:]
