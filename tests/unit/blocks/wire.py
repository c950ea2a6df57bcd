"""Events as bytes, and the same events as packets of a replication stream."""

from __future__ import annotations

import itertools
import struct
import zlib
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.control import (
    ChecksumAlgorithm,
    FormatDescription,
)
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import ConnectionLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CHECKED = FormatDescription("9.7.4", 0, ChecksumAlgorithm.CRC32, bytes(42))
UNCHECKED = FormatDescription("9.7.4", 0, ChecksumAlgorithm.OFF, bytes(42))

LENGTH_MAX = 0xFFFFFF
EOF = b"\xfe\0\0\x02\0"


def error_packet(code: int, text: str) -> bytes:
    """Return the body of an ERR packet."""
    return b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode()


def event(
    body: bytes,
    *,
    position: int | None = 4,
    type_code: int = EventType.WRITE_ROWS,
    server_id: int = 1,
    checksum: bool = True,
    flags: int = 0,
) -> bytes:
    """Return an event; `position` is where it begins in its file, None writes a log_pos of 0."""
    size = 19 + len(body) + (4 if checksum else 0)
    log_pos = 0 if position is None else (position + size) & 0xFFFFFFFF
    head = struct.pack("<IBIIIH", 1_700_000_000, type_code, server_id, size, log_pos, flags)
    data = head + body
    return data + zlib.crc32(data).to_bytes(4, "little") if checksum else data


def log(
    bodies: Iterable[tuple[int, bytes]],
    *,
    position: int = 4,
    counted: bool = True,
    checksum: bool = True,
) -> list[bytes]:
    """Return events of (server id, body) that follow one another in a file."""
    events = []
    for server_id, body in bodies:
        where = position if counted else None
        events.append(event(body, position=where, server_id=server_id, checksum=checksum))
        position += len(events[-1])
    return events


def packets(bodies: Iterable[bytes], *, sequence: int = 1) -> bytes:
    """Return packet bodies as they stand on the wire, split where they are too long for one."""
    numbers = itertools.count(sequence)
    wire = bytearray()
    for body in bodies:
        for begin in range(0, len(body) + 1, LENGTH_MAX):
            part = body[begin : begin + LENGTH_MAX]
            wire += len(part).to_bytes(3, "little") + bytes([next(numbers) & 0xFF]) + part
    return bytes(wire)


def stream(events: Sequence[bytes], end: bytes = EOF) -> bytes:
    """Return the reply to a dump command: the events, and how it ends."""
    return packets([*(b"\0" + event for event in events), end])


def receiver(wire: bytes, sizes: Iterable[int] = ()) -> Callable[[memoryview], int]:
    """Return a function that receives `wire` in parts of the given sizes, then in full ones."""
    source = memoryview(wire)
    parts = iter(sizes)

    def receive(buffer: memoryview) -> int:
        nonlocal source
        count = min(len(buffer), len(source), next(parts, len(source)))
        if not count:
            raise ConnectionLostError("the server ended the connection before the log's end")
        buffer[:count] = source[:count]
        source = source[count:]
        return count

    return receive


# Few ids, one of them made of zeros: rows hold the same bytes by chance and on purpose.
SERVER_IDS = st.sampled_from([0, 1, 7, 0x8123FE77])

# What makes a false start: a server id where one may be expected, small sizes, positions of 0.
_FALSE_STARTS = st.builds(
    lambda before, server_id, size, log_pos: (
        bytes(before) + struct.pack("<IIIH", server_id, size, log_pos, 0)
    ),
    st.integers(0, 9),
    SERVER_IDS,
    st.integers(0, 80),
    st.sampled_from([0, 1, 99]),
)

BODIES = st.lists(
    st.one_of(_FALSE_STARTS, st.binary(max_size=20), st.just(event(bytes(9), position=None))),
    max_size=4,
).map(b"".join)

LOGS = st.builds(
    log,
    st.lists(st.tuples(SERVER_IDS, BODIES), min_size=1, max_size=30),
    position=st.sampled_from([4, (1 << 32) - 120, 5 << 32]),
    counted=st.booleans(),
    checksum=st.booleans(),
)
"""Events of a file, some of which hold what looks like events."""
