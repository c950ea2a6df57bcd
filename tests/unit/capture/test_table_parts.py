"""Waiting events come out as the bytes they were; a part depends on its rows alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.transactions import NO_NAME
from airflow_provider_binlog.capture.table_parts import PendingEvents, RowsColumns, _Gtids, by_table
from tests.unit.blocks.wire import CHECKED, UNCHECKED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from airflow_provider_binlog.rows.values import Array


def columns(prefix: list[int], number: list[int]) -> RowsColumns:
    nothing: NDArray[np.int64] = np.zeros(len(prefix), dtype=np.int64)
    return RowsColumns(
        start=nothing,
        size=nothing,
        type=nothing,
        table=nothing,
        file=nothing,
        position=nothing,
        row=nothing,
        prefix=np.array(prefix),
        number=np.array(number),
        commit_ts=nothing,
    )


def texts(prefix: list[int], prefixes: list[str]) -> Array:
    gtids = _Gtids(columns(prefix, [0, 7]), prefixes, [0])
    return gtids.of(0, gtids.transaction[np.array([0, 0, 0, 1, 1, 1])])


def test_a_transaction_without_a_name_shows_nothing_of_the_order_of_prefixes() -> None:
    one, other = texts([NO_NAME, 0], ["a:", "b:"]), texts([NO_NAME, 1], ["b:", "a:"])

    assert one.to_pylist() == [None, None, None, "a:7", "a:7", "a:7"]
    assert one.dictionary.equals(other.dictionary)  # type: ignore[attr-defined]
    assert one.equals(other)


def test_tables_that_are_staged_together_share_no_dictionary() -> None:
    events = columns([0] * 5, [7, 7, 8, 8, 9])
    gtids = _Gtids(events, ["a:"], [0, 1])
    rows = np.repeat(gtids.transaction, 3)

    together = [gtids.of(0, rows[:3]), gtids.of(1, rows[3:])]
    alone = [_Gtids(events.choose(part), ["a:"], [0]) for part in (slice(0, 1), slice(1, 5))]

    for one, gtid in zip(together, alone, strict=True):
        other = gtid.of(0, np.repeat(gtid.transaction, 3))
        assert one.equals(other)
        assert one.dictionary.equals(other.dictionary)  # type: ignore[attr-defined]


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
        start=block.start[event],
        size=block.size[event] - block.format.checksum_size,
        type=block.type[event].astype(np.int64),
        table=event * 0,
        file=event * 0,
        position=block.offset[event],
        row=block.expanded_offset[event],
        prefix=event * 0,
        number=event,
        commit_ts=event,
    )


EVENTS = st.lists(st.binary(min_size=23, max_size=90), min_size=1, max_size=60) | st.builds(
    lambda count, sizes: [
        bytes([index & 0xFF]) * sizes[index % len(sizes)] for index in range(count)
    ],
    st.integers(1, 400),
    st.lists(st.integers(23, 60), min_size=1, max_size=3),
)
BLOCKS = st.lists(st.tuples(EVENTS, st.booleans()), min_size=1, max_size=3)


@settings(max_examples=60)
@given(BLOCKS, st.integers(1, 9), st.integers(1, 4), st.data())
def test_what_was_put_in_comes_out_table_by_table(
    blocks: list[tuple[list[bytes], bool]], step: int, tables: int, data: st.DataObject
) -> None:
    pending = [PendingEvents() for _ in range(tables)]
    expected: list[list[tuple[bytes, int]]] = [[] for _ in range(tables)]
    for events, checksum in blocks:
        block = a_block(events, checksum=checksum)
        chosen = list(range(data.draw(st.integers(0, len(events) - 1)), len(events), step))
        columns = columns_of(block, chosen)
        columns = replace(columns, table=columns.number % tables)
        for table, piece in by_table(block, columns):
            pending[table].append(piece)
        end = -4 if checksum else None
        for index in chosen:
            expected[index % tables].append((events[index][:end], int(block.type[index])))

    for waiting, wanted in zip(pending, expected, strict=True):
        assert waiting.bytes == sum(len(event) for event, _ in wanted)
        if not wanted:
            continue
        events_out, columns = waiting.take()
        bounds = zip(events_out.start.tolist(), events_out.end.tolist(), strict=True)
        found = [events_out.data[a:b].tobytes() for a, b in bounds]
        assert list(zip(found, events_out.type.tolist(), strict=True)) == wanted
        assert (np.diff(events_out.start) > 0).all()
        assert columns.size.tolist() == [len(event) for event, _ in wanted]
        assert waiting.bytes == 0


def test_events_that_fill_their_block_are_not_copied() -> None:
    block = a_block([bytes(5000)] * 10, checksum=True)

    [(_, piece)] = by_table(block, columns_of(block, list(range(10))))

    assert np.shares_memory(piece.data, block.data)


def test_few_events_of_a_block_keep_no_other_bytes() -> None:
    block = a_block([bytes(5000)] * 10, checksum=True)

    [(_, piece)] = by_table(block, columns_of(block, [2]))

    assert not np.shares_memory(piece.data, block.data)
    assert len(piece.data) == 5000 - 4


def test_columns_are_chosen_and_joined_in_order() -> None:
    block = a_block([bytes(50)] * 10, checksum=True)
    columns = columns_of(block, list(range(10)))
    pieces = [columns.choose(slice(3)), columns.choose(np.array([3, 4, 5, 6, 7, 8, 9]))]

    joined = RowsColumns(*np.concatenate([each.stacked for each in pieces]).T)

    assert joined.number.tolist() == list(range(10))
    assert joined.position.tolist() == block.offset.tolist()
