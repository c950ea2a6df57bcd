"""Compressed events of a block: located, checked and decompressed.

MySQL compresses whole transactions, with zstd: TRANSACTION_PAYLOAD holds events without checksums
and positions. MariaDB compresses the bulk of single events, with zlib.

Source: mysql-server, libs/mysql/binlog/event/codecs/binary.cpp, Transaction_payload; mariadb,
sql/log_event.cc, query_event_uncompress, row_log_event_uncompress; sql/log_event.h.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventType
from airflow_provider_binlog.blocks.arrays import unaligned_view
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import EVENT_BYTES_MAX, Framer, Frames
from airflow_provider_binlog.errors import FormatError, UnsupportedError, error_context

PLAIN_FORMS: dict[int, EventType] = {
    EventType.QUERY_COMPRESSED: EventType.QUERY,
    EventType.WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
"""MariaDB's compressed events, and what each is when it is not compressed."""

# A larger transaction is a decompression bomb if its ratio is larger, too. This bounds time and
# disk, not memory. A column of one repeated letter shrinks to the 32768th part, the most that zstd
# can: a ratio alone says nothing about a small transaction.
_SIZE_MAX = 1 << 34
_RATIO_MAX = 1 << 12

_BOMB = "a compressed transaction that would decompress to more than any transaction is"
_OTHER_SIZE = "a compressed transaction does not have the size that it declares"

# TRANSACTION_PAYLOAD: the types of its fields.
_END, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
# As MySQL writes it: field 2 of one byte, zstd; then field 3.
_USUAL_START = int.from_bytes(b"\2\1\0\3", "little")
_LENENC_WIDTH = np.ones(256, dtype=np.int64)
_LENENC_MASK = np.zeros(256, dtype=np.uint64)
for _octet, _width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
    _LENENC_WIDTH[_octet] += _width
    _LENENC_MASK[_octet] = (1 << 8 * _width) - 1


class Compression(IntEnum):
    """Compression of the events of a transaction."""

    ZSTD = 0
    NONE = 255
    SINGLE_EVENT = -1
    """An event of MariaDB, decompressed on its own."""


class Payload(NamedTuple):
    """TRANSACTION_PAYLOAD: the events of one transaction, all but its GTID.

        | lenenc type | lenenc size | value | ... | 0 | the events, compressed, to the end |

    Attributes:
        compression: How they are compressed.
        packed: The compressed bytes.
        size: Bytes when decompressed; None if the event does not declare it.
        event: Index of the event in its block.
    """

    compression: Compression
    packed: bytes | memoryview
    size: int | None
    event: int = 0

    @classmethod
    def parse(cls, body: bytes | memoryview) -> Payload:
        """Read the event's body.

        Raises:
            FormatError: The bytes do not have the size that the event declares.
            UnsupportedError: Their compression is not known.
        """
        buffer = Buffer(body)
        fields: dict[int, int] = {}
        while (kind := buffer.lenenc()) != _END:
            value = buffer.lenenc_bytes()
            if kind <= _UNCOMPRESSED_SIZE:  # what newer servers add is skipped
                fields[kind] = Buffer(value).lenenc()
        packed = buffer.rest()
        if fields.get(_PAYLOAD_SIZE, len(packed)) != len(packed):
            raise FormatError(_OTHER_SIZE, declared=fields[_PAYLOAD_SIZE], size=len(packed))
        code = fields.get(_COMPRESSION, Compression.NONE)
        try:
            compression = Compression(code)
        except ValueError as error:
            raise UnsupportedError(
                "a transaction with an unknown compression: upgrade this package",
                compression=code,
            ) from error
        return cls(compression, packed, fields.get(_UNCOMPRESSED_SIZE))

    @property
    def size_max(self) -> int:
        """The most bytes that no decompression bomb has."""
        return max(_SIZE_MAX, _RATIO_MAX * len(self.packed))

    def stream(
        self, block: EventBlock, framer: Framer, block_bytes: int
    ) -> Iterator[tuple[npt.NDArray[np.uint8], Frames]]:
        """Yield the decompressed bytes, some whole events at a time, and their frames.

        Raises:
            FormatError: The payload is damaged, or a decompression bomb.
        """
        event = self.event
        packed: pa.NativeFile = pa.BufferReader(self.packed)
        if self.compression is Compression.ZSTD:
            packed = pa.CompressedInputStream(packed, "zstd")
        size_max = self.size_max if self.size is None else self.size
        rest, wanted, total, ended = memoryview(b""), 0, 0, False
        while not ended:
            # An event may declare any size: allocate at most twice what there is.
            capacity = max(block_bytes, min(wanted, 2 * len(rest)))
            data = np.empty(capacity + SLACK, dtype=np.uint8)
            view = data.data[:capacity]
            view[: len(rest)] = rest
            try:
                read = packed.readinto(view[len(rest) :])
            except OSError as error:
                fail(block, event, "a compressed transaction is damaged", reason=str(error))
            total += read
            filled = len(rest) + read
            ended = filled < capacity
            if total > size_max:
                message = _BOMB if self.size is None else _OTHER_SIZE
                fail(block, event, message, size=total, limit=size_max)
            frames = framer.frame(data, 0, filled, file=block.file, offset=0)
            if frames.error is not None or (ended and frames.end < filled):
                fail(block, event, "a compressed transaction ends inside an event")
            if len(frames.start):
                yield data, frames
            rest, wanted = view[frames.end : filled], frames.wanted
        if self.size is not None and total != self.size:
            fail(block, event, _OTHER_SIZE, size=total, limit=size_max)


def fail(block: EventBlock, event: int, message: str, **context: object) -> NoReturn:
    """Raise a `FormatError` in an event of a block."""
    raise FormatError(message, **block.where(event), **context)


def read_compressed(block: EventBlock, chosen: npt.NDArray[np.int64]) -> Iterator[Payload]:
    """Yield these compressed events; MySQL's usual form is read by the column.

    Raises:
        FormatError: An event is damaged, or a decompression bomb.
        UnsupportedError: Its compression is not known.
    """
    is_payload = block.type[chosen] == EventType.TRANSACTION_PAYLOAD
    other = np.flatnonzero(is_payload != is_payload[0])
    if len(other):
        fail(block, int(chosen[other[0]]), "compressed by MySQL and by MariaDB in one log")
    if not is_payload[0]:
        for event in chosen.tolist():
            plain = _plain_event(block, event)
            yield Payload(Compression.SINGLE_EVENT, plain, len(plain), event)
        return
    packed, size = _usual_payloads(block, chosen)
    data = block.data.data
    end = block.start[chosen] + block.size[chosen] - block.format.checksum_size
    usual = (packed > 0) & (size <= np.maximum(_SIZE_MAX, _RATIO_MAX * (end - packed)))
    columns = (chosen, packed, end, size, usual)
    for event, first, stop, declared, is_usual in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if is_usual:
            yield Payload(Compression.ZSTD, data[first:stop], declared, event)
        else:
            yield _read_payload(block, event)


def _read_payload(block: EventBlock, event: int) -> Payload:
    with error_context(**block.where(event)):
        payload = Payload.parse(block.body(event))
    if payload.size is not None and payload.size > payload.size_max:
        fail(block, event, _BOMB, size=payload.size)
    return payload._replace(event=event)


def _usual_payloads(
    block: EventBlock, chosen: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where in the block's data each payload begins, and the size that it declares.

        | 2 | 1 | compression | 3 | n | uncompressed size | 1 | n | payload size | 0 | payload |

    Both are 0 for an event of another form, or with sizes that contradict each other.
    """
    data = block.data
    begin = block.start[chosen] + HEADER_SIZE
    end = block.start[chosen] + block.size[chosen] - block.format.checksum_size
    usual = unaligned_view(data, "<u4")[begin] == _USUAL_START
    size, at, good = _lenenc_value(data, begin + 4)
    usual &= good & (data[at] == 1)
    packed_size, at, good = _lenenc_value(data, at + 1)
    packed = at + 1
    usual &= good & (data[at] == 0) & (packed_size == end - packed)
    return np.where(usual, packed, 0), np.where(usual, size, 0)


def _lenenc_value(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Read length-encoded integers after their sizes: value, end, and whether they are plausible.

    No end is more than ten bytes after its start.
    """
    first = data[at + 1]
    width = _LENENC_WIDTH[first]
    following = unaligned_view(data, "<u8")[at + 2] & _LENENC_MASK[first]
    value = np.where(width == 1, first, following.view(np.int64))
    return value, at + 1 + width, (data[at] == width) & (value >= 0)


# ------------------------------------------------------------------- MariaDB


def _plain_event(block: EventBlock, event: int) -> bytes:
    """Return a compressed event as the server would have logged it without compression.

        | 1 algorithm and n | n bytes: size, the highest first | zlib stream |

    replaces the end of the body.
    """
    code, body = int(block.type[event]), block.body(event)
    with error_context(**block.where(event)):
        at = _plain_size(code, body, block.format)
        rest = _inflate(body[at:])
    # Of the header, the type and the size change.
    header, form = block.event(event)[:HEADER_SIZE], bytes((PLAIN_FORMS[code],))
    size = (HEADER_SIZE + at + len(rest)).to_bytes(4, "little")
    return b"".join((header[:4], form, header[5:9], size, header[13:], body[:at], rest))


def _inflate(packed: memoryview) -> bytes:
    # 0x80, the algorithm in the next three bits, 0 for zlib, and how many bytes the size takes.
    # Source: mariadb, sql/log_event.cc, binlog_buf_compress.
    first = packed[0] if packed else 0
    if first & 0xF8 != 0x80:
        raise UnsupportedError(
            "an event with an unknown compression: upgrade this package", algorithm=hex(first)
        )
    begin = 1 + (first & 7)
    size = int.from_bytes(packed[1:begin], "big")
    if size > EVENT_BYTES_MAX:
        raise FormatError("a compressed event declares a size that no event has", size=size)
    stream = zlib.decompressobj()
    try:
        rest = stream.decompress(packed[begin:], size + 1)
    except zlib.error as error:
        raise FormatError("a compressed event is damaged", reason=str(error)) from error
    if len(rest) != size or not stream.eof or stream.unused_data:
        raise FormatError(
            "a compressed event does not have the size that it declares", declared=size
        )
    return rest


def _plain_size(type_code: int, body: memoryview, file_format: FormatDescription) -> int:
    """Return how many bytes of the body are not compressed."""
    at = file_format.post_header_length(type_code)
    buffer = Buffer(body)
    buffer.take(at)
    plain = PLAIN_FORMS[type_code]
    if plain is EventType.QUERY:
        # | 4 thread | 4 seconds | 1 size of database | 2 error | 2 size of status |
        return at + body[8] + 1 + int.from_bytes(body[11:13], "little")
    if plain in (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS):
        # The extra data of version 2: its length counts the two bytes of the length.
        buffer.take(int.from_bytes(body[8:10], "little") - 2)
    octets = (buffer.lenenc() + 7) // 8
    is_update = plain in (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS)
    buffer.take(2 * octets if is_update else octets)
    return buffer.offset
