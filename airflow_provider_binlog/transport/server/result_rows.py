"""The rows of a SELECT in the binary protocol, in blocks of a few megabytes, where they were read.

A statement is prepared and executed without parameters: then integers and floats come as their
bytes, and dates in parts, so that nothing is lost in a text. Each row is a packet of its own:

    | 3 length of what follows the sequence number | 1 sequence number | 1 (0) | row |

A row of 16 MiB or more comes in several packets, and is joined into a block of its own.

Source: MySQL Internals, "Binary Protocol Resultset", "COM_STMT_PREPARE Response", "MySQL Packets".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pymysql.protocol import FieldDescriptorPacket

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.transport.block_stream import Pace, receiver
from airflow_provider_binlog.transport.server import driver
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply

BLOCK_BYTES = 4 << 20
"""As many bytes are framed together, or one row."""

LEAD = 16
"""Bytes before the first packet of a block that may be read, without meaning."""

SLACK = 64
"""Bytes after the last row of a block that may be read, without meaning."""

_COM_STMT_PREPARE = 0x16
_COM_STMT_EXECUTE = 0x17
_COM_STMT_CLOSE = 0x19

_HEADER_SIZE = 4
_LENGTH_MAX = 0xFFFFFF  # such a packet is continued by the next one
_ROW_BYTES_MAX = 1 << 31  # a packet of a server has 1 GiB at most
_ROW, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_EOF_SIZE = 5
_ERROR_BYTES_MAX = 1024
_FRONT = struct.Struct("<IB")  # a length and a sequence number, and what the packet is


@dataclass(frozen=True)
class RowBlock:
    """Some rows.

    Attributes:
        data: uint8; `LEAD` bytes before the rows and `SLACK` bytes after them have no meaning.
        start, stop: int64; where each row begins, at its NULL bits, and where it ends.
    """

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.start)


class ResultRows(NamedTuple):
    """The answer to a statement.

    Attributes:
        types: The code of each column's type in the protocol.
        blocks: The rows; taken once. An error of the server in the middle of them is raised where
            it comes.
    """

    types: tuple[int, ...]
    blocks: Iterator[RowBlock]


@contextmanager
def select_rows(
    connection: Connection, statement: str, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[ResultRows]:
    """Execute a SELECT, and read its rows while the context is open.

    A connection whose rows were not all read is closed: it has no other way to be rid of them.

    Raises:
        ConnectionLostError: The connection ended.
        FormatError: The bytes are no result set.
        SourceError: The server refused, before the rows or in the middle of them.
    """
    finished = False
    try:
        with driver_errors():
            statement_id, count = _prepare(connection, statement)
            types = _execute(connection, statement_id, count)
            reader = _read_rows(connection, block_bytes)
        yield ResultRows(types, reader.blocks())
        finished = reader.finished
        if finished:
            with driver_errors():
                close = struct.pack("<BI", _COM_STMT_CLOSE, statement_id)
                driver.send_command(connection, close)  # no answer
    finally:
        if not finished:
            driver.cut(connection)


def _prepare(connection: Connection, statement: str) -> tuple[int, int]:
    """Return the statement's id, and how many columns its rows have."""
    driver.send_command(connection, bytes((_COM_STMT_PREPARE,)) + statement.encode("utf-8"))
    status, statement_id, columns, parameters = driver.read_packet(connection).read_struct("<BIHH")
    if status:
        raise FormatError("not the answer to a statement that is prepared")
    for count in (parameters, columns):
        if count:
            _read_columns(connection, count)
    if not columns or parameters:
        raise FormatError("not a statement that returns rows and takes no parameters")
    return statement_id, columns


def _execute(connection: Connection, statement_id: int, count: int) -> tuple[int, ...]:
    """Return the types of the columns of the rows that come next."""
    no_cursor, iterations = 0, 1
    execute = struct.pack("<BIBI", _COM_STMT_EXECUTE, statement_id, no_cursor, iterations)
    driver.send_command(connection, execute)
    if driver.read_packet(connection).read_length_encoded_integer() != count:
        raise FormatError("a statement returns other columns than when it was prepared")
    return _read_columns(connection, count)


def _read_columns(connection: Connection, count: int) -> tuple[int, ...]:
    packets = (driver.read_packet(connection, FieldDescriptorPacket) for _ in range(count))
    types = tuple(packet.type_code for packet in packets)
    # PyMySQL never sets CLIENT_DEPRECATE_EOF, so that the end is always marked.
    if driver.read_packet(connection).get_all_data()[:1] != bytes((_EOF,)):
        raise FormatError("a result set has more columns than it declares")
    return types


def _read_rows(connection: Any, block_bytes: int) -> _RowReader:
    """Return what reads the rows: what PyMySQL has read ahead, then what the socket has."""
    # A deadline of PyMySQL's may have left the socket less.
    seconds = connection._read_timeout  # noqa: SLF001
    connection._sock.settimeout(seconds)  # noqa: SLF001
    connection._current_timeout = seconds  # noqa: SLF001
    # At least the packet that ends the rows comes now: this waits for nothing else.
    file = connection._rfile  # noqa: SLF001
    ahead = memoryview(file.read(len(file.peek())))
    pace = Pace(math.inf if seconds is None else seconds)
    ended = "the connection ended before the rows of a SELECT"
    return _RowReader(receiver(file.raw.readinto, pace, ended=ended), ahead, block_bytes)


class _RowReader:
    def __init__(
        self, receive: Callable[[memoryview], int], ahead: memoryview, block_bytes: int
    ) -> None:
        self.finished = False
        self._receive = receive
        self._block_bytes = block_bytes
        self._sequence: int | None = None
        self._rest = ahead
        self._failure: bytes | None = None

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows; raise what the server sends in their place."""
        wanted = self._block_bytes
        while not self.finished:
            block, wanted = self._read_block(max(self._block_bytes, wanted, len(self._rest)))
            if len(block):
                yield block
            if self._failure is not None:
                raise from_reply(*parse_reply(self._failure))
            if wanted > _LENGTH_MAX + _HEADER_SIZE:
                yield self._read_long()
                wanted = self._block_bytes

    def _read_block(self, capacity: int) -> tuple[RowBlock, int]:
        """Return a block of rows, none if the next one does not fit, and the bytes it takes."""
        data = np.empty(LEAD + capacity + SLACK, dtype=np.uint8)
        view = data.data[LEAD : LEAD + capacity]
        filled = len(self._rest)
        view[:filled] = self._rest
        starts: list[int] = []
        at, wanted = self._frame(view, 0, filled, starts)
        while wanted and filled < capacity:
            filled += self._receive(view[filled:])
            at, wanted = self._frame(view, at, filled, starts)
        self._rest = view[at:filled]
        return self._checked(data, starts, at), wanted

    def _frame(self, view: memoryview, at: int, filled: int, starts: list[int]) -> tuple[int, int]:
        """Add where the rows of whole packets begin; return where they end, and what is wanted.

        That is the size of the packet which is not whole yet, or 0 after the last packet.
        """
        unpack, add = _FRONT.unpack_from, starts.append
        last = filled - _FRONT.size
        while at <= last:
            front, kind = unpack(view, at)
            size = front & _LENGTH_MAX
            end = at + _HEADER_SIZE + size
            if size == _LENGTH_MAX or end > filled:
                return at, _HEADER_SIZE + size + (size == _LENGTH_MAX)
            if kind != _ROW or not size:
                self._end(view[at + _HEADER_SIZE : end])
                return at, 0
            add(at)
            at = end
        return at, _FRONT.size

    def _end(self, reply: memoryview) -> None:
        if reply[:1] == bytes((_ERROR,)) and len(reply) < _ERROR_BYTES_MAX:
            self._failure = bytes(reply)
        elif reply[:1] != bytes((_EOF,)) or len(reply) != _EOF_SIZE:
            raise FormatError("neither a row nor the end of rows", found=bytes(reply[:8]).hex())
        self.finished = self._failure is None

    def _checked(self, data: npt.NDArray[np.uint8], starts: list[int], at: int) -> RowBlock:
        """Return the rows of packets that begin at `starts`; the last one ends at `at`."""
        begin = np.array(starts, dtype=np.int64) + LEAD
        if len(begin):
            number = data[begin + 3]
            first = int(number[0]) if self._sequence is None else self._sequence
            expected = (first + np.arange(len(begin))).astype(np.uint8)
            if (number != expected).any():
                raise FormatError("the packets of a result set are not in order")
            self._sequence = (first + len(begin)) & 0xFF
        if self.finished and self._sequence not in (None, data[at + LEAD + 3]):
            raise FormatError("the packets of a result set are not in order")
        stop = np.append(begin[1:], at + LEAD)[: len(begin)]
        return RowBlock(data, begin + _FRONT.size, stop)

    def _read_long(self) -> RowBlock:
        parts: list[bytes] = []
        size = _LENGTH_MAX
        while size == _LENGTH_MAX:
            header = self._take(_HEADER_SIZE)
            size = int.from_bytes(header[:3], "little")
            if self._sequence is not None and header[3] != self._sequence:
                raise FormatError("the packets of a result set are not in order")
            self._sequence = (header[3] + 1) & 0xFF
            parts.append(self._take(size))
            if len(parts) * _LENGTH_MAX > _ROW_BYTES_MAX:
                raise FormatError("a row is larger than a server can send", max=_ROW_BYTES_MAX)
        row = b"".join([bytes(LEAD), *parts, bytes(SLACK)])
        if row[LEAD] != _ROW:
            raise FormatError("neither a row nor the end of rows", found=row[LEAD : LEAD + 8].hex())
        start, stop = LEAD + 1, len(row) - SLACK
        return RowBlock(np.frombuffer(row, dtype=np.uint8), np.array([start]), np.array([stop]))

    def _take(self, size: int) -> bytes:
        taken = bytearray(size)
        view = memoryview(taken)
        filled = min(size, len(self._rest))
        view[:filled] = self._rest[:filled]
        self._rest = self._rest[filled:]
        while filled < size:
            filled += self._receive(view[filled:])
        return bytes(taken)
