"""The rows of a SELECT in the binary protocol, in blocks of a few megabytes, where they were read.

A statement is prepared and executed without parameters: then integers and floats come as their
bytes, and dates in parts, so that nothing is lost in a text and nothing has to be parsed. Each row
is a packet of its own:

    | 3 length of what follows the sequence number | 1 sequence number | 1 (0) | row |

The packets are framed here, and the rows stay undecoded. A row of 16 MiB or more comes in several
packets, and is joined into a block of its own.

Source: MySQL Internals, "Binary Protocol Resultset", "COM_STMT_PREPARE Response" and "MySQL
Packets"; mysql-server, sql/protocol_classic.cc; mariadb, sql/protocol.cc and sql/sql_prepare.cc.
"""

from __future__ import annotations

import math
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.transport.block_stream import Pace, receiver
from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql

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
class ResultColumn:
    """A column of a result set, as the server describes it.

    Attributes:
        name: Its alias, or else its name.
        type: The code of its type in the protocol.
    """

    name: str
    type: int


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
        """How many rows there are."""
        return len(self.start)


@dataclass(frozen=True)
class ResultRows:
    """The answer to a statement.

    Attributes:
        columns: In the order of the statement.
        blocks: The rows; taken once. An error of the server in the middle of them is raised where
            it comes.
    """

    columns: tuple[ResultColumn, ...]
    blocks: Iterator[RowBlock]


@contextmanager
def select_rows(
    connection: pymysql.Connection[Any], statement: str, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[ResultRows]:
    """Execute a SELECT, and read its rows while the context is open.

    A connection whose rows were not all read is closed: it has no other way to be rid of them.

    Raises:
        ConnectionLostError: The connection ended.
        FormatError: The bytes are no result set.
        SourceError: The server refused, before the rows or in the middle of them.
    """
    wire = _Wire(connection)
    finished = False
    try:
        with driver_errors():
            statement_id, count = wire.prepare(statement)
            columns = wire.execute(statement_id, count)
        reader = _RowReader(wire, block_bytes)
        yield ResultRows(columns, reader.blocks())
        finished = reader.finished
        if finished:
            with driver_errors():
                wire.close_statement(statement_id)
    finally:
        if not finished:
            wire.cut()


class _Wire:
    """A PyMySQL connection below its cursors."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection: Any = connection
        self._ahead = b""
        self._receive: Callable[[memoryview], int]  # set where the rows begin

    def prepare(self, statement: str) -> tuple[int, int]:
        """Return the statement's id, and how many columns its rows have."""
        self._send(_COM_STMT_PREPARE, statement.encode("utf-8"))
        reply = self._packet()
        if len(reply) < 9 or reply[0] != 0:
            raise FormatError("not the answer to a statement that is prepared")
        statement_id, columns, parameters = struct.unpack_from("<IHH", reply, 1)
        for count in (parameters, columns):
            if count:
                self._skip(count)
        if not columns or parameters:
            raise FormatError("not a statement that returns rows and takes no parameters")
        return statement_id, columns

    def execute(self, statement_id: int, count: int) -> tuple[ResultColumn, ...]:
        """Return the columns of the rows that come next."""
        no_cursor, iterations = 0, 1
        request = struct.pack("<IBI", statement_id, no_cursor, iterations)
        self._send(_COM_STMT_EXECUTE, request)
        if (sent := _lenenc(self._packet(), 0)[0]) != count:
            raise FormatError("a statement returns other columns than when it was prepared")
        columns = tuple(_read_column(self._packet()) for _ in range(sent))
        self._end_of_columns()
        # A deadline of PyMySQL's may have left the socket less.
        seconds = self._connection._read_timeout  # noqa: SLF001
        self._connection._sock.settimeout(seconds)  # noqa: SLF001
        self._connection._current_timeout = seconds  # noqa: SLF001
        # At least the packet that ends the rows comes now: this waits for nothing else.
        file = self._connection._rfile  # noqa: SLF001
        self._ahead = file.read(len(file.peek()))
        pace = Pace(math.inf if seconds is None else seconds)
        ended = "the connection ended before the rows of a SELECT"
        self._receive = receiver(file.raw.readinto, pace, ended=ended)
        return columns

    def close_statement(self, statement_id: int) -> None:
        """Let the server forget the statement; it does not answer."""
        self._send(_COM_STMT_CLOSE, struct.pack("<I", statement_id))

    def receive(self, buffer: memoryview) -> int:
        """Fill the front of a buffer with what came, at least one byte; return how many.

        What PyMySQL has read ahead comes first; then, past its buffer, what the socket has, be it
        plain or TLS.
        """
        if self._ahead:
            count = min(len(self._ahead), len(buffer))
            buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            return count
        return self._receive(buffer)

    def cut(self) -> None:
        """Close the socket without a farewell: the server may be in the middle of sending."""
        self._connection._force_close()  # noqa: SLF001

    def _skip(self, count: int) -> None:
        for _ in range(count):
            self._packet()
        self._end_of_columns()

    def _end_of_columns(self) -> None:
        # PyMySQL never sets CLIENT_DEPRECATE_EOF, so that the end is always marked.
        if self._packet()[:1] != bytes((_EOF,)):
            raise FormatError("a result set has more columns than it declares")

    def _send(self, command: int, request: bytes) -> None:
        self._connection._execute_command(command, request)  # noqa: SLF001

    def _packet(self) -> bytes:
        return bytes(self._connection._read_packet().get_all_data())  # noqa: SLF001


class _RowReader:
    """Frames the packets of rows, up to the one that ends them."""

    def __init__(self, wire: _Wire, block_bytes: int) -> None:
        self.finished = False
        self._wire = wire
        self._block_bytes = block_bytes
        self._sequence: int | None = None
        self._rest = memoryview(b"")
        self._failure: bytes | None = None

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows; raise what the server sends in their place."""
        wanted = self._block_bytes
        while not self.finished:
            block, wanted = self._read_block(max(self._block_bytes, wanted))
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
            filled += self._wire.receive(view[filled:])
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
        """Read a row that comes in several packets."""
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
            filled += self._wire.receive(view[filled:])
        return bytes(taken)


def _read_column(packet: bytes) -> ResultColumn:
    """Read a column's description: catalog, database, table, its name, the column, its name ...

    Source: MySQL Internals, "Protocol::ColumnDefinition41".
    """
    at, texts = 0, []
    try:
        for _ in range(6):
            size, at = _lenenc(packet, at)
            texts.append(packet[at : at + size])
            at += size
        # MariaDB puts extended metadata before the fixed fields only if the client wants it.
        _, at = _lenenc(packet, at)
        return ResultColumn(texts[4].decode(errors="replace"), packet[at + 6])
    except IndexError as error:
        raise FormatError("the description of a column ends early") from error


def _lenenc(packet: bytes, at: int) -> tuple[int, int]:
    """Return the length-encoded integer at an offset, and where it ends."""
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(packet[at])
    if width is None:
        return packet[at], at + 1
    return int.from_bytes(packet[at + 1 : at + 1 + width], "little"), at + 1 + width
