"""Some events of a block, or those of several blocks, as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.blocks.block import BLOCK_BYTES, SLACK, EventBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_COLUMNS = (
    *("start", "size", "type", "timestamp"),
    *("server_id", "flags", "offset", "expanded_offset"),
)


def choose(block: EventBlock, events: npt.NDArray[np.int64]) -> EventBlock:
    """Return some of a block's events, at least one, in order: views of the same data."""
    last = int(events[-1]) + 1
    return replace(
        block,
        **{name: getattr(block, name)[events] for name in _COLUMNS},
        next_offset=int(block.offset[last]) if last < len(block) else block.next_offset,
    )


def copy(block: EventBlock) -> EventBlock:
    """Return a block's events with bytes of their own, which keep no other ones alive."""
    begin, size = int(block.start[0]), span(block)
    data = np.zeros(size + SLACK, dtype=np.uint8)
    data[:size] = block.data[begin : begin + size]
    columns = {name: getattr(block, name).copy() for name in _COLUMNS}
    columns["start"] -= begin
    return replace(block, data=data, **columns)


def joined(blocks: Iterator[EventBlock]) -> Iterator[EventBlock]:
    """Yield the same events in fewer blocks: what reads them takes long for each block."""
    group: list[EventBlock] = []
    held = 0
    for block in blocks:
        size = span(block)
        if group and (
            held + size > BLOCK_BYTES
            or block.file != group[0].file
            or block.format != group[0].format
        ):
            yield _join(group)
            group, held = [], 0
        group.append(block)
        held += size
    if group:
        yield _join(group)


def span(block: EventBlock) -> int:
    """Return how many bytes lie from the first event to the end of the last one."""
    return int(block.start[-1] + block.size[-1] - block.start[0])


def _join(blocks: list[EventBlock]) -> EventBlock:
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
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in _COLUMNS
    }
    columns["start"] = np.concatenate(starts)
    return replace(blocks[0], data=data, **columns, next_offset=blocks[-1].next_offset)
