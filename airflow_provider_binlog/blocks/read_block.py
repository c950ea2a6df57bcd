"""Blocks whose transactions were read: taken apart, and put together in another order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.blocks.block import BLOCK_BYTES
from airflow_provider_binlog.blocks.picking import join, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions


class ReadBlock(NamedTuple):
    """Events, and the transactions that they belong to."""

    block: EventBlock
    transactions: Transactions

    def part(self, first: int, last: int) -> ReadBlock:
        """Return the events from `first` up to `last`, at least one: views of the same data."""
        read = self.transactions
        found = (each for each in range(first, last) if each in read.scanned)
        scanned = {each - first: read.scanned[each] for each in found}
        read = replace(
            read,
            of_event=read.of_event[first:last],
            scanned=scanned,
            ends_open=read.ends_open or last < len(self.block),
        )
        return ReadBlock(self.block.part(first, last), read)

    def within(self, other: Transactions, own: int) -> ReadBlock:
        """Return the same events as part of the transaction `own` of others."""
        of_event = np.full(len(self.block), own, dtype=np.int64)
        scanned = self.transactions.scanned
        return self._replace(
            transactions=replace(other, of_event=of_event, scanned=scanned, ends_open=True)
        )


def joined(parts: Iterable[ReadBlock]) -> Iterator[ReadBlock]:
    """Yield parts of one block, with others between them, in fewer blocks.

    What reads them takes long for each block. The first entry of their transactions is again the
    one that was open when the last block ended.
    """
    group: list[ReadBlock] = []
    held = number = 0
    for part in parts:
        size, block = span(part.block), part.block
        if group and (
            held + size > BLOCK_BYTES
            or (block.file, block.format) != (group[0].block.file, group[0].block.format)
        ):
            yield _join(group, number)
            number = int(group[-1].transactions.of_event[-1])
            group, held = [], 0
        group.append(part)
        held += size
    if group:
        yield _join(group, number)


def _join(parts: list[ReadBlock], number: int) -> ReadBlock:
    if len(parts) == 1 and not number:
        return parts[0]
    scanned: dict[int, Scanned] = {}
    at = 0
    for block, read in parts:
        scanned |= {at + event: seen for event, seen in read.scanned.items()}
        at += len(block)
    last = parts[-1].transactions
    transactions = replace(
        last,
        of_event=np.concatenate([read.of_event for _, read in parts]) - number,
        start=last.start[number:],
        prefix=last.prefix[number:],
        number=last.number[number:],
        commit_ts=last.commit_ts[number:],
        scanned=scanned,
    )
    return ReadBlock(join([block for block, _ in parts]), transactions)
