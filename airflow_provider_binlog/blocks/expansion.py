"""Compressed events replaced by what they hold, so that nothing behind knows of compression.

    GTID | TRANSACTION_PAYLOAD   →   GTID | BEGIN | TABLE_MAP | rows ... | XID
    GTID | TABLE_MAP | WRITE_ROWS_COMPRESSED_V1   →   GTID | TABLE_MAP | WRITE_ROWS_V1

Small transactions are unpacked together, many with one call: zstd frames may stand one behind the
other. Large ones are unpacked as a stream, and come out in several blocks.

Source: as binlog/events/compressed.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.event_types import (
    COMPRESSED,
    GROUP_STARTS,
    EventType,
    event_name,
)
from airflow_provider_binlog.binlog.events.compressed import (
    PLAIN_FORMS,
    Compression,
    TransactionPayload,
    plain_body,
)
from airflow_provider_binlog.binlog.events.format_description import (
    ChecksumAlgorithm,
    FormatDescription,
)
from airflow_provider_binlog.binlog.header import HEADER_SIZE
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import EVENT_BYTES_MAX, Framer
from airflow_provider_binlog.blocks.memory import overlapping
from airflow_provider_binlog.blocks.type_masks import IS_COMPRESSED, type_mask
from airflow_provider_binlog.errors import FormatError, error_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.framing import Frames

BLOCK_BYTES = 4 << 20
"""So much is unpacked at once: what the processor's cache holds, as in `transport`."""

PAYLOAD_BYTES = 1 << 34
PAYLOAD_RATIO = 1 << 12
"""A compressed transaction may unpack to so many bytes or, where that is more, to so many times its
own size. This bounds time and disk, not memory. Rows that differ shrink to a hundredth at best, but
a column of one letter, repeated, to the 32768th part, the most that zstd can: so a ratio alone says
nothing of a small transaction."""

_BOMB = "a compressed transaction that would unpack to more than any transaction is"
_OTHER_SIZE = "a compressed transaction of another size than it says"

_NEVER_INSIDE = (
    *GROUP_STARTS,
    *COMPRESSED,
    EventType.UNKNOWN,
    EventType.START_V3,
    EventType.STOP,
    EventType.ROTATE,
    EventType.FORMAT_DESCRIPTION,
    EventType.PREVIOUS_GTIDS,
    EventType.HEARTBEAT,
    EventType.HEARTBEAT_V2,
)
# TRANSACTION_PAYLOAD as MySQL writes it: field 2 of one byte, zstd; then field 3.
_USUAL_HEAD = int.from_bytes(b"\2\1\0\3", "little")
_LENENC_WIDTH = np.ones(256, dtype=np.int64)
_LENENC_MASK = np.zeros(256, dtype=np.uint64)
for _octet, _width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
    _LENENC_WIDTH[_octet] += _width
    _LENENC_MASK[_octet] = (1 << 8 * _width) - 1

_IS_NEVER_INSIDE = type_mask(_NEVER_INSIDE)
_PLAIN_FORM = {int(code): bytes((form,)) for code, form in PLAIN_FORMS.items()}


class _Payload(NamedTuple):
    """A TRANSACTION_PAYLOAD of a block, not unpacked yet."""

    event: int
    compression: Compression
    packed: memoryview
    size: int | None


@dataclass(frozen=True)
class _Columns:
    """Events as they were found in unpacked bytes: one entry each; `start` counts from there."""

    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    timestamp: npt.NDArray[np.uint32]
    server_id: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint16]


class Expander:
    """Expands the blocks of a log, one after the other.

        expander = Expander()
        for block in source.blocks(start, stop):
            for expanded in expander.expand(block):
                ...

    Feed it blocks as they come from a source, cut to the range. A block without compressed events
    comes out as it is, but for `expanded_offset`; others come out as one or more blocks without
    checksums: `format` says so, and `size` is without them.

    Attributes:
        events: How many events there were so far by type code: as they are logged, and those in
            compressed transactions besides.
    """

    def __init__(
        self,
        *,
        block_bytes: int = BLOCK_BYTES,
        payload_bytes: int = PAYLOAD_BYTES,
        payload_ratio: int = PAYLOAD_RATIO,
    ) -> None:
        """Begin a log.

        Args:
            block_bytes: Unpacked at once.
            payload_bytes: A transaction that unpacks to more is taken for a bomb,
            payload_ratio: unless it is no more than so many times its own size.
        """
        self.events: Counter[int] = Counter()
        self._block_bytes = block_bytes
        self._payload_bytes = payload_bytes
        self._payload_ratio = payload_ratio
        # Events inside a transaction do not say where they stand: they have no offset in the file.
        self._framer = Framer(own_log_pos=False)
        self._codec = pa.Codec("zstd")
        self._file = ""
        # By how many bytes the file's expanded events are ahead of the file.
        self._gained = 0
        self._unchecked: dict[FormatDescription, FormatDescription] = {}

    def expand(self, block: EventBlock) -> Iterator[EventBlock]:
        """Yield the events of the next block, expanded.

        Memory is bounded by the largest event, however much a transaction unpacks to.

        Raises:
            FormatError: A compressed event is damaged, or a bomb.
            UnsupportedError: It is compressed in a way unknown here.
        """
        if block.file != self._file:
            self._file, self._gained = block.file, 0
        self._count(block.type)
        found = np.flatnonzero(IS_COMPRESSED[block.type])
        if not len(found):
            yield self._shifted(block)
        elif block.type[found[0]] == EventType.TRANSACTION_PAYLOAD:
            yield from self._payloads(block, found)
        else:
            yield from self._events(block, found.tolist())

    def _count(self, types: npt.NDArray[np.uint8]) -> None:
        counts = np.bincount(types)
        self.events.update({code: int(counts[code]) for code in np.flatnonzero(counts).tolist()})

    def _shifted(self, block: EventBlock) -> EventBlock:
        return (
            replace(block, expanded_offset=block.offset + self._gained) if self._gained else block
        )

    # ------------------------------------------------------------------- MySQL: transactions

    def _payloads(self, block: EventBlock, found: npt.NDArray[np.int64]) -> Iterator[EventBlock]:
        """Unpack small payloads together, as many as make a block; large ones by themselves."""
        at, held = 0, 0
        group: list[_Payload] = []
        for payload in self._read(block, found):
            event = payload.event
            small = payload.size if payload.compression is Compression.ZSTD else None
            if group and (small is None or held + small > self._block_bytes):
                yield self._unpack(block.part(at, event), group, at)
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
            yield self._unpack(block.part(at, len(block)), group, at)
        elif at < len(block):
            yield self._shifted(block.part(at, len(block)))

    def _read(self, block: EventBlock, found: npt.NDArray[np.int64]) -> Iterator[_Payload]:
        """Yield the payloads; those that look as MySQL writes them are read all at once."""
        packed, size = _usual_payloads(block, found)
        whole = block.data.data
        end = block.start[found] + block.size[found] - block.format.checksum_size
        too_large = size > np.maximum(self._payload_bytes, self._payload_ratio * (end - packed))
        usual = zip(found.tolist(), packed.tolist(), end.tolist(), size.tolist(), strict=True)
        for (event, first, last, bytes_unpacked), bomb in zip(
            usual, too_large.tolist(), strict=True
        ):
            if first and not bomb:
                yield _Payload(event, Compression.ZSTD, whole[first:last], bytes_unpacked)
            else:
                yield self._payload(block, event)

    def _payload(self, block: EventBlock, event: int) -> _Payload:
        body = block.body(event)
        if block.type[event] != EventType.TRANSACTION_PAYLOAD:
            _fail(block, event, "compressed by MySQL and by MariaDB in one log")
        with error_context(**_where(block, event)):
            payload = TransactionPayload.parse(body)
        packed = body[payload.offset :]
        if payload.size is not None and payload.size > self._bytes_max(packed):
            _fail(block, event, _BOMB, size=payload.size)
        return _Payload(event, payload.compression, packed, payload.size)

    def _bytes_max(self, packed: memoryview) -> int:
        return max(self._payload_bytes, self._payload_ratio * len(packed))

    def _unpack(self, part: EventBlock, payloads: list[_Payload], first: int) -> EventBlock:
        """Return a part of a block with its payloads unpacked; `first` is its first event."""
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
        found = np.append(frames.start, frames.end)[index]
        if frames.end < len(data) or (found != begin).any() or (np.diff(end, prepend=0) == 0).any():
            self._find_damaged(part, event.tolist(), payloads)
        count = np.diff(index, append=len(frames.start))
        columns = _columns(frames)
        self._check_inside(part, np.repeat(event, count), columns.type)
        pieces = [data.data[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        return self._replaced(part, event, pieces, count, columns)

    def _find_damaged(
        self, part: EventBlock, events: list[int], payloads: list[_Payload]
    ) -> NoReturn:
        """Raise for the payload that cannot be unpacked with the others."""
        for event, payload in zip(events, payloads, strict=True):
            for _ in self._stream(part, payload._replace(event=event)):
                pass
        _fail(part, events[0], "compressed transactions that cannot be told apart")

    def _stream(self, block: EventBlock, payload: _Payload) -> Iterator[EventBlock]:
        """Yield the events of one payload, in as many blocks as they take."""
        event = payload.event
        offset = int(block.offset[event])
        expanded_offset = offset + self._gained
        last: EventBlock | None = None
        unpacked = 0
        for data, frames in self._frames(block, payload):
            columns = _columns(frames)
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
                expanded_offset=columns.start + (expanded_offset + unpacked),
                next_offset=offset,
            )
            unpacked += frames.end
        if last is None:
            _fail(block, event, "a compressed transaction without events")
        self._gained += max(0, unpacked - int(block.size[event]))
        yield replace(last, next_offset=offset + int(block.size[event]))

    def _frames(
        self, block: EventBlock, payload: _Payload
    ) -> Iterator[tuple[npt.NDArray[np.uint8], Frames]]:
        """Yield the payload's bytes, some whole events at a time, and where those begin."""
        event = payload.event
        stream: pa.NativeFile = pa.BufferReader(payload.packed)
        if payload.compression is Compression.ZSTD:
            stream = pa.CompressedInputStream(stream, "zstd")
        limit = self._bytes_max(payload.packed) if payload.size is None else payload.size
        rest, wanted, unpacked, ended = memoryview(b""), 0, 0, False
        while not ended:
            # An event may say that it is of any size: no more memory than twice what there is.
            capacity = max(self._block_bytes, min(wanted, 2 * len(rest)))
            data = np.empty(capacity + SLACK, dtype=np.uint8)
            view = data.data[:capacity]
            view[: len(rest)] = rest
            try:
                read = stream.readinto(view[len(rest) :])
            except OSError as error:
                _fail(block, event, "a compressed transaction is damaged", reason=str(error))
            unpacked += read
            filled = len(rest) + read
            ended = filled < capacity
            if unpacked > limit:
                said = _BOMB if payload.size is None else _OTHER_SIZE
                _fail(block, event, said, size=unpacked, limit=limit)
            frames = self._framer.frame(data, 0, filled, file=block.file, offset=0)
            if frames.error is not None or (ended and frames.end < filled):
                _fail(block, event, "a compressed transaction breaks off inside an event")
            if len(frames.start):
                yield data, frames
            rest, wanted = view[frames.end : filled], frames.wanted
        if payload.size is not None and unpacked != payload.size:
            _fail(block, event, _OTHER_SIZE, size=unpacked, limit=limit)

    def _check_inside(
        self, block: EventBlock, outer: npt.NDArray[np.int64], types: npt.NDArray[np.uint8]
    ) -> None:
        """Refuse what never stands in a compressed transaction, and count the rest."""
        alien = _IS_NEVER_INSIDE[types]
        if alien.any():
            index = int(np.argmax(alien))
            _fail(
                block,
                int(outer[index]),
                "an event that cannot be part of a compressed transaction",
                inner=event_name(int(types[index])),
            )
        self._count(types)

    # ------------------------------------------------------------------- MariaDB: single events

    def _events(self, block: EventBlock, found: list[int]) -> Iterator[EventBlock]:
        """Unpack events, as many at a time as make a block."""
        at, held = 0, 0
        pieces: list[bytes] = []
        chosen: list[int] = []
        for event in found:
            piece = self._plain(block, event)
            if pieces and held + len(piece) > self._block_bytes:
                yield self._plain_block(block.part(at, event), np.array(chosen) - at, pieces)
                at, held, pieces, chosen = event, 0, [], []
            pieces.append(piece)
            chosen.append(event)
            held += len(piece)
        yield self._plain_block(block.part(at, len(block)), np.array(chosen) - at, pieces)

    def _plain(self, block: EventBlock, event: int) -> bytes:
        """Return a compressed event as it would have been logged otherwise."""
        code = int(block.type[event])
        if code not in _PLAIN_FORM:
            _fail(block, event, "compressed by MySQL and by MariaDB in one log")
        with error_context(**_where(block, event)):
            head, rest = plain_body(
                code, block.body(event), block.format, bytes_max=EVENT_BYTES_MAX
            )
        header = block.event(event)[:HEADER_SIZE]
        size = (HEADER_SIZE + len(head) + len(rest)).to_bytes(4, "little")
        form = _PLAIN_FORM[code]
        return b"".join((header[:4], form, header[5:9], size, header[13:], head, rest))

    def _plain_block(
        self, part: EventBlock, event: npt.NDArray[np.int64], pieces: list[bytes]
    ) -> EventBlock:
        size = np.array([len(piece) for piece in pieces], dtype=np.int64)
        columns = _Columns(
            start=np.cumsum(size) - size,
            size=size,
            type=np.frombuffer(b"".join([piece[4:5] for piece in pieces]), dtype=np.uint8),
            timestamp=part.timestamp[event],
            server_id=part.server_id[event],
            flags=part.flags[event],
        )
        return self._replaced(part, event, pieces, np.ones(len(event), dtype=np.int64), columns)

    # ------------------------------------------------------------------- both

    def _replaced(
        self,
        part: EventBlock,
        event: npt.NDArray[np.int64],
        pieces: Sequence[bytes | memoryview],
        count: npt.NDArray[np.int64],
        columns: _Columns,
    ) -> EventBlock:
        """Return a block with some of its events replaced.

        Args:
            part: The block.
            event: Which of its events are replaced.
            pieces: The bytes that take their places.
            count: How many events each of these is.
            columns: Those events; they begin in all of the pieces, joined.
        """
        size = part.size - part.format.checksum_size
        piece_size = np.array([len(piece) for piece in pieces], dtype=np.int64)
        # What stays are runs of events, one in front of each piece and one behind the last.
        first, last = np.append(0, event + 1), np.append(event, len(part))
        run = part.start[np.minimum(first, len(part) - 1)]
        run_end = np.where(last > first, part.start[last - 1] + size[last - 1], run)
        joined = np.empty(2 * len(event) + 1, dtype=np.int64)
        joined[0::2], joined[1::2] = run_end - run, piece_size
        offset = np.cumsum(joined) - joined
        data = part.data.data
        whole: list[bytes | memoryview] = [b""] * len(joined)
        bounds = zip(run.tolist(), run_end.tolist(), strict=True)
        whole[0::2], whole[1::2] = [data[a:b] for a, b in bounds], pieces
        stays = np.ones(len(part), dtype=bool)
        stays[event] = False
        each = np.ones(len(part), dtype=np.int64)
        each[event] = count
        outer = np.repeat(np.arange(len(part)), each)
        kept = stays[outer]
        of_run = np.cumsum(~stays)[stays]
        inside = np.repeat(np.cumsum(piece_size) - piece_size, count)
        gain = np.zeros(len(part), dtype=np.int64)
        gain[event] = np.maximum(0, piece_size - part.size[event])
        gained = np.cumsum(gain) + self._gained
        self._gained = int(gained[-1])
        expanded_offset = (part.offset + gained - gain)[outer]
        expanded_offset[~kept] += columns.start - inside

        def merge(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
            merged = np.empty(len(outer), dtype=old.dtype)
            merged[kept], merged[~kept] = old[stays], new
            return merged

        run_offset = np.zeros(len(part), dtype=np.int64)
        run_offset[stays] = (offset[0::2] - run)[of_run]
        return EventBlock(
            file=part.file,
            format=self._format(part),
            data=np.frombuffer(b"".join([*whole, bytes(SLACK)]), dtype=np.uint8),
            start=merge(
                part.start + run_offset, columns.start - inside + np.repeat(offset[1::2], count)
            ),
            size=merge(size, columns.size),
            type=merge(part.type, columns.type),
            timestamp=merge(part.timestamp, columns.timestamp),
            server_id=merge(part.server_id, columns.server_id),
            flags=merge(part.flags, columns.flags),
            offset=part.offset[outer],
            expanded_offset=expanded_offset,
            next_offset=part.next_offset,
        )

    def _format(self, block: EventBlock) -> FormatDescription:
        if block.format not in self._unchecked:
            off = replace(block.format, checksum_algorithm=ChecksumAlgorithm.OFF)
            self._unchecked[block.format] = off
        return self._unchecked[block.format]


def _usual_payloads(
    block: EventBlock, found: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where in the block's data each payload begins, and the size it says it unpacks to.

        | 2 | 1 | compression | 3 | n | uncompressed size | 1 | n | payload size | 0 | payload |

    0 in place of both where an event is of another form, or its sizes are not as they should be.
    """
    data = block.data
    begin = block.start[found] + HEADER_SIZE
    end = block.start[found] + block.size[found] - block.format.checksum_size
    usual = block.type[found] == EventType.TRANSACTION_PAYLOAD
    usual &= overlapping(data, "<u4")[begin] == _USUAL_HEAD
    size, at, good = _lenenc_value(data, begin + 4)
    usual &= good & (data[at] == 1)
    packed_size, at, good = _lenenc_value(data, at + 1)
    packed = at + 1
    usual &= good & (data[at] == 0) & (packed_size == end - packed)
    return np.where(usual, packed, 0), np.where(usual, size, 0)


def _lenenc_value(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Read length-encoded integers behind their sizes: value, end, and whether they are plausible.

    No end lies further behind its place than ten bytes.
    """
    first = data[at + 1]
    width = _LENENC_WIDTH[first]
    following = overlapping(data, "<u8")[at + 2] & _LENENC_MASK[first]
    value = np.where(width == 1, first, following.view(np.int64))
    return value, at + 1 + width, (data[at] == width) & (value >= 0)


def _columns(frames: Frames) -> _Columns:
    header = frames.header
    return _Columns(
        start=frames.start,
        size=header["size"].astype(np.int64),
        type=header["type"].copy(),
        timestamp=header["timestamp"].copy(),
        server_id=header["server_id"].copy(),
        flags=header["flags"].copy(),
    )


def _where(block: EventBlock, event: int) -> dict[str, object]:
    return {**block.where(event), "event": event_name(int(block.type[event]))}


def _fail(block: EventBlock, event: int, message: str, **context: object) -> NoReturn:
    raise FormatError(message, **_where(block, event), **context)
