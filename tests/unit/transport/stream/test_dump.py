"""What a server sends around the events of its log is followed, and left out."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.header import ARTIFICIAL, EventType
from airflow_provider_binlog.errors import (
    ChecksumError,
    ConnectionLostError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.block_stream import Pace
from airflow_provider_binlog.transport.stream.live import Dump
from airflow_provider_binlog.transport.stream.packets import PacketReader
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.unit.blocks.wire import EOF, error_packet, receiver, stream

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST, SECOND = "binlog.000001", "binlog.000002"


def rotate(file: str, position: int = 4, *, checksum: bool = True) -> bytes:
    """Return the ROTATE with which a server names the file."""
    body = builder.rotate(file, position)
    return builder.event(EventType.ROTATE, body, checksum=checksum, timestamp=0, flags=ARTIFICIAL)


def heartbeat(file: str, log_pos: int) -> bytes:
    body = builder.heartbeat(file)
    return builder.event(EventType.HEARTBEAT, body, timestamp=0, log_pos=log_pos)


def a_file(transactions: int = 2, *, checksum: bool = True) -> BinlogFile:
    file = BinlogFile(checksum=checksum)
    for number in range(1, transactions + 1):
        file.add_transaction(number, [(EventType.ROWS_QUERY, b"\x05hello")])
    return file


def events_of(file: BinlogFile) -> list[bytes]:
    bounds = [*file.offsets, len(file.data)]
    return [bytes(file.data[a:b]) for a, b in itertools.pairwise(bounds)]


def unplaced(description: bytes) -> bytes:
    """Return a FORMAT_DESCRIPTION as it is sent for a start inside the file."""
    body = description[19:-4]
    return builder.event(EventType.FORMAT_DESCRIPTION, body, log_pos=0)


def dump(events: Iterable[bytes], end: bytes = EOF) -> Dump:
    return Dump(PacketReader(receiver(stream(list(events), end)), block_bytes=200))


def read(
    events: Iterable[bytes], start: Position, end: bytes = EOF
) -> list[tuple[str, int, bytes]]:
    return [
        (block.file, int(block.offset[index]), bytes(block.event(index)))
        for block in dump(events, end).blocks(start)
        for index in range(len(block))
    ]


def placed(name: str, file: BinlogFile) -> list[tuple[str, int, bytes]]:
    return [
        (name, offset, event) for offset, event in zip(file.offsets, events_of(file), strict=True)
    ]


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("rotate_checksum", [True, False])
def test_from_a_file_to_the_next(checksum: bool, rotate_checksum: bool) -> None:
    first, second = a_file(checksum=checksum), a_file(3)
    first.add(EventType.ROTATE, builder.rotate(SECOND))
    sent = [
        rotate(FIRST, checksum=rotate_checksum),
        *events_of(first),
        rotate(SECOND, checksum=checksum),
        *events_of(second),
    ]

    found = read(sent, Position(FIRST, 4))

    assert found == placed(FIRST, first) + placed(SECOND, second)


def test_a_start_inside_the_file_has_a_description_that_is_not_of_the_log() -> None:
    file = a_file()
    start = file.offsets[5]
    events = events_of(file)

    found = read([rotate(FIRST, start), unplaced(events[0]), *events[5:]], Position(FIRST, start))

    assert found == placed(FIRST, file)[5:]


def test_what_mariadb_says_of_an_encrypted_file_is_of_the_log_at_its_beginning_alone() -> None:
    file = BinlogFile(builder.MARIADB)
    file.add(EventType.START_ENCRYPTION, bytes(17))
    file.add_transaction(1, [(EventType.ROWS_QUERY, b"\x05hello")])
    description, encryption, *events = events_of(file)
    start = file.offsets[3]
    inside = [rotate(FIRST, start), unplaced(description), encryption, *events[1:]]

    assert read([rotate(FIRST), *events_of(file)], Position(FIRST, 4)) == placed(FIRST, file)
    assert read(inside, Position(FIRST, start)) == placed(FIRST, file)[3:]


@pytest.mark.parametrize("index", [0, 5])
def test_a_file_that_was_created_at_another_time_is_foreign(index: int) -> None:
    file, other = a_file(), FIRST.replace("1", "2")
    created = 1_700_000_000
    events = events_of(file)
    start = Position(FIRST, file.offsets[index], file_created=created)
    sent = [rotate(FIRST, start.offset), unplaced(events[0]) if index else events[0]]

    assert read([*sent, *events[max(1, index) :]], start) == placed(FIRST, file)[index:]
    with pytest.raises(ForeignPositionError, match=r"not the one.*now_created=2023-11-14T22:13:20"):
        read(sent, replace(start, file_created=created - 1))
    elsewhere = Position(other, start.offset, file_created=created - 1)
    with pytest.raises(FormatError, match="another file"):
        read(sent, elsewhere)


def test_heartbeats_are_left_out() -> None:
    file = a_file()
    description, *events = events_of(file)
    beats = [heartbeat(FIRST, 99), heartbeat(FIRST, 0)]
    mixed = [piece for event in events for piece in (*beats, event)]

    assert read([rotate(FIRST), description, *mixed], Position(FIRST, 4)) == placed(FIRST, file)


def test_what_a_server_sends_before_the_start_is_skipped() -> None:
    file = a_file(4)
    start = file.offsets[11]

    found = read([rotate(FIRST), *events_of(file)], Position(FIRST, start))

    assert found == placed(FIRST, file)[11:]


@pytest.mark.parametrize("index", range(len(a_file(4).offsets)))
def test_a_start_inside_an_event_is_foreign(index: int) -> None:
    file = a_file(4)
    start = Position(FIRST, file.offsets[index] + 1)

    with pytest.raises(ForeignPositionError, match=f"no event begins.*offset={start.offset}"):
        read([rotate(FIRST), *events_of(file)], start)


def test_the_servers_error_is_raised_with_the_offset() -> None:
    file = a_file()
    end = error_packet(1236, "could not find next log")

    with pytest.raises(PositionPurgedError) as raised:
        read([rotate(FIRST), *events_of(file)], Position(FIRST, 4), end)

    assert raised.value.context["file"] == FIRST
    assert raised.value.context["offset"] == len(file.data)


def test_a_refusal_before_anything() -> None:
    with pytest.raises(PositionPurgedError):
        read([], Position(FIRST, 4), error_packet(1236, "Could not find first log file name"))


def test_damage_is_named() -> None:
    file = a_file()
    events = events_of(file)
    events[3] = events[3][:20] + bytes([events[3][20] ^ 1]) + events[3][21:]

    with pytest.raises(ChecksumError) as raised:
        read([rotate(FIRST), *events], Position(FIRST, 4))

    assert (raised.value.context["file"], raised.value.context["offset"]) == (
        FIRST,
        file.offsets[3],
    )


def test_a_damaged_description_is_named() -> None:
    description, *events = events_of(a_file())
    damaged = description[:80] + b"?" + description[81:]

    with pytest.raises(FormatError) as raised:
        read([rotate(FIRST), damaged, *events], Position(FIRST, 4))

    assert raised.value.context["offset"] == 4


def test_a_broken_packet_is_named_by_its_offset() -> None:
    description, *_ = events_of(a_file())

    with pytest.raises(FormatError, match=f"file={FIRST}, offset={4 + len(description)}"):
        read([rotate(FIRST), description, b"not an event"], Position(FIRST, 4))


def test_events_need_a_file() -> None:
    with pytest.raises(FormatError, match="does not begin"):
        read(events_of(a_file())[1:], Position(FIRST, 4))


def test_events_need_a_description() -> None:
    with pytest.raises(FormatError, match="does not begin"):
        read([rotate(FIRST), *events_of(a_file())[1:]], Position(FIRST, 4))


def test_the_log_does_not_go_back() -> None:
    sent = [rotate(SECOND), *events_of(a_file()), rotate(FIRST), *events_of(a_file())]

    with pytest.raises(FormatError, match="does not continue"):
        read(sent, Position(SECOND, 4))


def test_the_log_begins_where_it_was_asked_to() -> None:
    with pytest.raises(FormatError, match=f"sent={SECOND}"):
        read([rotate(SECOND), *events_of(a_file())], Position(FIRST, 4))


def test_an_event_damaged_into_a_heartbeat_is_not_skipped() -> None:
    file = a_file()
    events = events_of(file)
    events[3] = events[3][:4] + bytes([EventType.HEARTBEAT]) + events[3][5:]

    with pytest.raises(ChecksumError, match=f"offset={file.offsets[3]}"):
        read([rotate(FIRST), *events], Position(FIRST, 4))


def test_an_unknown_event_that_is_in_no_file_is_refused() -> None:
    description, *_ = events_of(a_file())
    strange = builder.event(EventType.QUERY, builder.query("BEGIN"), flags=ARTIFICIAL)

    with pytest.raises(FormatError, match="event=QUERY"):
        read([rotate(FIRST), description, strange], Position(FIRST, 4))


def test_blocks_are_there_before_the_connection_is_lost() -> None:
    file = a_file(30)
    wire = stream([rotate(FIRST), *events_of(file)])
    blocks = Dump(PacketReader(receiver(wire[:-1]), block_bytes=500)).blocks(Position(FIRST, 4))

    assert len(next(blocks)) > 1
    with pytest.raises(ConnectionLostError):
        list(blocks)


def test_first_transaction_after_what_mysql_leaves_out() -> None:
    file = a_file(3)
    events = events_of(file)
    begin = file.offsets[9]
    body = struct.pack(
        "<BB13sBBB3s", 1, 13, FIRST.encode(), 2, 3, 0xFC, struct.pack("<HB", begin, 0)
    )
    beat = builder.event(EventType.HEARTBEAT_V2, body, log_pos=begin, timestamp=0)

    assert dump([rotate(FIRST), events[0], beat, *events[9:]]).first_transaction() == Position(
        FIRST, begin
    )
    assert dump([rotate(FIRST), events[0], beat]).first_transaction() == Position(FIRST, begin)


def test_first_transaction_after_what_mariadb_leaves_out() -> None:
    file = BinlogFile(builder.MARIADB)
    for sequence in range(1, 4):
        file.add_mariadb_transaction(sequence, [(EventType.ANNOTATE_ROWS, b"sql")])
    events = events_of(file)
    begin = file.offsets[7]
    reached = builder.event(
        EventType.MARIADB_GTID_LIST,
        builder.mariadb_gtid_list([(0, 1, 2)]),
        log_pos=begin,
        flags=ARTIFICIAL,
        timestamp=0,
    )

    sent = [rotate(FIRST), events[0], reached, *events[7:]]
    assert dump(sent).first_transaction() == Position(FIRST, begin)
    assert dump([rotate(FIRST), events[0], reached]).first_transaction() == Position(FIRST, begin)


def test_first_transaction_after_4_gib() -> None:
    begin = (5 << 32) + 1000
    description = unplaced(events_of(a_file())[0])
    transaction = builder.event(
        EventType.GTID, builder.gtid(7), log_pos=1000 + 23 + len(builder.gtid(7))
    )

    found = dump([rotate(FIRST, (5 << 32) + 800), description, transaction]).first_transaction()

    assert found == Position(FIRST, begin)


def test_a_damaged_count_is_not_believed() -> None:
    file = a_file()
    events = events_of(file)
    damaged = events[1][:13] + b"\xff" + events[1][14:]

    with pytest.raises(ChecksumError):
        dump([rotate(FIRST), events[0], damaged]).first_transaction()


class Wire:
    """Receives a stream in parts; each takes some seconds, and after the last one comes nothing."""

    def __init__(self, parts: Iterable[bytes], pace: Pace, *, seconds: float) -> None:
        self.parts, self.pace, self.seconds, self.now = iter(parts), pace, seconds, 0.0

    def receive(self, buffer: memoryview) -> int:
        part = next(self.parts, b"")
        if not part:
            raise ConnectionLostError("nothing came for too long")
        self.now += self.seconds
        buffer[: len(part)] = part
        self.pace.received(len(part), self.seconds)
        return len(part)

    def dump(self) -> Dump:
        return Dump(PacketReader(self.receive, clock=lambda: self.now), self.pace)


def slowly(events: list[bytes], beats: int, *, at_once: int = 1) -> Wire:
    """Return a stream whose events come at once, and then heartbeats every ten seconds."""
    at = Position(FIRST, 4)
    end = sum(map(len, events[1:])) + at.offset
    whole = stream([*events, *[heartbeat(FIRST, end)] * beats])[: -4 - len(EOF)]
    size = len(stream(events)) - 4 - len(EOF)
    step = at_once * (len(stream([heartbeat(FIRST, end)])) - 4 - len(EOF))
    parts = [whole[:size], *(whole[at : at + step] for at in range(size, len(whole), step))]
    return Wire(parts, Pace(60), seconds=10)


def test_heartbeats_after_the_last_event_do_not_hold_it_up() -> None:
    file = a_file()
    wire = slowly([rotate(FIRST), *events_of(file)], beats=1000)

    block = next(wire.dump().blocks(Position(FIRST, 4)))

    assert block.next_offset == len(file.data)
    assert wire.now <= 20


@pytest.mark.fault("stalled")
def test_heartbeats_without_end_are_a_lost_connection() -> None:
    wire = slowly([rotate(FIRST), *events_of(a_file())], beats=20_000, at_once=2000)
    blocks = wire.dump().blocks(Position(FIRST, 4))
    next(blocks)

    with pytest.raises(ConnectionLostError, match="but no events"):
        next(blocks)
    assert wire.now <= 100


def test_events_before_a_cut_are_yielded_first() -> None:
    file = a_file()
    wire = slowly([rotate(FIRST), *events_of(file)], beats=0)
    blocks = wire.dump().blocks(Position(FIRST, 4))

    assert next(blocks).next_offset == len(file.data)
    with pytest.raises(ConnectionLostError, match="nothing came"):
        next(blocks)


def test_a_stream_of_a_byte_per_second_is_a_lost_connection() -> None:
    whole = stream([rotate(FIRST), *events_of(a_file(transactions=200))])
    wire = Wire((bytes([byte]) for byte in whole), Pace(60), seconds=1)

    with pytest.raises(ConnectionLostError, match="too slowly"):
        list(wire.dump().blocks(Position(FIRST, 4)))


def test_a_server_that_skips_transactions_may_be_silent_about_them() -> None:
    file = a_file()
    head, *events = events_of(file)
    beats = [heartbeat(FIRST, 200 + number) for number in range(100)]
    whole = packets_of([rotate(FIRST), head, *beats, *events])
    wire = Wire(whole, Pace(60), seconds=10)

    assert wire.dump().first_transaction().file == FIRST


def packets_of(events: list[bytes]) -> list[bytes]:
    """Return each event as it is sent, in its packet."""
    whole, at, parts = stream(events), 0, []
    while at < len(whole):
        size = 4 + int.from_bytes(whole[at : at + 3], "little")
        parts.append(whole[at : at + size])
        at += size
    return parts
