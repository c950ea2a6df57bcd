"""Blocks of file bytes: framed as one event after another would be, and every damage is named."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.blocks import framing
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import (
    Framer,
    ServerIdScanner,
    checked_block,
    follow_chain,
)
from airflow_provider_binlog.errors import ChecksumError, FormatError
from tests.reference.events import frames
from tests.unit.blocks.wire import BODIES, CHECKED, LOGS, UNCHECKED, event, log

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(start: list[int], follows: list[int]) -> list[int]:
    """Return the chain, one step at a time."""
    found = [0]
    while follows[found[-1]] in start:
        found.append(start.index(follows[found[-1]]))
    return found


def chain(start: list[int], follows: list[int]) -> list[int]:
    chosen = follow_chain(np.array(start, dtype=np.int64), np.array(follows, dtype=np.int64))
    found: list[int] = np.arange(len(start))[chosen].tolist()
    return found


@pytest.mark.parametrize(
    ("start", "follows", "expected"),
    [
        ([0], [10], [0]),
        ([0, 10, 20], [10, 20, 30], [0, 1, 2]),
        ([0, 4, 10, 20], [10, 20, 20, 30], [0, 2, 3]),
        ([0, 10, 14, 20], [10, 20, 17, 30], [0, 1, 3]),
        ([0, 10, 40], [10, 20, 50], [0, 1]),
        ([0, 5, 7], [6, 7, 9], [0]),
    ],
)
def test_chain(start: list[int], follows: list[int], expected: list[int]) -> None:
    assert chain(start, follows) == expected


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=80))
def test_chain_is_what_walking_gives(steps: list[tuple[int, int]]) -> None:
    start = np.cumsum([gap for gap, _ in steps]).tolist()
    follows = [begin + size for begin, (_, size) in zip(start, steps, strict=True)]

    assert chain(start, follows) == walk(start, follows)


@given(st.binary(max_size=200), st.sets(st.integers(0, 3), max_size=3), st.integers(0, 20))
def test_every_server_id_is_found(data: bytes, ids: set[int], begin: int) -> None:
    octets = bytes(octet % 4 if octet > 99 else 0 for octet in data)
    scanner = ServerIdScanner()
    for server_id in ids:
        scanner.learn(server_id)

    found = scanner.find(np.frombuffer(octets, dtype=np.uint8), begin, len(octets)).tolist()

    offsets = range(begin, len(octets) - 3)
    assert found == [at for at in offsets if int.from_bytes(octets[at : at + 4], "little") in ids]


def test_ids_are_found_across_the_pieces_that_are_compared_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framing, "_PIECE_BYTES", 16)
    scanner = ServerIdScanner()
    scanner.learn(0x01010101)

    assert scanner.find(np.ones(50, dtype=np.uint8), 3, 50).tolist() == list(range(3, 47))


def test_a_log_may_hold_more_ids_than_are_looked_for() -> None:
    scanner = ServerIdScanner()

    assert [scanner.learn(server_id) for server_id in range(10)] == [True] * 8 + [False] * 2
    assert not scanner.learn(3)


FILE = "binlog.000007"


@pytest.fixture(autouse=True, scope="module", params=["stepped", "searched"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let events be found one after another, as in a short log, or by their server ids."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "searched":
            patched.setattr(framing, "_SHORT_EVENTS", -1)
        yield


def array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data + bytes(SLACK), dtype=np.uint8).copy()


def read(data: bytes, *, position: int = 4, checksum: bool = True) -> EventBlock:
    """Frame and check all of `data`, as a source does."""
    octets = array(data)
    found = Framer().frame(octets, 0, len(data), file=FILE, offset=position)
    block = checked_block(
        octets,
        found.start,
        found.header,
        file=FILE,
        description=CHECKED if checksum else UNCHECKED,
        offset=position,
    )
    if found.error is not None:
        raise found.error
    if found.end != len(data):
        raise FormatError("cut", file=FILE, offset=position + found.end)
    return block


def position_of(events: list[bytes]) -> int:
    """Return where the first event begins, from its own count; 4 where it has none."""
    log_pos = int.from_bytes(events[0][13:17], "little")
    return log_pos - len(events[0]) if log_pos else 4


@given(LOGS)
def test_framed_as_one_event_after_another(events: list[bytes]) -> None:
    data = b"".join(events)
    found = Framer().frame(
        array(data), 0, len(data), file=FILE, offset=position_of(events) % (1 << 32)
    )

    plain = list(frames(data))
    assert found.start.tolist() == [offset for offset, _ in plain]
    assert found.end == len(data)
    for name in ("timestamp", "type", "server_id", "size", "log_pos", "flags"):
        assert found.header[name].tolist() == [getattr(header, name) for _, header in plain]


@given(LOGS, st.data())
def test_data_that_ends_inside_an_event_leaves_that_event(
    events: list[bytes], draw: st.DataObject
) -> None:
    data = b"".join(events)
    cut = draw.draw(st.integers(0, len(data)))
    position = position_of(events) % (1 << 32)

    found = Framer().frame(array(data[:cut]), 0, cut, file=FILE, offset=position)

    bounds = np.cumsum([0, *map(len, events)]).tolist()
    whole = max(index for index, bound in enumerate(bounds) if bound <= cut)
    assert len(found.start) == whole
    assert found.end == bounds[whole]
    assert found.error is None
    if cut < len(data):
        known = cut - found.end >= 19
        assert found.wanted == (len(events[whole]) if known else 19)


def test_a_framer_keeps_what_it_learned_for_the_next_block() -> None:
    events = log([(1, b"a"), (2, b"b"), (1, b"c"), (2, b"d")])
    framer = Framer()
    position = 4
    for data in events:
        found = framer.frame(array(data), 0, len(data), file=FILE, offset=position)
        position += found.end
        assert found.start.tolist() == [0]

    assert position == 4 + sum(map(len, events))


def test_more_server_ids_than_are_looked_for() -> None:
    events = log([(100 + index % 20, bytes(index % 7)) for index in range(400)])

    block = read(b"".join(events))

    assert len(block) == 400
    assert block.server_id[:20].tolist() == list(range(100, 120))


def test_columns() -> None:
    events = log([(1, b"one"), (300, b"other")])

    block = read(b"".join(events))

    assert (block.file, block.format) == (FILE, CHECKED)
    assert block.start.tolist() == [0, 26]
    assert block.size.tolist() == [26, 28]
    assert block.offset.tolist() == [4, 30]
    assert block.next_offset == 58
    assert block.type.tolist() == [30, 30]
    assert block.timestamp.tolist() == [1_700_000_000] * 2
    assert block.server_id.tolist() == [1, 300]
    assert block.flags.tolist() == [0, 0]
    assert bytes(block.event(1)) == events[1]
    assert bytes(block.body(1)) == b"other"


def test_offsets_continue_after_4_gib_where_log_pos_wraps() -> None:
    begin = (1 << 32) - 30
    events = log([(1, bytes(10))] * 3, position=begin)

    block = read(b"".join(events), position=begin)

    assert block.offset.tolist() == [begin, begin + 33, begin + 66]
    assert block.offset[2] > 1 << 32


def test_events_without_a_position_are_counted() -> None:
    # MariaDB 11.4 and later, inside transactions.
    events = [event(b"gtid"), event(b"rows", position=None), event(b"xid", position=4 + 2 * 27)]

    assert read(b"".join(events)).offset.tolist() == [4, 31, 58]


@given(st.lists(BODIES, min_size=1, max_size=12), st.booleans(), st.data())
def test_any_damaged_byte_is_found_and_named(
    bodies: list[bytes], counted: bool, draw: st.DataObject
) -> None:
    events = log([(1, body) for body in bodies], counted=counted)
    data = bytearray(b"".join(events))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] ^= draw.draw(st.integers(1, 255))

    with pytest.raises(FormatError) as raised:
        read(bytes(data))

    bounds = np.cumsum([4, *map(len, events)])
    damaged = int(bounds[np.searchsorted(bounds, at + 4, side="right") - 1])
    assert raised.value.context["file"] == FILE
    assert raised.value.context["offset"] == damaged


def test_a_wrong_checksum_is_named_with_the_event() -> None:
    data = bytearray(b"".join(log([(1, b"row")] * 5)))
    data[26 * 3 + 20] ^= 4

    with pytest.raises(ChecksumError, match=r"offset=82, event=WRITE_ROWS"):
        read(bytes(data))


@pytest.mark.parametrize("size", [0, 18, (1 << 30) + (1 << 20), 0xFFFFFFFF])
def test_no_event_has_such_a_size(size: int) -> None:
    head = struct.pack("<IBIIIH", 0, 30, 1, size, 0, 0)

    with pytest.raises(FormatError, match="size"):
        read(log([(1, b"before")])[0] + head)


def test_an_event_elsewhere_than_its_header_says_is_refused() -> None:
    events = log([(1, b"row")] * 3)

    with pytest.raises(FormatError, match="offset=8, event=WRITE_ROWS, size=26, log_pos=30"):
        read(b"".join(events), position=8)


def test_a_log_without_checksums_checks_offsets_alone() -> None:
    data = bytearray(b"".join(log([(1, b"row")] * 3, checksum=False)))
    data[20] ^= 1

    assert len(read(bytes(data), checksum=False)) == 3
