"""Some events of a block, and those of several as one, are the same events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.blocks.block import SLACK, copy, join, span
from airflow_provider_binlog.position import Flavor
from tests.support import logs
from tests.support.logs import cuts, split_blocks, write_files

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.block import EventBlock

Events = list[tuple[str, bytes, int, int]]


def events(*blocks: EventBlock) -> Events:
    """Return file, bytes, offset and expanded offset of every event."""
    return [
        (
            block.file,
            bytes(block.event(index)),
            int(block.offset[index]),
            int(block.expanded_offset[index]),
        )
        for block in blocks
        for index in range(len(block))
    ]


@settings(max_examples=60)
@given(st.sampled_from(list(Flavor)), st.data())
def test_joined_blocks_hold_the_same_events(flavor: Flavor, data: st.DataObject) -> None:
    files = write_files(data.draw(logs.group_lists(flavor)), flavor)
    name, file = next(iter(files.items()))
    blocks = list(split_blocks(name, file, data.draw(cuts(file))))

    joined = join(blocks)

    assert events(joined) == events(*blocks)
    assert joined.next_offset == len(file.data)
    assert len(joined.data) >= joined.start[-1] + joined.size[-1] + SLACK


@settings(max_examples=60)
@given(st.data())
def test_chosen_and_copied_events_are_the_same(data: st.DataObject) -> None:
    files = write_files(data.draw(logs.group_lists(Flavor.MYSQL)), Flavor.MYSQL)
    ((block),) = split_blocks("binlog.000001", files["binlog.000001"])
    chosen = sorted(data.draw(st.sets(st.integers(0, len(block) - 1), min_size=1)))

    picked = block.choose(np.array(chosen))
    copied = copy(picked)

    expected = [events(block)[index] for index in chosen]
    assert events(picked) == events(copied) == expected
    last = chosen[-1] + 1
    follows = int(block.offset[last]) if last < len(block) else block.next_offset
    assert picked.next_offset == copied.next_offset == follows
    assert not np.shares_memory(copied.data, block.data)
    assert span(copied) == len(copied.data) - SLACK
