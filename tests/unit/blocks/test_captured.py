"""Blocks with their transactions: parts that are joined say the same of every event."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.blocks import captured
from airflow_provider_binlog.blocks.block import BLOCK_BYTES
from airflow_provider_binlog.blocks.captured import TransactionBlock, joined
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.position import Flavor
from tests.support import builder, logs
from tests.support.logs import TABLES, Made, insert, maps, query, split_blocks, write_files

Said = list[tuple[bytes, int, int, int, object]]


def said(*blocks: TransactionBlock) -> Said:
    """Return, of every event, its bytes, and what is known of its transaction and of itself."""
    return [
        (
            bytes(block.event(event)),
            int(read.prefix[own]),
            int(read.number[own]),
            int(read.commit_ts[own]),
            read.scanned.get(event),
        )
        for block, read in blocks
        for event, own in enumerate(read.of_event.tolist())
    ]


@pytest.mark.parametrize("block_bytes", [1, BLOCK_BYTES])
@settings(max_examples=40)
@given(st.sampled_from(list(Flavor)), st.data())
def test_joined_parts_say_the_same(block_bytes: int, flavor: Flavor, data: st.DataObject) -> None:
    files = write_files(data.draw(logs.group_lists(flavor)), flavor)
    transactions = TransactionReader()
    for name, file in files.items():
        (block,) = split_blocks(name, file)
        whole = TransactionBlock(block, transactions.read(block))
        bounds = {0, *data.draw(st.sets(st.integers(1, len(block)))), len(block)}
        parts = [whole.part(*each) for each in itertools.pairwise(sorted(bounds))]

        with patch.object(captured, "BLOCK_BYTES", block_bytes):
            found = list(joined(parts))

        assert said(*found) == said(whole)
        assert [each.transactions.ends_open for each in found[:-1]] == [True] * (len(found) - 1)
        assert found[-1].transactions.ends_open == whole.transactions.ends_open
        if block_bytes == BLOCK_BYTES:
            (only,) = found
            assert only.transactions.of_event.tolist() == whole.transactions.of_event.tolist()


def test_events_within_another_transaction_are_of_that_one() -> None:
    events = [
        each
        for number in (1, 2)
        for each in (
            Made(EventType.GTID, builder.gtid(number)),
            *(query("BEGIN"), maps(TABLES[0], Flavor.MYSQL), insert(TABLES[0], [number])),
            Made(EventType.XID, builder.xid(number)),
        )
    ]
    files = write_files([events], Flavor.MYSQL)
    (block,) = split_blocks("binlog.000001", files["binlog.000001"])
    whole = TransactionBlock(block, TransactionReader().read(block))

    moved = whole.part(4, 6).within(whole.transactions, 2)

    assert [number for _, _, number, _, _ in said(moved)] == [2, 2]
