"""PendingEvents: events of any place and size come out as the bytes they were."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.capture.pending import PendingEvents, RowsColumns
from tests.unit.blocks.wire import CHECKED, UNCHECKED


def a_block(events: list[bytes], *, checksum: bool) -> EventBlock:
    size = np.array([len(event) for event in events], dtype=np.int64)
    start = np.cumsum(size) - size
    zeros = np.zeros(len(events))
    return EventBlock(
        file="binlog.000001",
        format=CHECKED if checksum else UNCHECKED,
        data=np.frombuffer(b"".join(events) + bytes(SLACK), dtype=np.uint8).copy(),
        start=start,
        size=size,
        type=np.array([30 + index % 3 for index in range(len(events))], dtype=np.uint8),
        timestamp=zeros.astype(np.uint32),
        server_id=zeros.astype(np.uint32),
        flags=zeros.astype(np.uint16),
        offset=start + 4,
        expanded_offset=start + 4,
        next_offset=4 + int(size.sum()),
    )


def columns_of(block: EventBlock, chosen: list[int]) -> RowsColumns:
    event = np.array(chosen, dtype=np.int64)
    return RowsColumns(
        event=event,
        size=block.size[event] - block.format.checksum_size,
        table=event * 0,
        file=event * 0,
        position=block.offset[event],
        row=block.expanded_offset[event],
        prefix=event * 0,
        number=event,
        commit_ts=event,
    )


# Of few sizes and of many: both ways of copying.
EVENTS = st.lists(st.binary(min_size=23, max_size=90), min_size=1, max_size=60) | st.builds(
    lambda count, sizes: [
        bytes([index & 0xFF]) * sizes[index % len(sizes)] for index in range(count)
    ],
    st.integers(1, 400),
    st.lists(st.integers(23, 60), min_size=1, max_size=3),
)
BLOCKS = st.lists(st.tuples(EVENTS, st.booleans()), min_size=1, max_size=3)


@settings(max_examples=60)
@given(BLOCKS, st.integers(1, 9), st.data())
def test_what_was_put_in_comes_out(
    blocks: list[tuple[list[bytes], bool]], step: int, data: st.DataObject
) -> None:
    pending, expected, types = PendingEvents(), [], []
    for events, checksum in blocks:
        block = a_block(events, checksum=checksum)
        chosen = list(range(data.draw(st.integers(0, len(events) - 1)), len(events), step))
        pending.append(block, columns_of(block, chosen))
        end = -4 if checksum else None
        expected += [events[index][:end] for index in chosen]
        types += block.type[chosen].tolist()
        # The block's memory may be used again.
        block.data[:] = 0

    events_out, columns = pending.take()

    found = [
        events_out.data[a:b].tobytes()
        for a, b in zip(events_out.start.tolist(), events_out.end.tolist(), strict=True)
    ]
    assert found == expected
    assert events_out.type.tolist() == types
    assert (np.diff(events_out.start) > 0).all()
    assert len(events_out.data) >= int(events_out.end[-1]) + SLACK
    assert len(columns) == len(expected)


def test_its_size_is_that_of_the_events_outalone() -> None:
    block = a_block([bytes(50)] * 10, checksum=True)
    pending = PendingEvents()

    pending.append(block, columns_of(block, [0, 2, 4]))

    assert pending.bytes == 3 * (50 - 4)
    pending.take()
    assert pending.bytes == 0


def test_columns_are_chosen_and_joined_in_order() -> None:
    block = a_block([bytes(50)] * 10, checksum=True)
    columns = columns_of(block, list(range(10)))
    pieces = [
        columns.choose(slice(3)),
        columns.choose(np.array([3, 4])),
        columns.choose(slice(5, 10)),
    ]

    joined = RowsColumns.concatenate(pieces)

    assert joined.number.tolist() == list(range(10))
    assert joined.position.tolist() == block.offset.tolist()
