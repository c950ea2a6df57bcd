"""Compressed events replaced by what they hold, so that no later stage knows of compression.

    GTID | TRANSACTION_PAYLOAD   →   GTID | BEGIN | TABLE_MAP | rows ... | XID
    GTID | TABLE_MAP | WRITE_ROWS_COMPRESSED_V1   →   GTID | TABLE_MAP | WRITE_ROWS_V1

Small transactions are decompressed together, many with one call: zstd frames may follow one
another. Large ones are decompressed as a stream, into several blocks.

Source: as binlog/events/compressed.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.events.compressed import PLAIN_FORMS, Compression, plain_body
from airflow_provider_binlog.binlog.events.control import (
    ChecksumAlgorithm,
    FormatDescription,
)
from airflow_provider_binlog.binlog.header import (
    COMPRESSED,
    GROUP_STARTS,
    HEADER_SIZE,
    EventType,
    event_name,
)
from airflow_provider_binlog.blocks.block import (
    BLOCK_BYTES,
    HEADER_COLUMNS,
    IS_COMPRESSED,
    SLACK,
    EventBlock,
    type_mask,
)
from airflow_provider_binlog.blocks.framing import EVENT_BYTES_MAX, Framer, header_columns
from airflow_provider_binlog.blocks.payloads import (
    Payload,
    PayloadLimit,
    fail,
    read_payloads,
    stream_payload,
)
from airflow_provider_binlog.errors import error_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.framing import Frames


@dataclass(frozen=True)
class EventColumns:
    """Events in decompressed bytes, one entry each; `start` counts from the first byte."""

    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    timestamp: npt.NDArray[np.uint32]
    server_id: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint16]

    @classmethod
    def of(cls, frames: Frames) -> EventColumns:
        """Return framed events as columns."""
        return cls(start=frames.start, **header_columns(frames.header))


@dataclass(frozen=True)
class Replacement:
    """Events that replace others.

    Attributes:
        event: Indexes of the replaced events.
        pieces: For each replaced event, the bytes that replace it.
        count: How many events each piece holds.
        columns: The events of the pieces; `start` counts from the first byte of all pieces, joined.
    """

    event: npt.NDArray[np.int64]
    pieces: Sequence[bytes | memoryview]
    count: npt.NDArray[np.int64]
    columns: EventColumns


class _Joined(NamedTuple):
    """The bytes of a spliced block.

    Attributes:
        data: What stays and what replaces, in order.
        run_shift: For each run of events that stay, by how many bytes it moves.
        piece_start: Where each piece begins.
    """

    data: npt.NDArray[np.uint8]
    run_shift: npt.NDArray[np.int64]
    piece_start: npt.NDArray[np.int64]


def splice(
    part: EventBlock, new: Replacement, *, file_format: FormatDescription, gained: int
) -> tuple[EventBlock, int]:
    """Return a block with some of its events replaced, and the bytes gained up to its end.

    Args:
        part: The block.
        new: The replacement.
        file_format: That of the result, without checksums.
        gained: By how many bytes the events before the block are ahead of the file.
    """
    event, columns = new.event, new.columns
    size = part.size - part.format.checksum_size
    piece_size = np.array([len(piece) for piece in new.pieces], dtype=np.int64)
    joined = _join(part, new, size, piece_size)
    stays = np.ones(len(part), dtype=bool)
    stays[event] = False
    each = np.ones(len(part), dtype=np.int64)
    each[event] = new.count
    outer = np.repeat(np.arange(len(part)), each)
    kept = stays[outer]
    inside = columns.start - np.repeat(np.cumsum(piece_size) - piece_size, new.count)
    gain = np.zeros(len(part), dtype=np.int64)
    gain[event] = np.maximum(0, piece_size - part.size[event])
    total = np.cumsum(gain) + gained
    expanded_offset = (part.offset + total - gain)[outer]
    expanded_offset[~kept] += inside

    def merge(old: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        merged = np.empty(len(outer), dtype=old.dtype)
        merged[kept], merged[~kept] = old[stays], values
        return merged

    shift = np.zeros(len(part), dtype=np.int64)
    shift[stays] = joined.run_shift[np.cumsum(~stays)[stays]]
    block = EventBlock(
        file=part.file,
        format=file_format,
        data=joined.data,
        start=merge(part.start + shift, inside + np.repeat(joined.piece_start, new.count)),
        size=merge(size, columns.size),
        **{name: merge(getattr(part, name), getattr(columns, name)) for name in HEADER_COLUMNS},
        offset=part.offset[outer],
        expanded_offset=expanded_offset,
        next_offset=part.next_offset,
    )
    return block, int(total[-1])


def _join(
    part: EventBlock,
    new: Replacement,
    size: npt.NDArray[np.int64],
    piece_size: npt.NDArray[np.int64],
) -> _Joined:
    # What stays are runs of events, one before each piece and one after the last.
    first, last = np.append(0, new.event + 1), np.append(new.event, len(part))
    run = part.start[np.minimum(first, len(part) - 1)]
    run_end = np.where(last > first, part.start[last - 1] + size[last - 1], run)
    sizes = np.empty(2 * len(new.event) + 1, dtype=np.int64)
    sizes[0::2], sizes[1::2] = run_end - run, piece_size
    start = np.cumsum(sizes) - sizes
    data = part.data.data
    whole: list[bytes | memoryview] = [b""] * len(sizes)
    bounds = zip(run.tolist(), run_end.tolist(), strict=True)
    whole[0::2], whole[1::2] = [data[a:b] for a, b in bounds], new.pieces
    joined = np.frombuffer(b"".join([*whole, bytes(SLACK)]), dtype=np.uint8)
    return _Joined(joined, start[0::2] - run, start[1::2])


_IS_NEVER_INSIDE = type_mask(
    (
        *GROUP_STARTS,
        *COMPRESSED,
        *(EventType.UNKNOWN, EventType.START_V3, EventType.STOP, EventType.ROTATE),
        *(EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS),
        *(EventType.HEARTBEAT, EventType.HEARTBEAT_V2),
    )
)
_PLAIN_FORM = {int(code): bytes((form,)) for code, form in PLAIN_FORMS.items()}


class Expander:
    """Expands the blocks of a log, one after the other.

        expander = Expander()
        for block in stream.blocks(start, stop):
            for expanded in expander.expand(block):
                ...

    Call it with the blocks of a stream, cut to the range. A block without compressed events
    is returned unchanged, but for `expanded_offset`; others become one or more blocks without
    checksums: `format` says so, and `size` is without them.

    Attributes:
        events: Number of events so far by type code: as they are logged, and those in compressed
            transactions besides.
    """

    def __init__(
        self, *, block_bytes: int = BLOCK_BYTES, payload_limit: PayloadLimit | None = None
    ) -> None:
        """Create the expander of a log.

        Args:
            block_bytes: Decompressed at once.
            payload_limit: Of a compressed transaction; by default that of `PayloadLimit`.
        """
        self.events: Counter[int] = Counter()
        self._block_bytes = block_bytes
        self._limit = payload_limit or PayloadLimit()
        # The `log_pos` of events inside a transaction is no offset in the file.
        self._framer = Framer(own_log_pos=False)
        self._codec = pa.Codec("zstd")
        self._file = ""
        # By how many bytes the file's expanded events are ahead of the file.
        self._gained = 0
        self._unchecked: dict[FormatDescription, FormatDescription] = {}

    def expand(self, block: EventBlock) -> Iterator[EventBlock]:
        """Yield the events of the next block, expanded.

        Memory is bounded by the largest event, whatever the decompressed size of a transaction.

        Raises:
            FormatError: A compressed event is damaged, or a decompression bomb.
            UnsupportedError: Its compression is not known.
        """
        if block.file != self._file:
            self._file, self._gained = block.file, 0
        self._count(block.type)
        compressed = np.flatnonzero(IS_COMPRESSED[block.type])
        if not len(compressed):
            yield self._shifted(block)
        elif block.type[compressed[0]] == EventType.TRANSACTION_PAYLOAD:
            yield from self._expand_payloads(block, compressed)
        else:
            yield from self._expand_events(block, compressed.tolist())

    def _count(self, types: npt.NDArray[np.uint8]) -> None:
        counts = np.bincount(types)
        self.events.update({code: int(counts[code]) for code in np.flatnonzero(counts).tolist()})

    def _shifted(self, block: EventBlock) -> EventBlock:
        if not self._gained:
            return block
        return replace(block, expanded_offset=block.offset + self._gained)

    def _spliced(self, part: EventBlock, new: Replacement) -> EventBlock:
        block, self._gained = splice(part, new, file_format=self._format(part), gained=self._gained)
        return block

    def _format(self, block: EventBlock) -> FormatDescription:
        if block.format not in self._unchecked:
            off = replace(block.format, checksum_algorithm=ChecksumAlgorithm.OFF)
            self._unchecked[block.format] = off
        return self._unchecked[block.format]

    # ------------------------------------------------------------------- MySQL: transactions

    def _expand_payloads(
        self, block: EventBlock, compressed: npt.NDArray[np.int64]
    ) -> Iterator[EventBlock]:
        """Expand small payloads together, as many as make a block; large ones by themselves."""
        at, held = 0, 0
        group: list[Payload] = []
        for payload in read_payloads(block, compressed, self._limit):
            event = payload.event
            small = payload.size if payload.compression is Compression.ZSTD else None
            if group and (small is None or held + small > self._block_bytes):
                yield self._expand_group(block.part(at, event), group, at)
                at, held, group = event, 0, []
            if small is not None and small <= self._block_bytes:
                group.append(payload)
                held += small
                continue
            if event > at:
                yield self._shifted(block.part(at, event))
            yield from self._stream(block, payload)
            at = event + 1
        if group:
            yield self._expand_group(block.part(at, len(block)), group, at)
        elif at < len(block):
            yield self._shifted(block.part(at, len(block)))

    def _expand_group(self, part: EventBlock, payloads: list[Payload], first: int) -> EventBlock:
        """Return a part of a block with its payloads expanded; `first` is its first event."""
        event = np.array([payload.event - first for payload in payloads])
        end = np.cumsum([payload.size for payload in payloads])
        begin = np.append(0, end[:-1])
        packed = b"".join([payload.packed for payload in payloads])
        try:
            data = np.frombuffer(memoryview(self._codec.decompress(packed, int(end[-1]))), np.uint8)
        except OSError:
            self._find_damaged(part, event.tolist(), payloads)
        frames = self._framer.frame(data, 0, len(data), file=part.file, offset=0)
        # Each payload must begin, and so end, between two events.
        index = np.searchsorted(frames.start, begin)
        boundaries = np.append(frames.start, frames.end)[index]
        is_empty = np.diff(end, prepend=0) == 0
        if frames.end < len(data) or (boundaries != begin).any() or is_empty.any():
            self._find_damaged(part, event.tolist(), payloads)
        count = np.diff(index, append=len(frames.start))
        columns = EventColumns.of(frames)
        self._check_inside(part, np.repeat(event, count), columns.type)
        pieces = [data.data[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        return self._spliced(part, Replacement(event, pieces, count, columns))

    def _find_damaged(
        self, part: EventBlock, events: list[int], payloads: list[Payload]
    ) -> NoReturn:
        """Raise for the payload that cannot be decompressed with the others."""
        for event, payload in zip(events, payloads, strict=True):
            for _ in self._stream(part, payload._replace(event=event)):
                pass
        fail(part, events[0], "compressed transactions that cannot be separated")

    def _stream(self, block: EventBlock, payload: Payload) -> Iterator[EventBlock]:
        """Yield the events of one payload, in as many blocks as they take."""
        event = payload.event
        offset = int(block.offset[event])
        expanded_offset = offset + self._gained
        last: EventBlock | None = None
        total = 0
        for data, frames in stream_payload(
            block, payload, self._framer, limit=self._limit, block_bytes=self._block_bytes
        ):
            columns = EventColumns.of(frames)
            count = len(columns.start)
            self._check_inside(block, np.full(count, event), columns.type)
            if last is not None:
                yield last
            last = EventBlock(
                file=block.file,
                format=self._format(block),
                data=data,
                **vars(columns),
                offset=np.full(count, offset),
                expanded_offset=columns.start + (expanded_offset + total),
                next_offset=offset,
            )
            total += frames.end
        if last is None:
            fail(block, event, "a compressed transaction without events")
        self._gained += max(0, total - int(block.size[event]))
        yield replace(last, next_offset=offset + int(block.size[event]))

    def _check_inside(
        self, block: EventBlock, outer: npt.NDArray[np.int64], types: npt.NDArray[np.uint8]
    ) -> None:
        """Refuse types that never occur in a compressed transaction, and count the others."""
        refused = _IS_NEVER_INSIDE[types]
        if refused.any():
            index = int(np.argmax(refused))
            fail(
                block,
                int(outer[index]),
                "an event that cannot be part of a compressed transaction",
                inner=event_name(int(types[index])),
            )
        self._count(types)

    # ------------------------------------------------------------------- MariaDB: single events

    def _expand_events(self, block: EventBlock, compressed: list[int]) -> Iterator[EventBlock]:
        """Expand events, as many at a time as make a block."""
        at, held = 0, 0
        pieces: list[bytes] = []
        chosen: list[int] = []
        for event in compressed:
            piece = self._plain(block, event)
            if pieces and held + len(piece) > self._block_bytes:
                yield self._plain_block(block.part(at, event), np.array(chosen) - at, pieces)
                at, held, pieces, chosen = event, 0, [], []
            pieces.append(piece)
            chosen.append(event)
            held += len(piece)
        yield self._plain_block(block.part(at, len(block)), np.array(chosen) - at, pieces)

    def _plain(self, block: EventBlock, event: int) -> bytes:
        """Return a compressed event as the server would have logged it without compression."""
        code = int(block.type[event])
        if code not in _PLAIN_FORM:
            fail(block, event, "compressed by MySQL and by MariaDB in one log")
        with error_context(**block.where(event)):
            start, rest = plain_body(
                code, block.body(event), block.format, bytes_max=EVENT_BYTES_MAX
            )
        header = block.event(event)[:HEADER_SIZE]
        size = (HEADER_SIZE + len(start) + len(rest)).to_bytes(4, "little")
        form = _PLAIN_FORM[code]
        return b"".join((header[:4], form, header[5:9], size, header[13:], start, rest))

    def _plain_block(
        self, part: EventBlock, event: npt.NDArray[np.int64], pieces: list[bytes]
    ) -> EventBlock:
        size = np.array([len(piece) for piece in pieces], dtype=np.int64)
        columns = EventColumns(
            start=np.cumsum(size) - size,
            size=size,
            type=np.frombuffer(b"".join([piece[4:5] for piece in pieces]), dtype=np.uint8),
            timestamp=part.timestamp[event],
            server_id=part.server_id[event],
            flags=part.flags[event],
        )
        ones = np.ones(len(event), dtype=np.int64)
        return self._spliced(part, Replacement(event, pieces, ones, columns))
