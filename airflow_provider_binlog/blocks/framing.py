"""The events of a block of file bytes: where they begin, and their headers as columns, checked.

Comparing all bytes with the few server ids of a log finds every header, and some offsets inside
rows. The events are those that a chain reaches: each ends where the next one begins.

Source: mysql-server, sql/binlog_reader.cc, Binlog_event_data_istream; sql/log_event.cc,
Log_event::write_header.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import HEADER_SIZE, HEADER_STRUCT, event_name
from airflow_provider_binlog.blocks.arrays import unaligned_view
from airflow_provider_binlog.blocks.block import HEADER_COLUMNS, NEUTRAL, EventBlock, first_damaged
from airflow_provider_binlog.errors import ChecksumError, FormatError

SERVER_ID_OFFSET = 5
"""Offset of the server id in an event's header."""

HEADER_FIELDS = {
    "timestamp": ("<u4", 0),
    "type": ("u1", 4),
    "server_id": ("<u4", SERVER_ID_OFFSET),
    "size": ("<u4", 9),
    "log_pos": ("<u4", 13),
    "flags": ("<u2", 17),
}
"""Format and offset of each field of the common header."""

HEADER = np.dtype(
    {
        "names": list(HEADER_FIELDS),
        "formats": [form for form, _ in HEADER_FIELDS.values()],
        "offsets": [offset for _, offset in HEADER_FIELDS.values()],
        "itemsize": HEADER_SIZE,
    }
)
"""The common header as a record."""

# Events with further ids are framed one at a time: a log has a handful of ids.
_SERVER_IDS_MAX = 8

_WORD = 4

# Compared at once: what fits into the processor's cache with its scratch memory.
_PIECE_BYTES = 1 << 20


class ServerIdScanner:
    """Finds the server ids that it has learned."""

    def __init__(self) -> None:
        self._server_ids: list[int] = []

    def learn(self, server_id: int) -> bool:
        """Search for one more id from now on. Return False if it is known, or too many are."""
        if server_id in self._server_ids or len(self._server_ids) == _SERVER_IDS_MAX:
            return False
        self._server_ids.append(server_id)
        return True

    def find(self, data: npt.NDArray[np.uint8], begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return where one of the ids stands in `data[begin:end]`, in rising order."""
        if end - begin < _WORD or not self._server_ids:
            return np.empty(0, dtype=np.int64)
        offsets = [
            _find(data[piece : min(piece + _PIECE_BYTES + _WORD - 1, end)], self._server_ids)
            + piece
            for piece in range(begin, end - _WORD + 1, _PIECE_BYTES)
        ]
        return np.concatenate(offsets)


def _find(octets: npt.NDArray[np.uint8], server_ids: list[int]) -> npt.NDArray[np.int64]:
    """Return where one of the ids begins."""
    # As words of four, at each of the four ways to divide the bytes into words: that takes fewer
    # comparisons than byte by byte, and words are searched for hits, not bytes.
    count = (len(octets) - _WORD + 1) // _WORD
    hits = np.empty((_WORD, count), dtype=bool)
    for first, hit in enumerate(hits):
        words = np.ndarray((count,), "<u4", octets.data, offset=first)
        np.equal(words, server_ids[0], out=hit)
        for server_id in server_ids[1:]:
            np.logical_or(hit, words == server_id, out=hit)
    word = np.flatnonzero(hits[0] | hits[1] | hits[2] | hits[3])
    own = hits.take(word, axis=1).view(np.uint8)
    if np.count_nonzero(own) == len(word):
        offsets: npt.NDArray[np.int64] = _WORD * word + (own[1] + 2 * own[2] + 3 * own[3])
    else:  # an id that overlaps itself
        which, shift = np.nonzero(own.T)
        offsets = _WORD * word[which] + shift
    last = octets[_WORD * count :].tobytes()
    rest = [
        _WORD * count + at
        for at in range(len(last) - _WORD + 1)
        if int.from_bytes(last[at : at + _WORD], "little") in server_ids
    ]
    return np.append(offsets, rest).astype(np.int64) if rest else offsets


def read_records(
    data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], dtype: np.dtype[np.void]
) -> npt.NDArray[np.void]:
    """Return the bytes at each start as records of `dtype`, a copy."""
    # One gather of whole records costs a fraction of one per field.
    return unaligned_view(data, f"V{dtype.itemsize}")[start].view(dtype)


def take_records(
    rows: npt.NDArray[np.void], which: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice
) -> npt.NDArray[np.void]:
    """Return some of the records; a tenth of the cost of indexing them field by field."""
    return rows.view(f"V{rows.dtype.itemsize}")[which].view(rows.dtype)


def follow_chain(
    start: npt.NDArray[np.int64], follows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64] | slice:
    """Return which of the candidates an unbroken chain from the first one reaches.

    Candidate i begins at `start[i]`, rising, and ends at `follows[i] > start[i]`. The chain ends
    with the candidate after which no other begins.
    """
    count = len(start)
    broken = np.flatnonzero(follows[:-1] != start[1:])
    if not len(broken):
        return slice(0, count)
    last = np.append(broken, count - 1)
    run_count = len(last)
    target = np.searchsorted(start, follows[last])
    reaches = target < count
    reaches[reaches] = start[target[reaches]] == follows[last[reaches]]
    # The runs that the chain enters, by doubling: those reached after 1, 2, 4, 8 … steps. Bytes
    # made to look like headers cost no more than headers do.
    jump = np.append(np.where(reaches, np.searchsorted(last, target), run_count), run_count)
    reached = np.zeros(1, dtype=np.int64)
    while reached[-1] != run_count:
        reached = np.concatenate((reached, jump[reached]))
        jump = jump[jump]
    reached = reached[reached != run_count]
    step = np.zeros(count + 1, dtype=np.int8)
    step[0] = 1
    step[target[reached[:-1]]] = 1
    step[last[reached] + 1] = -1
    return np.flatnonzero(np.cumsum(step[:-1], dtype=np.int8))


class Peeked(NamedTuple):
    """The next event, read by itself: whole, with its `server_id`, or `wanted` bytes of it.

    Otherwise `reply` ends the stream, or there is an `error`.
    """

    server_id: int | None = None
    size: int = 0
    wanted: int = 0
    reply: bytes | None = None
    error: FormatError | None = None


def follow_records(
    data: npt.NDArray[np.uint8],
    at: int,
    scanner: ServerIdScanner,
    *,
    candidates: Callable[[int], tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]],
    peek: Callable[[int], Peeked],
    prefix_size: int = 0,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void], int, Peeked]:
    """Return the events from `at` on, as starts and records, where they end, and what follows.

    `candidates` returns the starts and records of what may be events, from an offset on; `peek`
    reads the one at an offset by itself. Records have `prefix_size` bytes before the event.
    """
    candidate, record = candidates(at)
    starts, records = [candidate[:0]], [record[:0]]
    while True:
        index = int(np.searchsorted(candidate, at))
        if index < len(candidate) and candidate[index] == at:
            rest, rest_record = candidate[index:], record[index:]
            follows = rest + rest_record["size"] + prefix_size
            chosen = follow_chain(rest, follows)
            starts.append(rest[chosen])
            records.append(take_records(rest_record, chosen))
            at = int(follows[chosen][-1])
            continue
        event = peek(at)
        if event.server_id is None:
            return *_join_records(starts, records), at, event
        if scanner.learn(event.server_id):
            candidate, record = candidates(at)
        starts.append(np.array([at]))
        records.append(read_records(data, starts[-1], record.dtype))
        at += event.size


def _join_records(
    starts: list[npt.NDArray[np.int64]], records: list[npt.NDArray[np.void]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    """Return the parts of a block as one; the first one may be empty."""
    if len(starts) == 2 and not len(starts[0]):  # as usual: no copy
        return starts[1], records[1]
    dtype = records[0].dtype
    octets = [record.view(f"V{dtype.itemsize}") for record in records]
    return np.concatenate(starts), np.concatenate(octets).view(dtype)


EVENT_BYTES_MAX = (1 << 30) + (1 << 16)
"""No server writes a longer event: `max_allowed_packet` ends at 1 GiB."""

# To step to the next event costs as much as to search so many bytes for headers.
_LONG_EVENT_BYTES = 1024
# A statement begins with some short ones.
_SHORT_EVENTS = 16

_NEUTRAL_SIZE = len(NEUTRAL)


@dataclass(frozen=True)
class Frames:
    """The whole events at the start of some bytes: `HEADER` records, and where each begins.

    Attributes:
        end: Where the first event begins that is not whole.
        wanted: Bytes needed from `end` on to frame another event, or its header.
        error: Why no event can begin at `end`; None if it is only not whole.
    """

    start: npt.NDArray[np.int64]
    header: npt.NDArray[np.void]
    end: int
    wanted: int
    error: FormatError | None


class Framer:
    """Frames the bytes of one log, block after block; it learns the log's server ids.

    Args:
        own_log_pos: Whether `log_pos` is an offset in this file; in a relay log it is one in the
            source's file.
    """

    def __init__(self, *, own_log_pos: bool = True) -> None:
        self._scanner = ServerIdScanner()
        self._own_log_pos = own_log_pos

    def frame(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, *, file: str, offset: int
    ) -> Frames:
        """Return the whole events of `data[begin:end]`, which begins with one, at `offset`.

        Damage is not raised: an earlier event's checksum may be what names it.
        """
        base = offset - begin
        first, at = self._long_events(data, begin, end, base)
        start, header, at, following = follow_records(
            data,
            at,
            self._scanner,
            candidates=lambda at: self._candidates(data, at, end, base),
            peek=lambda at: self._peek(data, at, end, file=file, offset=base + at),
        )
        parts = [read_records(data, first, HEADER), header]
        start, header = _join_records([first, start], parts)
        return Frames(start, header, at, following.wanted, following.error)

    def _long_events(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, base: int
    ) -> tuple[npt.NDArray[np.int64], int]:
        """Return the whole events up to where they are no longer long, and where that is."""
        starts: list[int] = []
        at, octets = begin, data.data
        while end - at >= HEADER_SIZE:
            if at - begin < _LONG_EVENT_BYTES * (len(starts) - _SHORT_EVENTS):
                break
            _, _, _, size, log_pos, _ = HEADER_STRUCT.unpack_from(octets, at)
            follows = at + size
            if size < HEADER_SIZE or follows > end:
                break
            if self._own_log_pos and log_pos and log_pos != (follows + base) & 0xFFFFFFFF:
                break
            starts.append(at)
            at = follows
        return np.array(starts, dtype=np.int64), at

    def _peek(
        self, data: npt.NDArray[np.uint8], at: int, end: int, *, file: str, offset: int
    ) -> Peeked:
        """Read the event that begins at `data[at]`, of which bytes up to `end` are known."""
        if end - at < HEADER_SIZE:
            return Peeked(wanted=HEADER_SIZE)
        _, type_code, server_id, size, log_pos, _ = HEADER_STRUCT.unpack_from(data.data, at)
        if not HEADER_SIZE <= size <= EVENT_BYTES_MAX:
            wrong = FormatError("no event has this size", file=file, offset=offset, size=size)
            return Peeked(error=wrong)
        if at + size <= end:
            return Peeked(server_id, size)
        # Waiting for the rest of an event whose size is damaged could mean waiting for 4 GiB.
        if self._own_log_pos and log_pos and log_pos != (offset + size) & 0xFFFFFFFF:
            return Peeked(error=_wrong_end(file, offset, type_code, size, log_pos))
        return Peeked(wanted=size)

    def _candidates(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, base: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
        """Return where a known server id stands in what may be the header of a whole event."""
        id_end = end - HEADER_SIZE + SERVER_ID_OFFSET + 4
        start = self._scanner.find(data, begin + SERVER_ID_OFFSET, id_end)
        start -= SERVER_ID_OFFSET
        header = read_records(data, start, HEADER)
        follows = start + header["size"]
        fits = (header["size"] >= HEADER_SIZE) & (follows <= end)
        if self._own_log_pos:
            log_pos = header["log_pos"]
            fits &= (log_pos == 0) | (log_pos == (follows + base & 0xFFFFFFFF))
        if fits.all():
            return start, header
        which = np.flatnonzero(fits)
        return start[which], take_records(header, which)


def header_columns(header: npt.NDArray[np.void]) -> dict[str, Any]:
    """Return the sizes in `HEADER` records as int64, and `HEADER_COLUMNS` as they are."""
    columns = {name: header[name].copy() for name in HEADER_COLUMNS}
    return {"size": header["size"].astype(np.int64), **columns}


def checked_block(
    data: npt.NDArray[np.uint8],
    start: npt.NDArray[np.int64],
    header: npt.NDArray[np.void],
    *,
    file: str,
    description: FormatDescription,
    offset: int,
    neutral_gaps: bool = False,
    own_log_pos: bool = True,
) -> EventBlock:
    """Return framed events as a block, their checksums and offsets verified.

    Args:
        data: The events, with `block.SLACK` bytes after them; kept by the block, not copied.
        start: Where each event begins.
        header: `HEADER` records, one per event.
        file: Name of the binlog file.
        description: Its FORMAT_DESCRIPTION.
        offset: Offset of the first event in the file.
        neutral_gaps: Whether `block.NEUTRAL` precedes every event; else there are no gaps.
        own_log_pos: As of `Framer`.

    Raises:
        ChecksumError: An event is damaged; the text names the type and offset of the first one.
        FormatError: The `log_pos` of an event is not where it ends.
    """
    columns = header_columns(header)
    size = columns["size"]
    follows = np.cumsum(size)
    follows += offset
    begins = follows - size
    block = EventBlock(
        file=file,
        format=description,
        data=data,
        start=start,
        **columns,
        offset=begins,
        expanded_offset=begins,
        next_offset=int(follows[-1]) if len(follows) else offset,
    )
    if description.checksum_size:
        gap = _NEUTRAL_SIZE if neutral_gaps else 0
        damaged = first_damaged(data, start - gap, size + gap)
        if damaged is not None:
            raise ChecksumError("an event is damaged: its CRC32 is wrong", **block.where(damaged))
    log_pos = header["log_pos"]
    wrong = (log_pos != (follows & 0xFFFFFFFF)) & (log_pos != 0)
    if own_log_pos and wrong.any():
        index = int(np.argmax(wrong))
        numbers = (begins, block.type, size, log_pos)
        raise _wrong_end(file, *(int(column[index]) for column in numbers))
    return block


def _wrong_end(file: str, offset: int, type_code: int, size: int, log_pos: int) -> FormatError:
    return FormatError(
        "an event does not end where its header says: damaged, or not the start of an event",
        file=file,
        offset=offset,
        event=event_name(type_code),
        size=size,
        log_pos=log_pos,
    )
