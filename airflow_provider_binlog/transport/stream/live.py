"""A live server as a source: one connection is one replica that asks for the log.

PyMySQL makes the connection, with its TLS and its ways to log in, and sends the commands. From the
dump command on the socket is read here, in megabytes:

    artificial ROTATE (file, position) | FORMAT_DESCRIPTION | events … | artificial ROTATE | …

The FORMAT_DESCRIPTION is an event of the log where the stream begins with the file, and a reminder
where it begins inside it; so is the START_ENCRYPTION that follows it in a file that MariaDB
encrypts, and sends in clear. Heartbeats and artificial events are in no file.

Source: MySQL Internals, "Replication Protocol"; mysql-server, sql/rpl_source.cc;
sql/rpl_binlog_sender.cc, Binlog_sender::send_binlog, send_format_description_event; mariadb,
sql/sql_repl.cc, send_format_descriptor_event.
"""

from __future__ import annotations

import math
import socket
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.control import (
    CHECKSUM_SIZE,
    FormatDescription,
    Heartbeat,
    Rotate,
    body_of,
    checksum_matches,
    verify_checksum,
)
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import (
    ARTIFICIAL,
    GROUP_STARTS,
    HEADER_SIZE,
    EventType,
    event_name,
)
from airflow_provider_binlog.blocks.block import BLOCK_BYTES, type_mask
from airflow_provider_binlog.blocks.framing import checked_block
from airflow_provider_binlog.errors import FormatError, error_context
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, split_file_name
from airflow_provider_binlog.transport.block_stream import (
    Pace,
    check_created,
    events_from,
    reaches,
    receiver,
)
from airflow_provider_binlog.transport.server.driver import driver_errors, query
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply
from airflow_provider_binlog.transport.stream import commands
from airflow_provider_binlog.transport.stream.packets import PacketReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql

    from airflow_provider_binlog.blocks.block import EventBlock

    Connection = pymysql.Connection[Any]
    from airflow_provider_binlog.transport.stream.packets import Packets

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


_EOF = 0xFE
_HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
# MariaDB repeats its list where a stream by GTID arrives at its start.
_SKIPPED = frozenset({*_HEARTBEATS, EventType.MARIADB_GTID_LIST})
_IS_CONTROL = type_mask([EventType.FORMAT_DESCRIPTION, EventType.START_ENCRYPTION, *_HEARTBEATS])
_OFFSET_MASK = 0xFFFFFFFF


@dataclass
class _LogOffset:
    """The offset in the log that the stream has reached."""

    file: str = ""
    offset: int = 0
    description: FormatDescription | None = None

    @property
    def position(self) -> Position:
        return Position(self.file, self.offset, file_created=self.known().created)

    def known(self) -> FormatDescription:
        if self.description is None:
            raise FormatError("the stream does not begin with ROTATE and FORMAT_DESCRIPTION")
        return self.description


class Dump:
    """One stream, from the dump command's reply to its end."""

    def __init__(self, packets: PacketReader, pace: Pace | None = None) -> None:
        self._packets = packets
        self._pace = pace or Pace(math.inf)
        self._at = _LogOffset()
        self._start: Position | None = None

    def blocks(self, start: Position) -> Iterator[EventBlock]:
        """Yield the log's events from `start` on, until the server has no more.

        The server may begin earlier in the same file: what comes before `start` is skipped.

        Raises:
            ForeignPositionError: No event begins at `start`, or its file is another one.
            ConnectionLostError: The server sends too slowly, or nothing but heartbeats.
            SourceError: The server ends the stream with an error.
            FormatError: See `checked_block`.
        """
        self._start = start
        for packets, first, last in self._segments():
            block = self._block(packets, first, last)
            self._at.offset = block.next_offset
            if block.file != start.file or block.offset[0] >= start.offset:
                yield block
            elif block.next_offset > start.offset:
                yield events_from(block, start.offset)

    def first_transaction(self) -> Position:
        """Return where the stream's first transaction begins, or where the log ends without one.

        For a stream that begins by GTID, from which the server leaves out the transactions we have:
        offsets come from the events' own counts, in which a gap of 4 GiB does not show.

        Raises:
            SourceError: The server ends the stream with an error.
            FormatError: An event is damaged.
        """
        while True:
            packets = self._read()
            for index in range(len(packets.start)):
                with error_context(**self._where()):
                    begins = self._advance(packets, index)
                if begins:
                    return self._at.position
            if self._ended(packets):
                return self._at.position

    def _advance(self, packets: Packets, index: int) -> bool:
        """Move after an event; or before it, and return True, if it begins a transaction."""
        event, header = _event(packets, index), packets.header[index]
        type_code, log_pos = int(header["type"]), int(header["log_pos"])
        if self._at.description is not None and type_code != EventType.ROTATE:
            verify_checksum(event, self._at.description)
        begins = type_code in GROUP_STARTS
        before, of_the_log = self._at.offset, True
        if _controls(packets.header[index : index + 1])[0]:
            of_the_log = self._control(packets, index)
        if type_code == EventType.HEARTBEAT_V2:
            body = body_of(event, self._at.known())
            offset = Heartbeat.parse_v2(body, self._at.known()).offset
            self._at.offset = offset or self._at.offset
        elif log_pos:
            end = log_pos - int(header["size"]) if begins else log_pos
            self._at.offset += (end - self._at.offset) & _OFFSET_MASK
        if of_the_log:
            self._pace.event()
        elif self._at.offset != before:
            self._pace.skipped()
        else:
            self._pace.heartbeat(int(header["size"]))
        return begins

    def _segments(self) -> Iterator[tuple[Packets, int, int]]:
        """Yield runs of log events, each wholly in one file; follow what is between them."""
        while True:
            packets = self._read()
            first = 0
            for index in np.flatnonzero(_controls(packets.header)).tolist():
                if index > first:
                    self._pace.event()
                    yield packets, first, index
                with error_context(**self._where()):
                    of_the_log = self._control(packets, index)
                    if not of_the_log:
                        self._pace.heartbeat(int(packets.header[index]["size"]))
                first = index if of_the_log else index + 1
            if len(packets.start) > first:
                self._pace.event()
                yield packets, first, len(packets.start)
            if self._ended(packets):
                return

    def _ended(self, packets: Packets) -> bool:
        if packets.reply is None:
            return False
        if packets.reply[0] == _EOF:
            return True
        code, text = parse_reply(packets.reply)
        raise from_reply(code, text, **self._where())

    def _read(self) -> Packets:
        with error_context(**self._where()):
            return self._packets.read()

    def _where(self) -> dict[str, Any]:
        if not self._at.file:
            start = self._start
            return {} if start is None else {"file": start.file, "offset": start.offset}
        return {"file": self._at.file, "offset": self._at.offset}

    def _block(self, packets: Packets, first: int, last: int) -> EventBlock:
        return checked_block(
            packets.data,
            packets.start[first:last],
            packets.header[first:last],
            file=self._at.file,
            description=self._at.known(),
            offset=self._at.offset,
            neutral_gaps=True,
        )

    def _control(self, packets: Packets, index: int) -> bool:
        """Follow an event that controls the stream. Return whether it is one of the log too."""
        event = _event(packets, index)
        type_code = int(packets.header[index]["type"])
        if type_code == EventType.FORMAT_DESCRIPTION:
            description = FormatDescription.parse(event)
            of_the_log = self._at.offset == FIRST_OFFSET
            # A reminder is not as it stands in the file, and in a log without checksums the
            # server leaves it with the checksum that it has there.
            if of_the_log or description.checksum_size:
                verify_checksum(event, description)
            if self._start is not None:
                check_created(self._at.file, description.created, self._start)
            self._at.description = description
            return of_the_log
        if type_code == EventType.ROTATE:
            self._enter(Rotate.parse(_rotate_body(event)))
            return False
        # What is skipped is checked first: it might be a damaged event of the log.
        verify_checksum(event, self._at.known())
        if type_code == EventType.START_ENCRYPTION:
            header = packets.header[index]
            end = self._at.offset + int(header["size"])
            return int(header["log_pos"]) == end & _OFFSET_MASK
        if type_code not in _SKIPPED:
            raise FormatError(
                "an event that is in no file, of a type not known to occur there",
                **self._where(),
                event=event_name(type_code),
            )
        return False

    def _enter(self, rotate: Rotate) -> None:
        file = self._at.file
        if file:
            (log, number), (next_log, next_number) = map(split_file_name, (file, rotate.file))
            if log != next_log or number >= next_number:
                raise FormatError(
                    "the log does not continue in this file", file=file, next=rotate.file
                )
        elif self._start is not None and rotate.file != self._start.file:
            raise FormatError("the server sends another file than requested", sent=rotate.file)
        # The next event is the new file's FORMAT_DESCRIPTION: nothing is read by the old one.
        self._at = _LogOffset(rotate.file, rotate.offset)


def _controls(header: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return which events are in no file, or may be."""
    controls: npt.NDArray[np.bool_] = _IS_CONTROL[header["type"]]
    controls |= (header["flags"] & ARTIFICIAL) != 0
    return controls


def _event(packets: Packets, index: int) -> memoryview:
    begin = int(packets.start[index])
    return packets.data.data[begin : begin + int(packets.header[index]["size"])]


def _rotate_body(event: memoryview) -> memoryview:
    """Return an artificial ROTATE's body; only its bytes show whether it has a checksum."""
    end = len(event) - (CHECKSUM_SIZE if checksum_matches(event) else 0)
    return event[HEADER_SIZE:end]
