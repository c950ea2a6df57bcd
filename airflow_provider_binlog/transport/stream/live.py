"""A live server as a source: one connection is one replica that asks for the log.

PyMySQL makes the connection, with its TLS and its ways to log in, and sends the commands. From the
dump command on the socket is read here, in megabytes.

Source: MySQL Internals, "Replication Protocol"; mysql-server, sql/rpl_source.cc.
"""

from __future__ import annotations

import socket
import uuid
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.blocks.block import BLOCK_BYTES
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor
from airflow_provider_binlog.transport.block_stream import reaches
from airflow_provider_binlog.transport.pace import Pace, receiver
from airflow_provider_binlog.transport.server.driver import driver_errors, query
from airflow_provider_binlog.transport.stream import commands
from airflow_provider_binlog.transport.stream.dump import Dump
from airflow_provider_binlog.transport.stream.packets import PacketReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.position import Position

    Connection = pymysql.Connection[Any]

# After so much silence the server sends a heartbeat; earlier if the connection would count as lost
# before the third.
_HEARTBEAT_SECONDS = 10

# COM_BINLOG_DUMP has 32 bits for the offset.
_DUMP_OFFSET_END = 1 << 32


class ServerBlockStream:
    """The log of a server, over connections that `connect` opens.

    Every iterator has a connection of its own, and closes it: a server sends the log until its end,
    and no command can stop it.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        flavor: Flavor,
        server_id: int | None = None,
        silence_seconds_max: float = 60,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Describe the way to the server; nothing is opened yet.

        Args:
            connect: Opens a connection that is logged in.
            flavor: Of the server.
            server_id: By which the server knows us; another replica's would end that one's
                stream. By default a high one is drawn for every connection, and for a second
                one at the same time, always.
            silence_seconds_max: After so much silence the connection counts as lost.
            block_bytes: Bytes received before they are framed.
        """
        self._connect = connect
        self._flavor = flavor
        self._server_id = server_id
        self._silence_seconds_max = silence_seconds_max
        self._block_bytes = block_bytes
        self._open: set[Connection] = set()

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events from `start` on to the log's end; see `BlockStream`.

        Raises:
            ConnectionLostError: The connection cannot be opened, or ended before the log did.
            AccessDeniedError: The account may not read the log.
            SourceError: The server refuses; the class says why.
            FormatError: An event is damaged.
        """
        if reaches(start.file, start.offset, stop):
            return
        with self._connection() as connection:
            dump = self._dump(connection, self._request(connection, start))
            for block in dump.blocks(start):
                if stop is not None and reaches(block.file, int(block.offset[0]), stop):
                    return
                yield block
                if reaches(block.file, block.next_offset, stop):
                    return

    def position_after(self, gtid: str) -> Position:
        """Return where the first transaction begins that is not in a GTID set.

        Its `gtid` is the set given. A set with holes may hold transactions after that position
        too: those are in the blocks from there on.

        Args:
            gtid: MySQL's set or MariaDB's list of GTIDs, in text; empty for the log's beginning.

        Raises:
            PositionPurgedError: The server has purged transactions that are not in the set.
            ForeignPositionError: The set is not of this server's history.
            ServerSetupError: The server has no GTIDs.
            FormatError: The text is no GTID set.
        """
        with self._connection() as connection:
            server_id, flags = self._identity(), commands.dump_flags(self._flavor)
            if self._flavor is Flavor.MYSQL:
                self._prepare(connection, server_id)
                request = commands.binlog_dump_gtid(
                    GtidSet.parse(gtid), server_id=server_id, flags=flags
                )
            else:
                self._prepare(connection, server_id, MariadbGtidPosition.parse(gtid))
                request = commands.binlog_dump("", FIRST_OFFSET, server_id=server_id, flags=flags)
            position = self._dump(connection, request).first_transaction()
        return replace(position, gtid=gtid)

    def close(self) -> None:
        """Close the connections of iterators that are not at their end."""
        for connection in list(self._open):
            _cut(connection)
        self._open.clear()

    def _request(self, connection: Connection, start: Position) -> bytes:
        """Prepare the session, and return the command that asks for the log from `start` on."""
        server_id, flags = self._identity(), commands.dump_flags(self._flavor)
        self._prepare(connection, server_id)
        if start.offset < _DUMP_OFFSET_END:
            return commands.binlog_dump(start.file, start.offset, server_id=server_id, flags=flags)
        if self._flavor is Flavor.MYSQL and _gtid_mode(connection) == "ON":
            return commands.binlog_dump_gtid(
                GtidSet(), server_id=server_id, flags=flags, file=start.file, offset=start.offset
            )
        # No command can express it: read the file from its start, and skip what is known.
        return commands.binlog_dump(start.file, FIRST_OFFSET, server_id=server_id, flags=flags)

    def _prepare(
        self,
        connection: Connection,
        server_id: int,
        connect_state: MariadbGtidPosition | None = None,
    ) -> None:
        statements = commands.session_statements(
            self._flavor,
            heartbeat_seconds=min(_HEARTBEAT_SECONDS, self._silence_seconds_max / 3),
            connect_state=connect_state,
        )
        # MySQL ends an older stream with the same uuid: without one, with the same server id.
        identity = uuid.uuid4()
        statements.append(f"SET @slave_uuid = '{identity}', @replica_uuid = '{identity}'")
        for statement in statements:
            query(connection, statement)
        with driver_errors(command="COM_REGISTER_SLAVE"):
            _send(connection, commands.register_slave(server_id, host=socket.gethostname()[:60]))
            connection._read_ok_packet()  # type: ignore[attr-defined]  # noqa: SLF001

    def _dump(self, connection: Connection, request: bytes) -> Dump:
        """Send a dump command, and return the stream that answers it."""
        with driver_errors(command="COM_BINLOG_DUMP"):
            _send(connection, request)
        # Everything the server sent before has been read: PyMySQL's own buffer is empty, and what
        # comes now can be taken from the socket below it.
        raw: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001
        raw.settimeout(self._silence_seconds_max)
        pace = Pace(self._silence_seconds_max)
        receive = receiver(raw.recv_into, pace, ended="the connection ended before the log")
        return Dump(PacketReader(receive, block_bytes=self._block_bytes), pace)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with driver_errors():
            connection = self._connect()
        self._open.add(connection)
        try:
            yield connection
        finally:
            self._open.discard(connection)
            _cut(connection)

    def _identity(self) -> int:
        """Return the server id of a connection that was opened just now.

        Only one may have the id that was given: MariaDB ends an older stream under the same one.
        """
        if self._server_id is not None and len(self._open) == 1:
            return self._server_id
        return commands.new_server_id()


def _gtid_mode(connection: Connection) -> str:
    return str(query(connection, "SELECT @@GLOBAL.gtid_mode AS mode")[0]["mode"])


def _send(connection: Connection, command: bytes) -> None:
    """Send a command of one packet as PyMySQL sends its own."""
    connection._execute_command(command[0], command[1:])  # type: ignore[attr-defined]  # noqa: SLF001


def _cut(connection: Connection) -> None:
    """Close the socket without a farewell: the server may be in the middle of sending."""
    connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001
