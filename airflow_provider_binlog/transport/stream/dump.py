"""The stream after a dump command: log events, and events that only control the stream.

    artificial ROTATE (file, position) | FORMAT_DESCRIPTION | events … | artificial ROTATE | …

The FORMAT_DESCRIPTION is an event of the log where the stream begins with the file, and a reminder
where it begins inside it; so is the START_ENCRYPTION that follows it in a file that MariaDB
encrypts, and sends in clear. Heartbeats and artificial events are in no file.

Source: mysql-server, sql/rpl_binlog_sender.cc, Binlog_sender::send_binlog,
send_format_description_event; mariadb, sql/sql_repl.cc, send_format_descriptor_event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from airflow_provider_binlog.binlog.header import (
    ARTIFICIAL,
    GROUP_STARTS,
    HEADER_SIZE,
    EventType,
    event_name,
)
from airflow_provider_binlog.blocks.block import type_mask
from airflow_provider_binlog.blocks.framing import checked_block
from airflow_provider_binlog.errors import FormatError, error_context
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name
from airflow_provider_binlog.transport.block_stream import check_created, events_from
from airflow_provider_binlog.transport.pace import Pace
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.transport.stream.packets import PacketReader, Packets

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
