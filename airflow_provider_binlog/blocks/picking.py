"""Some events of a block, or those of several blocks, as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.blocks.block import COLUMNS, SLACK, EventBlock

if TYPE_CHECKING:
    import numpy.typing as npt


def choose(block: EventBlock, events: npt.NDArray[np.int64]) -> EventBlock:
    """Return some of a block's events, at least one, in order: views of the same data."""
    return block.choose(events, int(events[-1]) + 1)


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
