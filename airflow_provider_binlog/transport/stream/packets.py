"""The events of a replication stream, framed where the socket put them.

    | 3 length of what follows the sequence number | 1 sequence number | 1 status (0) | event |

Packets are found as events are in a file: a server id is 10 bytes after a packet's first byte, and
each packet ends where the next one begins. The five bytes before an event, once checked, are
overwritten with bytes that do not change its checksum, so that the checksums of a block hold
together as in a file. An event of 16 MiB - 2 bytes or more comes in several packets; it is joined
into a block of its own.

Source: MySQL Internals, "MySQL Packets"; mysql-server, sql/rpl_binlog_sender.cc, send_packet.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.header import HEADER_SIZE
from airflow_provider_binlog.blocks import framing
from airflow_provider_binlog.blocks.block import BLOCK_BYTES, NEUTRAL, SLACK
from airflow_provider_binlog.errors import ConnectionLostError, FormatError

_PACKET_HEADER_SIZE = 4
_PREFIX_SIZE = 5  # with the status byte
_LENGTH_MAX = 0xFFFFFF  # such a packet is continued by the next one
_STATUS_EVENT, _STATUS_EOF, _STATUS_ERROR = 0x00, 0xFE, 0xFF
_EOF_SIZE = 5
_EOF_END = 9  # longer packets that begin with its status are something else
# 0xff, a code of two bytes, "#", an SQL state of five bytes, and a text of at most 512.
_STATE_OFFSET = _PACKET_HEADER_SIZE + 3
_ERROR_BYTES_MAX = 1024

BLOCK_SECONDS_MAX = 1.0
"""A block that fills slowly is handed over: its last event may be the last one wanted, and what
follows only heartbeats."""

_PACKET = np.dtype(
    {
        "names": ["length", "status", *framing.HEADER_FIELDS],
        "formats": ["<u4", "u1", *(form for form, _ in framing.HEADER_FIELDS.values())],
        "offsets": [0, 4, *(_PREFIX_SIZE + offset for _, offset in framing.HEADER_FIELDS.values())],
        "itemsize": _PREFIX_SIZE + HEADER_SIZE,
    }
)
"""The start of a packet; the upper byte of `length` is the sequence number."""

_FRONT = struct.Struct("<IBIBIIIH")
_SERVER_ID_OFFSET = _PREFIX_SIZE + framing.SERVER_ID_OFFSET

Receive = Callable[[memoryview], int]
"""Fills the front of a buffer with what came, at least one byte, and returns how many."""


@dataclass(frozen=True)
class Packets:
    """Some consecutive events of a stream, unchecked.

    Attributes:
        data: `block.SLACK` bytes more than are used. `block.NEUTRAL` precedes every event.
        start: int64; where each event begins.
        header: Records with the fields of `HEADER`, one per event.
        reply: The EOF or ERR packet after the last event; None while the stream continues.
    """

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    header: npt.NDArray[np.void]
    reply: bytes | None


class PacketReader:
    """Reads a replication stream from the reply to the dump command on."""

    def __init__(
        self,
        receive: Receive,
        *,
        block_bytes: int = BLOCK_BYTES,
        block_seconds_max: float = BLOCK_SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receive = receive
        self._block_bytes = block_bytes
        self._block_seconds_max = block_seconds_max
        self._clock = clock
        self._scanner = framing.ServerIdScanner()
        self._sequence = 1
        self._rest = memoryview(b"")
        self._wanted = 0
        self._error: FormatError | ConnectionLostError | None = None

    def read(self) -> Packets:
        """Return the next events: a block full, or what there is before the stream's end."""
        while True:
            if self._error is not None:
                raise self._error
            packets = self._read_long() if self._long_ahead() else self._read_block()
            if len(packets.start) or packets.reply is not None:
                return packets

    def _read_block(self) -> Packets:
        capacity = max(self._block_bytes, self._wanted)
        data = np.empty(capacity + SLACK, dtype=np.uint8)
        view = data.data[:capacity]
        filled = len(self._rest)
        view[:filled] = self._rest
        until = self._clock() + self._block_seconds_max
        lost = None
        while filled < self._wanted or (
            filled < capacity
            and not _may_end_with_reply(view[:filled])
            and (not filled or self._clock() < until)
        ):
            try:
                filled += self._receive(view[filled:])
            except ConnectionLostError as error:
                if filled <= len(self._rest):
                    raise
                lost = error  # after what came before, of which the reader may need no more
                break
        packets, end = self._frame(data, filled)
        self._rest = view[end:filled]
        self._error = self._error or lost
        return packets

    def _frame(self, data: npt.NDArray[np.uint8], end: int) -> tuple[Packets, int]:
        """Return the whole packets at the front of `data[:end]`, and where they end."""
        packet, front, at, following = framing.follow_records(
            data,
            0,
            self._scanner,
            candidates=lambda at: self._candidates(data, at, end),
            peek=lambda at: _peek(data.data[at:end]),
            prefix_size=_PREFIX_SIZE,
        )
        # An error is kept: bytes before it may be damaged too, and that error is raised first.
        self._wanted, self._error = following.wanted, following.error
        return self._checked(data, packet, front, following.reply), at

    def _candidates(
        self, data: npt.NDArray[np.uint8], begin: int, end: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
        """Return where a known server id stands in what may be the front of a whole packet."""
        id_end = end - _PACKET.itemsize + _SERVER_ID_OFFSET + 4
        packet = self._scanner.find(data, begin + _SERVER_ID_OFFSET, id_end)
        packet -= _SERVER_ID_OFFSET
        front = framing.read_records(data, packet, _PACKET)
        size = front["size"]
        fits = (front["length"] & _LENGTH_MAX) == size + np.uint32(1)
        fits &= (front["status"] == _STATUS_EVENT) & (size >= HEADER_SIZE)
        fits &= (size < _LENGTH_MAX - 1) & (packet + size + _PREFIX_SIZE <= end)
        if fits.all():
            return packet, front
        which = np.flatnonzero(fits)
        return packet[which], framing.take_records(front, which)

    def _checked(
        self,
        data: npt.NDArray[np.uint8],
        packet: npt.NDArray[np.int64],
        front: npt.NDArray[np.void],
        reply: bytes | None,
    ) -> Packets:
        """Return the packets with their sequence numbers verified and overwritten."""
        sequence = (front["length"] >> np.uint32(24)).astype(np.uint8)
        wanted = (np.arange(len(packet)) + self._sequence).astype(np.uint8)
        if not np.array_equal(sequence, wanted):
            raise _out_of_order()
        self._sequence = (self._sequence + len(packet)) % 256
        prefix = np.ndarray((len(data) - _PREFIX_SIZE,), f"V{_PREFIX_SIZE}", data, strides=(1,))
        prefix[packet] = np.void(NEUTRAL)
        return Packets(data, packet + _PREFIX_SIZE, front, reply)

    def _long_ahead(self) -> bool:
        return len(self._rest) > _PACKET_HEADER_SIZE and bytes(self._rest[:3]) == b"\xff\xff\xff"

    def _read_long(self) -> Packets:
        front = memoryview(bytearray(_PACKET.itemsize))
        self._take(front)
        size = _FRONT.unpack(front)[5]
        proper = _LENGTH_MAX - 1 <= size <= framing.EVENT_BYTES_MAX
        if front[_PACKET_HEADER_SIZE] != _STATUS_EVENT or not proper:
            raise FormatError("a long packet holds no event", size=size)
        length = self._packet_length(front[:_PACKET_HEADER_SIZE])
        data = np.empty(_PREFIX_SIZE + size + SLACK, dtype=np.uint8)
        view = data.data[: _PREFIX_SIZE + size]
        view[: len(front)] = front
        at, left = len(front), _PACKET_HEADER_SIZE + length - len(front)
        while True:
            if at + left > len(view):
                raise FormatError("a packet is longer than its event", size=size)
            self._take(view[at : at + left])
            at += left
            if length < _LENGTH_MAX:
                break
            header = memoryview(bytearray(_PACKET_HEADER_SIZE))
            self._take(header)
            length = left = self._packet_length(header)
        if at != len(view):
            raise FormatError("a packet is shorter than its event", size=size)
        view[:_PREFIX_SIZE] = NEUTRAL
        self._wanted = 0
        start = np.array([_PREFIX_SIZE])
        return Packets(data, start, framing.read_records(data, start, framing.HEADER), None)

    def _packet_length(self, header: memoryview) -> int:
        if header[3] != self._sequence:
            raise _out_of_order()
        self._sequence = (self._sequence + 1) % 256
        return int.from_bytes(header[:3], "little")

    def _take(self, view: memoryview) -> None:
        """Fill all of `view` with the next bytes of the stream."""
        filled = min(len(view), len(self._rest))
        view[:filled] = self._rest[:filled]
        self._rest = self._rest[filled:]
        while filled < len(view):
            filled += self._receive(view[filled:])


def _may_end_with_reply(data: memoryview) -> bool:
    """Whether the last bytes look like an EOF or ERR packet, after which nothing comes.

    Never False for one that is whole. True inside an event costs no more than a short block.
    """
    # EOF: | 5 0 0 | sequence number | 0xfe | 2 warnings | 2 status |
    eof = bytes(data[-_PACKET_HEADER_SIZE - _EOF_SIZE :])
    if eof[:3] == b"\x05\0\0" and eof[_PACKET_HEADER_SIZE:][:1] == b"\xfe":
        return True
    tail = bytes(data[-_ERROR_BYTES_MAX:])
    state = tail.rfind(b"#")
    while state >= 0:
        packet = state - _STATE_OFFSET
        if packet >= 0 and tail[packet + _PACKET_HEADER_SIZE] == _STATUS_ERROR:
            length = int.from_bytes(tail[packet : packet + 3], "little")
            if packet + _PACKET_HEADER_SIZE + length == len(tail):
                return True
        state = tail.rfind(b"#", 0, state)
    return False


def _peek(data: memoryview) -> framing.Peeked:
    """Return what `data` begins with; nothing for the first packet of several of a long event."""
    has_status = len(data) >= _PREFIX_SIZE
    length = int.from_bytes(data[:3], "little")
    if has_status and length == _LENGTH_MAX:
        return framing.Peeked()
    size = _PACKET_HEADER_SIZE + length if has_status else _PREFIX_SIZE
    if len(data) < size:
        return framing.Peeked(wanted=size)
    body = data[_PACKET_HEADER_SIZE:size]
    status = body[0] if length else None
    if status == _STATUS_ERROR or (status == _STATUS_EOF and length < _EOF_END):
        return framing.Peeked(reply=bytes(body))
    if status != _STATUS_EVENT or length <= HEADER_SIZE:
        return framing.Peeked(
            error=FormatError("a packet holds no event", length=length, status=status)
        )
    *_, server_id, event_size, _, _ = _FRONT.unpack_from(data)
    if event_size != length - 1:
        wrong = FormatError("a packet and its event differ in size", length=length, size=event_size)
        return framing.Peeked(error=wrong)
    return framing.Peeked(server_id, size)


def _out_of_order() -> FormatError:
    return FormatError("a packet of the stream is missing, or out of order")
