"""Rows of a result set: framed whatever the socket gives at a time, refused where they are none."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from pymysql.protocol import MysqlPacket

from airflow_provider_binlog.errors import ConnectionLostError, FormatError
from airflow_provider_binlog.transport.server.result_rows import ResultRows, select_rows

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH_MAX = 0xFFFFFF
_EOF = b"\xfe\x00\x00\x02\x00"
_COLUMN = b"".join(
    bytes((len(text),)) + text for text in (b"def", b"", b"", b"", b"n", b"")
) + struct.pack("<BHIBHBH", 12, 63, 11, 3, 0, 0, 0)
_PREPARED = struct.pack("<BIHHBH", 0, 7, 1, 0, 0, 0)


class Raw:
    """A socket that gives at most so many bytes at a time."""

    def __init__(self, data: bytes, piece: int) -> None:
        self.left, self.piece = data, piece

    def readinto(self, buffer: memoryview) -> int:
        count = min(self.piece, len(buffer), len(self.left))
        buffer[:count], self.left = self.left[:count], self.left[count:]
        return count


class Ahead:
    """What PyMySQL has read ahead, and the socket below it."""

    def __init__(self, ahead: bytes, raw: Raw) -> None:
        self.ahead, self.raw = ahead, raw

    def peek(self) -> bytes:
        return self.ahead

    def read(self, size: int) -> bytes:
        taken, self.ahead = self.ahead[:size], self.ahead[size:]
        return taken


class Socket:
    def settimeout(self, _: float | None) -> None:
        """Do nothing: no test waits."""


class Connection:
    """A PyMySQL connection whose server has answered a statement."""

    def __init__(self, rows: bytes, *, ahead: int = 0, piece: int = 1 << 20) -> None:
        self._packets = [_PREPARED, _COLUMN, _EOF, b"\x01", _COLUMN, _EOF]
        self._rfile = Ahead(rows[:ahead], Raw(rows[ahead:], piece))
        self._sock, self._read_timeout = Socket(), None
        self.sent: list[int] = []
        self.is_cut = False

    def _execute_command(self, command: int, _: bytes) -> None:
        self.sent.append(command)

    def _read_packet(self, kind: Any) -> MysqlPacket:
        packet: MysqlPacket = kind(self._packets.pop(0), "utf-8")
        return packet

    def _force_close(self) -> None:
        self.is_cut = True


def packets(*payloads: bytes, first: int = 4) -> bytes:
    """Return payloads in packets, numbered from `first`; those of 16 MiB in several."""
    data, number = [], first
    for payload in payloads:
        rest, more = payload, True
        while more:
            piece, rest = rest[:_LENGTH_MAX], rest[_LENGTH_MAX:]
            more = len(piece) == _LENGTH_MAX
            data += [len(piece).to_bytes(3, "little"), bytes((number & 0xFF,)), piece]
            number += 1
    return b"".join(data)


def read(connection: Connection, block_bytes: int = 64) -> list[bytes]:
    """Return the rows, as they are after the byte that begins each."""
    untyped: Any = connection
    with select_rows(untyped, "SELECT n FROM t", block_bytes=block_bytes) as rows:
        return [
            bytes(block.data[start:stop])
            for block in rows.blocks
            for start, stop in zip(block.start.tolist(), block.stop.tolist(), strict=True)
        ]


ROWS = [bytes((0, 0, number, 0, 0, 0)) for number in range(30)] + [b"\0\0" + b"x" * 100]


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
@pytest.mark.parametrize("ahead", [0, 3, 40, 10_000])
def test_rows_are_the_same_however_they_come(piece: int, ahead: int) -> None:
    connection = Connection(packets(*ROWS, _EOF), ahead=ahead, piece=piece)

    assert read(connection) == [row[1:] for row in ROWS]
    assert not connection.is_cut
    assert connection.sent == [0x16, 0x17, 0x19]


def test_no_rows_is_no_block() -> None:
    assert read(Connection(packets(_EOF))) == []


def test_the_sequence_of_packets_continues_after_255() -> None:
    rows = [b"\0\0\x01"] * 600

    assert len(read(Connection(packets(*rows, _EOF)))) == 600


@pytest.mark.parametrize("size", [_LENGTH_MAX - 1, _LENGTH_MAX, _LENGTH_MAX + 5])
def test_a_row_of_several_packets_is_joined(size: int) -> None:
    long = b"\0\0" + b"y" * (size - 2)

    found = read(Connection(packets(b"\0\0a", long, b"\0\0b", _EOF)), block_bytes=1 << 16)

    assert [len(row) for row in found] == [2, size - 1, 2]
    assert found[1] == long[1:]


def test_an_error_in_the_middle_is_raised() -> None:
    error = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
    connection = Connection(packets(*ROWS[:3], error))

    with pytest.raises(ConnectionLostError, match="interrupted") as raised:
        read(connection)

    assert raised.value.context["code"] == 1317
    assert connection.is_cut


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(packets(ROWS[0], b"\x07row", _EOF), id="neither a row nor the end"),
        pytest.param(packets(ROWS[0]) + packets(_EOF, first=9), id="the end is of another answer"),
        pytest.param(packets(ROWS[0], ROWS[1]) + packets(ROWS[2], first=9), id="a packet is lost"),
        pytest.param(packets(ROWS[0], b"", _EOF), id="an empty packet"),
        pytest.param(packets(ROWS[0], b"\xfe" + bytes(9)), id="an end that is too long"),
    ],
)
def test_what_is_no_result_set_is_refused(rows: bytes) -> None:
    connection = Connection(rows)

    with pytest.raises((FormatError, ConnectionLostError)):
        read(connection)

    assert connection.is_cut


def test_rows_cut_anywhere_are_a_lost_connection() -> None:
    rows = packets(*ROWS[:4], _EOF)
    for size in range(len(rows)):
        with pytest.raises(ConnectionLostError):
            read(Connection(rows[:size]))


def test_a_connection_whose_rows_are_not_all_read_is_closed() -> None:
    connection = Connection(packets(*ROWS, _EOF))
    untyped: Any = connection

    with select_rows(untyped, "SELECT n FROM t", block_bytes=64) as rows:
        assert len(next(rows.blocks))

    assert connection.is_cut


def _answers(*replies: bytes) -> Callable[[Connection], None]:
    def change(connection: Connection) -> None:
        connection._packets = list(replies)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_answers(b"\x00\x01"), id="a short answer"),
        pytest.param(_answers(struct.pack("<BIHHBH", 0, 7, 0, 0, 0, 0)), id="no columns"),
        pytest.param(_answers(_PREPARED, _COLUMN, _COLUMN), id="more columns than declared"),
        pytest.param(_answers(_PREPARED, _COLUMN, _EOF, b"\x02"), id="other columns"),
        pytest.param(_answers(_PREPARED, _COLUMN, _EOF, b"\x01", b"\x03de"), id="a cut column"),
    ],
)
def test_an_answer_of_another_form_is_refused(change: Callable[[Connection], None]) -> None:
    connection = Connection(packets(_EOF))
    change(connection)

    with pytest.raises(FormatError):
        read(connection)

    assert connection.is_cut


def test_the_columns_are_described() -> None:
    untyped: Any = Connection(packets(_EOF))

    with select_rows(untyped, "SELECT n FROM t") as rows:
        assert isinstance(rows, ResultRows)
        assert rows.types == (3,)
        assert list(rows.blocks) == []
