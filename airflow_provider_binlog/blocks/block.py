"""Whole events of one binlog file, by the megabyte: bytes, header columns, and checksums.

Source: zlib, crc32.c, crc32_combine; mysql-server, libs/mysql/binlog/event/binlog_event.cpp,
Log_event_footer::event_checksum_test.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import GROUP_STARTS, ROWS, event_name

BLOCK_BYTES = 4 << 20
"""Read or decompressed at once: more no longer fits into the processor's cache."""

SLACK = 64
"""Spare bytes after the last event, so that wide gathers near the end stay in bounds."""


HEADER_COLUMNS = ("type", "timestamp", "server_id", "flags")
COLUMNS = ("start", "size", *HEADER_COLUMNS, "offset", "expanded_offset")
"""The columns of a block, one entry per event; those of the header are as it has them."""


@dataclass(frozen=True)
class EventBlock:
    """Some consecutive events of one file, checked, as they stand in the log.

    What a server adds to the stream (artificial ROTATE, the FORMAT_DESCRIPTION repeated at a start
    inside the file, heartbeats) is in no block.

    Attributes:
        file: Name of the binlog file, without its folder.
        format: That file's FORMAT_DESCRIPTION.
        data: The events in order, then at least `SLACK` bytes. Bytes after or between events have
            no meaning: events from a server are five bytes apart.
        start: Where each event begins in `data`.
        size: Bytes of each event, header and checksum included.
        type, timestamp, server_id, flags: Of each event's header.
        offset: Of each event in the file, our own count: never wrapped. Events that were expanded
            out of another one have that one's.
        expanded_offset: Of each event in the file as it would be with every event expanded: rising,
            and no two are the same. Ahead of `offset` by the bytes gained since the range began in
            this file.
        next_offset: Offset in the file of the first event after the block.
    """

    file: str
    format: FormatDescription
    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    timestamp: npt.NDArray[np.uint32]
    server_id: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint16]
    offset: npt.NDArray[np.int64]
    expanded_offset: npt.NDArray[np.int64]
    next_offset: int

    def __len__(self) -> int:
        """Number of events in the block."""
        return len(self.start)

    def part(self, first: int, last: int) -> EventBlock:
        """Return the events from `first` up to `last`, views of the same data."""
        return self._some(slice(first, last), last)

    def choose(self, events: npt.NDArray[np.int64]) -> EventBlock:
        """Return some of the events, at least one, in order: views of the same data."""
        return self._some(events, int(events[-1]) + 1)

    def _some(self, events: slice | npt.NDArray[np.int64], last: int) -> EventBlock:
        return replace(
            self,
            **{name: getattr(self, name)[events] for name in COLUMNS},
            next_offset=int(self.offset[last]) if last < len(self) else self.next_offset,
        )

    def where(self, index: int) -> dict[str, object]:
        """Return the context of an error in an event: its file, offset and type."""
        return {
            "file": self.file,
            "offset": int(self.offset[index]),
            "event": event_name(int(self.type[index])),
        }

    def event(self, index: int) -> memoryview:
        """Return one event, header and checksum included: a view that keeps the block alive."""
        begin = int(self.start[index])
        return self.data.data[begin : begin + int(self.size[index])]

    def body(self, index: int) -> memoryview:
        """Return one event without its header and checksum, a view."""
        begin = int(self.start[index])
        end = begin + int(self.size[index]) - self.format.checksum_size
        return self.data.data[begin + 19 : end]


TypeMask: TypeAlias = npt.NDArray[np.bool_]
"""256 entries, one per type code: whether the type is in the set."""


def type_mask(types: Iterable[int]) -> TypeMask:
    """Return the mask of a set of event types."""
    mask = np.zeros(256, dtype=np.bool_)
    mask[[int(code) for code in types]] = True
    return mask


IS_GROUP_START = type_mask(GROUP_STARTS)
IS_ROWS = type_mask(ROWS)


def copy(block: EventBlock) -> EventBlock:
    """Return a block's events with bytes of their own, which keep no other ones alive."""
    begin, size = int(block.start[0]), span(block)
    data = np.zeros(size + SLACK, dtype=np.uint8)
    data[:size] = block.data[begin : begin + size]
    columns = {name: getattr(block, name).copy() for name in COLUMNS}
    columns["start"] -= begin
    return replace(block, data=data, **columns)


def span(block: EventBlock) -> int:
    """Return how many bytes lie from the first event to the end of the last one."""
    return int(block.start[-1] + block.size[-1] - block.start[0])


def join(blocks: list[EventBlock]) -> EventBlock:
    """Return the events of blocks of one file and format as one block."""
    if len(blocks) == 1:
        return blocks[0]
    begin = np.cumsum([0, *map(span, blocks)])
    data = np.zeros(int(begin[-1]) + SLACK, dtype=np.uint8)
    starts = []
    for block, at in zip(blocks, begin.tolist(), strict=False):
        first = int(block.start[0])
        data[at : at + span(block)] = block.data[first : first + span(block)]
        starts.append(block.start - first + at)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in COLUMNS
    }
    columns["start"] = np.concatenate(starts)
    return replace(blocks[0], data=data, **columns, next_offset=blocks[-1].next_offset)


INTACT = zlib.crc32(zlib.crc32(b"").to_bytes(4, "little"))
"""The crc of every intact event with its checksum."""

NEUTRAL = bytes.fromhex("0010e5dbbf")
"""Five bytes with the crc 0: before an event they do not change the event's crc."""

# A run's table stays in the processor's cache: 4 bytes for each byte of two runs.
_RUN_BYTES = 1 << 16


def first_damaged(
    data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> int | None:
    """Return the index of the first event whose checksum is wrong, None where all are right.

    The events follow one another in `data` without a gap. `start` and `size` take in the checksum,
    and may take in `NEUTRAL` bytes before the event.

    CRC32 is linear: `crc(A + B) = crc(A) * x**(8 * len(B)) + crc(B)` over polynomials modulo its
    own, where `+` is XOR. The crc of a run of intact events is therefore the sum of
    `INTACT * x**(8 * bytes after the event)`, and one crc over its bytes verifies them all. Several
    damaged events of a run cancel each other with a probability of 2**-32, as damage escapes a
    single checksum.
    """
    if not len(start):
        return None
    first, expected = _runs(start, size)
    view = data.data
    bound = np.append(start[first], start[-1] + size[-1]).tolist()
    for run, crc in enumerate(expected.tolist()):
        if zlib.crc32(view[bound[run] : bound[run + 1]]) != crc:
            stop = first[run + 1] if run + 1 < len(first) else len(start)
            return _damaged_in(view, start, size, range(int(first[run]), int(stop)))
    return None


def _runs(
    start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return the first event of every run, and the crc the run has if its events are intact.

    A run takes events that begin in the same `_RUN_BYTES`, and a longer event alone.
    """
    piece = (start - start[0]) // _RUN_BYTES
    alone = size > _RUN_BYTES
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = (piece[1:] != piece[:-1]) | alone[1:] | alone[:-1]
    first = np.flatnonzero(opens)
    end = start + size
    run_end = end[np.append(first[1:] - 1, len(start) - 1)]
    bytes_after = np.repeat(run_end, np.diff(np.append(first, len(start)))) - end
    return first, np.bitwise_xor.reduceat(_intact_times_power()[bytes_after], first)


def _damaged_in(
    view: memoryview, start: npt.NDArray[np.int64], size: npt.NDArray[np.int64], events: range
) -> int:
    for index in events:
        begin = int(start[index])
        if zlib.crc32(view[begin : begin + int(size[index])]) != INTACT:
            return index
    # The crc of the run is made of theirs: it cannot be wrong while they are all right.
    raise ArithmeticError("the checksum of a run contradicts those of its events")


@functools.cache
def _intact_times_power() -> npt.NDArray[np.uint32]:
    """Return `INTACT * x**(8 * t)` for every distance t inside a run.

    A byte 0 multiplies a CRC register by x**8; zlib inverts the register before and after.
    """
    # The last event of a run may begin at its very end and be as long as a run.
    powers = accumulate(
        range(2 * _RUN_BYTES),
        lambda power, _: zlib.crc32(b"\0", power ^ 0xFFFFFFFF) ^ 0xFFFFFFFF,
        initial=INTACT,
    )
    return np.fromiter(powers, dtype=np.uint32, count=2 * _RUN_BYTES + 1)
