"""Compressed events replaced by what they hold, so that no later stage knows of compression.

    GTID | TRANSACTION_PAYLOAD   →   GTID | BEGIN | TABLE_MAP | rows ... | XID
    GTID | TABLE_MAP | WRITE_ROWS_COMPRESSED_V1   →   GTID | TABLE_MAP | WRITE_ROWS_V1

Source: as blocks/compressed.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.binlog.events.control import ChecksumAlgorithm, FormatDescription
from airflow_provider_binlog.binlog.header import COMPRESSED, GROUP_STARTS, EventType, event_name
from airflow_provider_binlog.blocks.arrays import bytes_of, gather
from airflow_provider_binlog.blocks.block import (
    BLOCK_BYTES,
    HEADER_COLUMNS,
    SLACK,
    EventBlock,
    span,
    type_mask,
)
from airflow_provider_binlog.blocks.compressed import Compression, Payload, fail, read_compressed
from airflow_provider_binlog.blocks.framing import Framer, Frames, header_columns

_IS_COMPRESSED = type_mask(COMPRESSED)
_IS_NEVER_INSIDE = type_mask(
    (
        *GROUP_STARTS,
        *COMPRESSED,
        *(EventType.UNKNOWN, EventType.START_V3, EventType.STOP, EventType.ROTATE),
        *(EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS),
        *(EventType.HEARTBEAT, EventType.HEARTBEAT_V2),
    )
)


class Expander:
    """Expands the blocks of a log, one after the other.

    Call it with the blocks of a stream, cut to the range. A block without compressed events is
    returned unchanged, but for `expanded_offset`; others are replaced by one or more blocks without
    checksums. Small transactions are decompressed together, many with one call: zstd frames may
    follow one another. Large ones are decompressed as a stream, into several blocks.

    Attributes:
        events: Number of events so far by type code: as they are logged, and those in compressed
            transactions besides.
    """

    def __init__(self, *, block_bytes: int = BLOCK_BYTES) -> None:
        self.events: Counter[int] = Counter()
        self._block_bytes = block_bytes
        # The `log_pos` of events inside a transaction is no offset in the file.
        self._framer = Framer(own_log_pos=False)
        self._codec = pa.Codec("zstd")
        self._file = ""
        # By how many bytes the file's expanded events are ahead of the file.
        self._gained = 0

    def expand(self, block: EventBlock) -> Iterator[EventBlock]:
        """Yield the events of the next block, expanded: small pieces together, large ones alone.

        Memory is bounded by the largest event, whatever the decompressed size of a transaction.

        Raises:
            FormatError: A compressed event is damaged, or a decompression bomb.
            UnsupportedError: Its compression is not known.
        """
        if block.file != self._file:
            self._file, self._gained = block.file, 0
        self._count(block.type)
        compressed = np.flatnonzero(_IS_COMPRESSED[block.type])
        if not len(compressed):
            yield self._shifted(block)
            return
        at, held = 0, 0
        group: list[Payload] = []
        for payload in read_compressed(block, compressed):
            event = payload.event
            size = self._size_in_group(payload)
            if group and (size is None or held + size > self._block_bytes):
                yield self._expand_group(block.part(at, event), group, at)
                at, held, group = event, 0, []
            if size is not None:
                group.append(payload)
                held += size
                continue
            if event > at:
                yield self._shifted(block.part(at, event))
            yield from self._stream(block, payload)
            at = event + 1
        if group:
            yield self._expand_group(block.part(at, len(block)), group, at)
        elif at < len(block):
            yield self._shifted(block.part(at, len(block)))

    def _size_in_group(self, payload: Payload) -> int | None:
        """Return the decompressed size of what is expanded with others; None for a stream."""
        if payload.compression is Compression.ZSTD and payload.size is not None:
            return payload.size if payload.size <= self._block_bytes else None
        return payload.size if payload.compression is Compression.SINGLE_EVENT else None

    def _count(self, types: npt.NDArray[np.uint8]) -> None:
        counts = np.bincount(types)
        self.events.update({code: int(counts[code]) for code in np.flatnonzero(counts).tolist()})

    def _shifted(self, block: EventBlock) -> EventBlock:
        if not self._gained:
            return block
        return replace(block, expanded_offset=block.offset + self._gained)

    def _expand_group(self, part: EventBlock, payloads: list[Payload], first: int) -> EventBlock:
        """Return a part of a block with its payloads expanded; `first` is its first event."""
        payloads = [payload._replace(event=payload.event - first) for payload in payloads]
        event = np.array([payload.event for payload in payloads])
        size = np.array([payload.size for payload in payloads], dtype=np.int64)
        end = np.cumsum(size)
        joined: bytes | memoryview = b"".join([payload.packed for payload in payloads])
        in_transaction = payloads[0].compression is Compression.ZSTD
        if in_transaction:
            try:
                joined = memoryview(self._codec.decompress(joined, int(end[-1])))
            except OSError:
                self._find_damaged(part, payloads)
        data = np.frombuffer(joined, np.uint8)
        frames = self._framer.frame(data, 0, len(data), file=part.file, offset=0)
        # Each payload must begin, and so end, between two events.
        start = np.append(frames.start, frames.end)
        is_boundary = start[np.searchsorted(frames.start, end - size)] == end - size
        if frames.end < len(data) or not is_boundary.all() or not size.all():
            self._find_damaged(part, payloads)
        if in_transaction:
            owner = np.searchsorted(end, frames.start, side="right")
            self._check_inside(part, event[owner], frames.header["type"])
        return self._splice(part, event, size, data, frames)

    def _splice(
        self,
        part: EventBlock,
        event: npt.NDArray[np.int64],
        piece_size: npt.NDArray[np.int64],
        data: npt.NDArray[np.uint8],
        frames: Frames,
    ) -> EventBlock:
        """Return a block with each `event` replaced by the framed events of a piece of `data`."""
        columns = header_columns(frames.header)
        piece_end = np.cumsum(piece_size)
        piece = np.searchsorted(piece_end, frames.start, side="right")
        stays = np.delete(np.arange(len(part)), event)
        outer = np.concatenate([stays, event[piece]])
        order = np.argsort(outer, kind="stable")
        outer = outer[order]

        own = part.data[part.start[0] : part.start[0] + span(part)]
        source = np.concatenate([own, data, np.zeros(SLACK, dtype=np.uint8)])
        begin = np.concatenate([part.start[stays] - part.start[0], frames.start + len(own)])
        size = np.concatenate([part.size[stays] - part.format.checksum_size, columns["size"]])
        slack = len(source) - SLACK
        spans = gather(
            source,
            np.append(begin, slack),
            np.append(begin + size, len(source)),
            np.append(order, len(order)),
        )
        size = size[order]

        gain = np.zeros(len(part), dtype=np.int64)
        # Compression may have made an event longer: offsets have to rise all the same.
        gain[event] = np.maximum(0, piece_size - part.size[event])
        ahead = np.cumsum(gain) - gain + self._gained
        self._gained += int(gain.sum())
        inside = np.zeros(len(order), dtype=np.int64)
        inside[len(stays) :] = frames.start - (piece_end - piece_size)[piece]
        return EventBlock(
            file=part.file,
            format=_without_checksums(part.format),
            data=bytes_of(spans),
            start=np.cumsum(size) - size,
            size=size,
            **{
                name: np.concatenate([getattr(part, name)[stays], columns[name]])[order]
                for name in HEADER_COLUMNS
            },
            offset=part.offset[outer],
            expanded_offset=(part.offset + ahead)[outer] + inside[order],
            next_offset=part.next_offset,
        )

    def _find_damaged(self, part: EventBlock, payloads: list[Payload]) -> NoReturn:
        """Raise for the payload that cannot be decompressed with the others."""
        for payload in payloads:
            for _ in self._stream(part, payload):
                pass
        fail(part, payloads[0].event, "compressed transactions that cannot be separated")

    def _stream(self, block: EventBlock, payload: Payload) -> Iterator[EventBlock]:
        """Yield the events of one payload, in as many blocks as they take."""
        event = payload.event
        offset = int(block.offset[event])
        expanded_offset = offset + self._gained
        last: EventBlock | None = None
        total = 0
        for data, frames in payload.stream(block, self._framer, self._block_bytes):
            columns = header_columns(frames.header)
            count = len(frames.start)
            self._check_inside(block, np.full(count, event), columns["type"])
            if last is not None:
                yield last
            last = EventBlock(
                file=block.file,
                format=_without_checksums(block.format),
                data=data,
                start=frames.start,
                **columns,
                offset=np.full(count, offset),
                expanded_offset=frames.start + (expanded_offset + total),
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


def _without_checksums(file_format: FormatDescription) -> FormatDescription:
    return replace(file_format, checksum_algorithm=ChecksumAlgorithm.OFF)
