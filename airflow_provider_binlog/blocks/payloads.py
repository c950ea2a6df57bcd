"""The compressed transactions of MySQL in a block: located, checked and decompressed.

Source: as binlog/events/compressed.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.events.compressed import Compression, TransactionPayload
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventType
from airflow_provider_binlog.blocks.arrays import unaligned_view
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.errors import FormatError, error_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.framing import Framer, Frames

_BOMB = "a compressed transaction that would decompress to more than any transaction is"
_OTHER_SIZE = "a compressed transaction does not have the size that it declares"

# TRANSACTION_PAYLOAD as MySQL writes it: field 2 of one byte, zstd; then field 3.
_USUAL_START = int.from_bytes(b"\2\1\0\3", "little")
_LENENC_WIDTH = np.ones(256, dtype=np.int64)
_LENENC_MASK = np.zeros(256, dtype=np.uint64)
for _octet, _width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
    _LENENC_WIDTH[_octet] += _width
    _LENENC_MASK[_octet] = (1 << 8 * _width) - 1


@dataclass(frozen=True)
class PayloadLimit:
    """What counts as a decompression bomb: a size above `size_max` and above `ratio_max`.

    This bounds time and disk, not memory. Rows that differ shrink to a hundredth at best, but a
    column of one repeated letter to the 32768th part, the most that zstd can: a ratio alone says
    nothing about a small transaction.

    Attributes:
        size_max: Bytes of a decompressed transaction.
        ratio_max: Decompressed bytes per compressed byte.
    """

    size_max: int = 1 << 34
    ratio_max: int = 1 << 12

    def of(self, packed: memoryview) -> int:
        """Return the most bytes that these may decompress to."""
        return max(self.size_max, self.ratio_max * len(packed))


class Payload(NamedTuple):
    """A TRANSACTION_PAYLOAD of a block, not decompressed yet.

    Attributes:
        event: Index of the event in its block.
        compression: How the transaction is compressed.
        packed: The compressed bytes.
        size: Bytes when decompressed; None if the event does not declare it.
    """

    event: int
    compression: Compression
    packed: memoryview
    size: int | None


def read_payloads(
    block: EventBlock, chosen: npt.NDArray[np.int64], limit: PayloadLimit
) -> Iterator[Payload]:
    """Yield the payloads of these events; those of MySQL's usual form are read together.

    Raises:
        FormatError: An event is damaged, or a decompression bomb.
        UnsupportedError: Its compression is not known.
    """
    packed, size = _usual_payloads(block, chosen)
    data = block.data.data
    end = block.start[chosen] + block.size[chosen] - block.format.checksum_size
    too_large = size > np.maximum(limit.size_max, limit.ratio_max * (end - packed))
    usual = (packed > 0) & ~too_large
    columns = (chosen, packed, end, size, usual)
    for event, first, stop, declared, is_usual in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if is_usual:
            yield Payload(event, Compression.ZSTD, data[first:stop], declared)
        else:
            yield _read_payload(block, event, limit)


def _read_payload(block: EventBlock, event: int, limit: PayloadLimit) -> Payload:
    if block.type[event] != EventType.TRANSACTION_PAYLOAD:
        fail(block, event, "compressed by MySQL and by MariaDB in one log")
    body = block.body(event)
    with error_context(**block.where(event)):
        payload = TransactionPayload.parse(body)
    packed = body[payload.offset :]
    if payload.size is not None and payload.size > limit.of(packed):
        fail(block, event, _BOMB, size=payload.size)
    return Payload(event, payload.compression, packed, payload.size)


def stream_payload(
    block: EventBlock,
    payload: Payload,
    framer: Framer,
    *,
    limit: PayloadLimit,
    block_bytes: int,
) -> Iterator[tuple[npt.NDArray[np.uint8], Frames]]:
    """Yield the decompressed bytes of a payload, some whole events at a time, and their frames.

    Raises:
        FormatError: The payload is damaged, or a decompression bomb.
    """
    event = payload.event
    stream: pa.NativeFile = pa.BufferReader(payload.packed)
    if payload.compression is Compression.ZSTD:
        stream = pa.CompressedInputStream(stream, "zstd")
    size_max = limit.of(payload.packed) if payload.size is None else payload.size
    rest, wanted, total, ended = memoryview(b""), 0, 0, False
    while not ended:
        # An event may declare any size: allocate at most twice what there is.
        capacity = max(block_bytes, min(wanted, 2 * len(rest)))
        data = np.empty(capacity + SLACK, dtype=np.uint8)
        view = data.data[:capacity]
        view[: len(rest)] = rest
        try:
            read = stream.readinto(view[len(rest) :])
        except OSError as error:
            fail(block, event, "a compressed transaction is damaged", reason=str(error))
        total += read
        filled = len(rest) + read
        ended = filled < capacity
        if total > size_max:
            message = _BOMB if payload.size is None else _OTHER_SIZE
            fail(block, event, message, size=total, limit=size_max)
        frames = framer.frame(data, 0, filled, file=block.file, offset=0)
        if frames.error is not None or (ended and frames.end < filled):
            fail(block, event, "a compressed transaction ends inside an event")
        if len(frames.start):
            yield data, frames
        rest, wanted = view[frames.end : filled], frames.wanted
    if payload.size is not None and total != payload.size:
        fail(block, event, _OTHER_SIZE, size=total, limit=size_max)


def fail(block: EventBlock, event: int, message: str, **context: object) -> NoReturn:
    """Raise a `FormatError` in an event of a block."""
    raise FormatError(message, **block.where(event), **context)


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
    usual = block.type[chosen] == EventType.TRANSACTION_PAYLOAD
    usual &= unaligned_view(data, "<u4")[begin] == _USUAL_START
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
