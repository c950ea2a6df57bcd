"""A live server as a source: one connection is one replica that asks for the log.

From the dump command on, the socket below PyMySQL is read here, in megabytes:

    artificial ROTATE (file, position) | FORMAT_DESCRIPTION | events … | artificial ROTATE | …

The FORMAT_DESCRIPTION is an event of the log where the stream begins with the file, and a reminder
where it begins inside it; so is the START_ENCRYPTION that follows it in a file that MariaDB
encrypts, and sends in clear. Heartbeats and artificial events are in no file.

Source: mysql-server, sql/rpl_binlog_sender.cc; mariadb, sql/sql_repl.cc.
"""

from __future__ import annotations

import math
import socket
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events import control
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import ARTIFICIAL, HEADER_SIZE, EventType, event_name
from airflow_provider_binlog.blocks.block import BLOCK_BYTES, IS_GROUP_START, EventBlock, type_mask
from airflow_provider_binlog.blocks.framing import checked_block
from airflow_provider_binlog.errors import ConnectionLostError, FormatError, error_context
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, split_file_name
from airflow_provider_binlog.transport import block_stream
from airflow_provider_binlog.transport.server import driver
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors, query
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply
from airflow_provider_binlog.transport.stream import commands
from airflow_provider_binlog.transport.stream.packets import (
    BLOCK_SECONDS_MAX,
    PacketReader,
    Packets,
)

# After so much silence the server sends a heartbeat; earlier if the connection would count as lost
# before the third.
_HEARTBEAT_SECONDS = 10

# A stream that is followed hands over what came after so long, or with the next heartbeat.
_FOLLOWED_SECONDS = 0.2


class ServerBlockStream:
    """The log of a server, over connections that `connect` opens.

    Every iterator has a connection of its own, and closes it: no command stops a server that sends.
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
        """Open nothing yet.

        Args:
            connect: Opens a connection that is logged in.
            flavor: Of the server.
            server_id: By which the server knows us; another replica's would end that one's
                stream. Where it is None or in use by a connection of ours, a high one is drawn.
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
            AccessDeniedError: The account may not read the log.
            SourceError: The server refuses; the class says why.
        """
        if block_stream.reaches(start.file, start.offset, stop):
            return
        with self._connection() as connection:
            server_id, flags = self._prepare(connection), commands.dump_flags(self._flavor)
            request = commands.binlog_dump(start, server_id=server_id, flags=flags)
            for block in self._dump(connection, request).blocks(start):
                if stop is not None and block_stream.reaches(
                    block.file, int(block.offset[0]), stop
                ):
                    return
                yield block
                if block_stream.reaches(block.file, block.next_offset, stop):
                    return

    def follow(self, start: Position) -> Generator[EventBlock]:
        """Yield the events from `start` on, and what is logged later: it ends only by an error.

        Raises:
            AccessDeniedError, SourceError: As `blocks`.
            ConnectionLostError: The server ended the stream, as after KILL QUERY.
        """
        with self._connection() as connection:
            server_id = self._prepare(connection, heartbeat_seconds=_FOLLOWED_SECONDS)
            flags = commands.dump_flags(self._flavor) & ~commands.NON_BLOCK
            request = commands.binlog_dump(start, server_id=server_id, flags=flags)
            dump = self._dump(connection, request, block_seconds_max=_FOLLOWED_SECONDS)
            yield from dump.blocks(start)
        raise ConnectionLostError("the server ended the stream of its log", started=start)

    def position_after(self, gtid: str) -> Position:
        """Return where the first transaction begins that is not in a GTID set, in text.

        Its `gtid` is the set given; the empty one means the log's beginning. A set with holes may
        hold transactions after that position too: those are in the blocks from there on.

        Raises:
            PositionPurgedError: The server has purged transactions that are not in the set.
            ForeignPositionError: The set is not of this server's history.
            ServerSetupError: The server has no GTIDs.
            FormatError: The text is no GTID set.
        """
        with self._connection() as connection:
            flags = commands.dump_flags(self._flavor)
            if self._flavor is Flavor.MYSQL:
                executed, server_id = GtidSet.parse(gtid), self._prepare(connection)
                request = commands.binlog_dump_gtid(executed, server_id=server_id, flags=flags)
            else:
                server_id = self._prepare(connection, MariadbGtidPosition.parse(gtid))
                start = Position("", FIRST_OFFSET)
                request = commands.binlog_dump(start, server_id=server_id, flags=flags)
            position = self._dump(connection, request).first_transaction()
        return replace(position, gtid=gtid)

    def close(self) -> None:
        """Close the connections of iterators that are not at their end."""
        for connection in list(self._open):
            driver.cut(connection)
        self._open.clear()

    def _prepare(
        self,
        connection: Connection,
        connect_state: MariadbGtidPosition | None = None,
        *,
        heartbeat_seconds: float = _HEARTBEAT_SECONDS,
    ) -> int:
        """Prepare a session that was opened just now, and register; return the server id."""
        server_id = self._server_id
        # Only one may have the id that was given: MariaDB ends an older stream under the same one.
        if server_id is None or len(self._open) > 1:
            server_id = commands.new_server_id()
        statements = commands.session_statements(
            self._flavor,
            heartbeat_seconds=min(heartbeat_seconds, self._silence_seconds_max / 3),
            connect_state=connect_state,
        )
        # MySQL ends an older stream with the same uuid: without one, with the same server id.
        identity = uuid.uuid4()
        statements.append(f"SET @slave_uuid = '{identity}', @replica_uuid = '{identity}'")
        for statement in statements:
            query(connection, statement)
        with driver_errors(command="COM_REGISTER_SLAVE"):
            command = commands.register_slave(server_id, host=socket.gethostname()[:60])
            driver.send_command(connection, command)
            connection._read_ok_packet()  # type: ignore[attr-defined]  # noqa: SLF001
        return server_id

    def _dump(
        self,
        connection: Connection,
        request: bytes,
        *,
        block_seconds_max: float = BLOCK_SECONDS_MAX,
    ) -> Dump:
        """Send a dump command, and return the stream that answers it."""
        with driver_errors(command="COM_BINLOG_DUMP"):
            driver.send_command(connection, request)
        # Everything the server sent before has been read: PyMySQL's own buffer is empty, and what
        # comes now can be taken from the socket below it.
        raw: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001
        raw.settimeout(self._silence_seconds_max)
        pace = block_stream.Pace(self._silence_seconds_max)
        receive = block_stream.receiver(
            raw.recv_into, pace, ended="the connection ended before the log"
        )
        packets = PacketReader(
            receive, block_bytes=self._block_bytes, block_seconds_max=block_seconds_max
        )
        return Dump(packets, pace)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with driver_errors():
            connection = self._connect()
        self._open.add(connection)
        try:
            yield connection
        finally:
            self._open.discard(connection)
            driver.cut(connection)


_EOF = 0xFE
_HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
# MariaDB repeats its list where a stream by GTID arrives at its start.
_SKIPPED = frozenset({*_HEARTBEATS, EventType.MARIADB_GTID_LIST})
_IS_CONTROL = type_mask([EventType.FORMAT_DESCRIPTION, EventType.START_ENCRYPTION, *_HEARTBEATS])
_OFFSET_MASK = 0xFFFFFFFF


class Dump:
    """One stream, from the dump command's reply to its end."""

    def __init__(self, packets: PacketReader, pace: block_stream.Pace | None = None) -> None:
        self._packets = packets
        self._pace = pace or block_stream.Pace(math.inf)
        self._start: Position | None = None
        self._file = ""
        self._offset = 0
        self._description: control.FormatDescription | None = None

    def blocks(self, start: Position) -> Iterator[EventBlock]:
        """Yield the log's events from `start` on, until the server has no more.

        The server may begin earlier in the same file: what comes before `start` is skipped.
        """
        self._start = start
        for packets, first, last in self._segments():
            block = self._block(packets, first, last)
            self._offset = block.next_offset
            if block.file != start.file or block.offset[0] >= start.offset:
                yield block
            elif block.next_offset > start.offset:
                yield block_stream.events_from(block, start.offset)

    def first_transaction(self) -> Position:
        """Return where the stream's first transaction begins, or where the log ends without one.

        For a stream that begins by GTID, from which the server leaves out the transactions we have:
        offsets come from the events' own counts, in which a gap of 4 GiB does not show.
        """
        begins = ended = False
        while not begins and not ended:
            packets = self._read()
            for index in range(len(packets.start)):
                with error_context(**self._where()):
                    begins = self._advance(packets, index)
                if begins:
                    break
            else:
                ended = self._ended(packets)
        return Position(self._file, self._offset, file_created=self._format().created)

    def _advance(self, packets: Packets, index: int) -> bool:
        """Move after an event; or before it, and return True, if it begins a transaction."""
        event, header = _event(packets, index), packets.header[index]
        type_code, log_pos = int(header["type"]), int(header["log_pos"])
        if self._description is not None and type_code != EventType.ROTATE:
            control.verify_checksum(event, self._description)
        begins = bool(IS_GROUP_START[type_code])
        before, of_the_log = self._offset, True
        if _controls(packets.header[index : index + 1])[0]:
            of_the_log = self._control(packets, index)
        if type_code == EventType.HEARTBEAT_V2:
            body = control.body_of(event, self._format())
            self._offset = control.read_heartbeat_offset(body, self._format()) or self._offset
        elif log_pos:
            end = log_pos - int(header["size"]) if begins else log_pos
            self._offset += (end - self._offset) & _OFFSET_MASK
        if of_the_log:
            self._pace.event()
        elif self._offset != before:
            self._pace.skipped(int(header["size"]))
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
        raise from_reply(*parse_reply(packets.reply), **self._where())

    def _format(self) -> control.FormatDescription:
        if self._description is None:
            raise FormatError("the stream does not begin with ROTATE and FORMAT_DESCRIPTION")
        return self._description

    def _read(self) -> Packets:
        with error_context(**self._where()):
            return self._packets.read()

    def _where(self) -> dict[str, Any]:
        if self._file:
            return {"file": self._file, "offset": self._offset}
        start = self._start
        return {} if start is None else {"file": start.file, "offset": start.offset}

    def _block(self, packets: Packets, first: int, last: int) -> EventBlock:
        return checked_block(
            packets.data,
            packets.start[first:last],
            packets.header[first:last],
            file=self._file,
            description=self._format(),
            offset=self._offset,
            neutral_gaps=True,
        )

    def _control(self, packets: Packets, index: int) -> bool:
        """Follow an event that controls the stream. Return whether it is one of the log too."""
        event = _event(packets, index)
        type_code = int(packets.header[index]["type"])
        if type_code == EventType.FORMAT_DESCRIPTION:
            description = control.FormatDescription.parse(event)
            of_the_log = self._offset == FIRST_OFFSET
            # A reminder is not as it stands in the file, and in a log without checksums the
            # server leaves it with the checksum that it has there.
            if of_the_log or description.checksum_size:
                control.verify_checksum(event, description)
            if self._start is not None:
                block_stream.check_created(self._file, description.created, self._start)
            self._description = description
            return of_the_log
        if type_code == EventType.ROTATE:
            self._enter(control.Rotate.parse(_rotate_body(event)))
            return False
        # What is skipped is checked first: it might be a damaged event of the log.
        control.verify_checksum(event, self._format())
        if type_code == EventType.START_ENCRYPTION:
            header = packets.header[index]
            end = self._offset + int(header["size"])
            return int(header["log_pos"]) == end & _OFFSET_MASK
        if type_code not in _SKIPPED:
            raise FormatError(
                "an event that is in no file, of a type not known to occur there",
                **self._where(),
                event=event_name(type_code),
            )
        return False

    def _enter(self, rotate: control.Rotate) -> None:
        file = self._file
        if file:
            (log, number), (next_log, next_number) = map(split_file_name, (file, rotate.file))
            if log != next_log or number >= next_number:
                raise FormatError(
                    "the log does not continue in this file", file=file, next=rotate.file
                )
        elif self._start is not None and rotate.file != self._start.file:
            raise FormatError("the server sends another file than requested", sent=rotate.file)
        # The next event is the new file's FORMAT_DESCRIPTION: nothing is read by the old one.
        self._file, self._offset, self._description = rotate.file, rotate.offset, None


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
    end = len(event) - (control.CHECKSUM_SIZE if control.checksum_matches(event) else 0)
    return event[HEADER_SIZE:end]
