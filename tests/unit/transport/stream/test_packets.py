"""A replication stream in any pieces gives the same events, up to how it ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.blocks.block import NEUTRAL, SLACK
from airflow_provider_binlog.blocks.framing import checked_block
from airflow_provider_binlog.errors import ConnectionLostError, FormatError
from airflow_provider_binlog.transport.stream.packets import PacketReader
from tests.unit.blocks.wire import (
    BODIES,
    CHECKED,
    EOF,
    LENGTH_MAX,
    LOGS,
    error_packet,
    event,
    log,
    packets,
    receiver,
    stream,
)


def read_all(
    wire: bytes, sizes: list[int] | None = None, *, block_bytes: int = 4 << 20
) -> tuple[list[bytes], bytes]:
    """Return the events of a stream and the packet that ends it."""
    reader = PacketReader(receiver(wire, sizes or ()), block_bytes=block_bytes)
    events: list[bytes] = []
    while True:
        found = reader.read()
        assert found.header["size"].tolist() == found.header["size"].astype(int).tolist()
        for start, size in zip(found.start.tolist(), found.header["size"].tolist(), strict=True):
            assert bytes(found.data[start - 5 : start]) == NEUTRAL
            assert start + size + SLACK <= len(found.data)
            events.append(bytes(found.data[start : start + size]))
        if found.reply is not None:
            return events, found.reply


@given(LOGS, st.lists(st.integers(1, 60)), st.integers(16, 400))
def test_any_pieces_give_the_same_events(
    events: list[bytes], sizes: list[int], block_bytes: int
) -> None:
    assert read_all(stream(events), sizes, block_bytes=block_bytes) == (events, EOF)


def test_byte_by_byte() -> None:
    events = log([(1, b"one"), (1, b"two"), (2, bytes(300))])
    wire = stream(events)

    assert read_all(wire, [1] * len(wire)) == (events, EOF)


def test_a_stream_of_nothing() -> None:
    assert read_all(stream([])) == ([], EOF)


def test_an_error_ends_the_stream_after_the_events_before_it() -> None:
    events = log([(1, b"one")] * 3)
    reply = error_packet(1236, "could not find next log # really")
    wire = stream(events, end=reply)

    assert read_all(wire) == (events, reply)
    assert read_all(wire, [1] * len(wire)) == (events, reply)


def test_an_error_out_of_sequence_is_one_as_well() -> None:
    # MariaDB numbers the packet with 0 when it shuts down.
    reply = error_packet(1927, "Connection was killed")

    assert read_all(packets([reply], sequence=0)) == ([], reply)


@pytest.mark.parametrize("end", [EOF, error_packet(1236, "x" * 500)])
def test_rows_with_the_bytes_of_the_end_are_rows(end: bytes) -> None:
    tail = packets([end], sequence=3)
    events = log([(1, bytes(20) + tail), (1, b"after")])
    wire = stream(events)
    # The first reading stops where the row seems to end the stream.
    stop = 5 + 19 + 20 + len(tail)

    assert read_all(wire, [stop]) == (events, EOF)


@pytest.mark.parametrize("end", [EOF, error_packet(1236, "could not find next log")])
def test_cut_anywhere_the_connection_is_lost(end: bytes) -> None:
    wire = stream(log([(1, b"one"), (2, bytes(30)), (1, b"three")]), end=end)

    for size in range(len(wire)):
        with pytest.raises(ConnectionLostError):
            read_all(wire[:size], block_bytes=64)


@pytest.mark.parametrize("extra", [-2, -1, 0, 1, 30, LENGTH_MAX - 1, LENGTH_MAX, LENGTH_MAX + 1])
def test_events_of_several_packets_are_joined(extra: int) -> None:
    # A packet is a status byte and an event; one of 16 MiB - 1 is continued, be it by nothing.
    body = np.arange(LENGTH_MAX + extra - 1 - 23, dtype=np.uint8).tobytes()
    events = log([(1, b"before"), (1, body), (1, b"after")])

    found, reply = read_all(stream(events), [100_000] * 40)

    assert [len(event) for event in found] == [len(event) for event in events]
    assert found == events
    assert reply == EOF


def test_a_long_event_first_and_last() -> None:
    events = log([(1, bytes(LENGTH_MAX))])

    assert read_all(stream(events)) == (events, EOF)


def test_cut_inside_a_long_event_the_connection_is_lost() -> None:
    wire = stream(log([(1, b"before"), (1, bytes(LENGTH_MAX))]))

    for size in (40, 60, 70, LENGTH_MAX, LENGTH_MAX + 60, len(wire) - 10):
        with pytest.raises(ConnectionLostError):
            read_all(wire[:size])


@given(st.lists(BODIES, min_size=1, max_size=10), st.integers(0, 9), st.integers(1, 255))
def test_a_sequence_number_that_is_not_next_is_refused(
    bodies: list[bytes], which: int, wrong: int
) -> None:
    events = log([(1, body) for body in bodies])
    wire = bytearray(stream(events))
    index = which % len(events)
    wire[sum(5 - 1 + 1 + len(event) for event in events[:index]) + 3] ^= wrong

    with pytest.raises(FormatError, match="out of order"):
        read_all(bytes(wire))


def test_a_packet_and_its_event_of_different_sizes_are_refused() -> None:
    events = log([(1, b"one"), (1, b"two")])
    longer = events[1] + b"?"

    with pytest.raises(FormatError, match="differ in size"):
        read_all(stream([events[0], longer]))


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\x01" + bytes(30), b"\xfe" + bytes(30), b"\0 short"]
)
def test_what_is_neither_event_nor_reply_is_refused(body: bytes) -> None:
    wire = packets([b"\0" + event(b"fine"), body, EOF])

    with pytest.raises(FormatError, match="no event"):
        read_all(wire)


@pytest.mark.parametrize("size", [30, LENGTH_MAX + 5, 0xFFFFFFFF])
def test_long_packets_that_contradict_their_event_are_refused(size: int) -> None:
    body = bytearray(b"\0" + event(bytes(LENGTH_MAX)))
    body[10:14] = size.to_bytes(4, "little")

    with pytest.raises(FormatError):
        read_all(packets([bytes(body), EOF]))


@given(st.lists(BODIES, min_size=1, max_size=20))
def test_events_with_neutral_bytes_between_them_are_checked(bodies: list[bytes]) -> None:
    events = log([(1, body) for body in bodies])
    found = PacketReader(receiver(stream(events))).read()

    block = checked_block(
        found.data,
        found.start,
        found.header,
        file="binlog.000001",
        description=CHECKED,
        offset=4,
        neutral_gaps=True,
    )

    assert [bytes(block.event(index)) for index in range(len(block))] == events
