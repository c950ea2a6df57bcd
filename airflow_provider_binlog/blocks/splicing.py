"""A block with some of its events replaced by others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airflow_provider_binlog.blocks.block import HEADER_COLUMNS, SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import header_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
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
        pieces: For each of them, the bytes that replace it.
        count: How many events each piece holds.
        columns: Those events; `start` counts from the first byte of all pieces, joined.
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
