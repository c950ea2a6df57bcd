"""Events with their transactions, and captured rows events with their tables and row numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.blocks.block import BLOCK_BYTES, join, span
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import error_context
from airflow_provider_binlog.sql.ddl import perhaps_of_temporary, read_ddl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.sql.ddl import DdlStatement
    from airflow_provider_binlog.sql.session import Session


class TransactionBlock(NamedTuple):
    """Events, and the transactions that they belong to."""

    block: EventBlock
    transactions: Transactions

    def part(self, first: int, last: int) -> TransactionBlock:
        """Return the events from `first` up to `last`, at least one: views of the same data."""
        read = self.transactions
        events = (event for event in range(first, last) if event in read.scanned)
        scanned = {event - first: read.scanned[event] for event in events}
        read = replace(
            read,
            of_event=read.of_event[first:last],
            scanned=scanned,
            ends_open=read.ends_open or last < len(self.block),
        )
        return TransactionBlock(self.block.part(first, last), read)

    def within(self, other: Transactions, own: int) -> TransactionBlock:
        """Return the same events as part of the transaction `own` of others."""
        of_event = np.full(len(self.block), own, dtype=np.int64)
        scanned = self.transactions.scanned
        return self._replace(
            transactions=replace(other, of_event=of_event, scanned=scanned, ends_open=True)
        )


def joined(parts: Iterable[TransactionBlock]) -> Iterator[TransactionBlock]:
    """Yield parts of one block, with others between them, in fewer blocks.

    What reads them takes long for each block. The first entry of their transactions is again the
    one that was open when the last block ended.
    """
    group: list[TransactionBlock] = []
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


def _join(parts: list[TransactionBlock], number: int) -> TransactionBlock:
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
    return TransactionBlock(join([block for block, _ in parts]), transactions)


@dataclass(frozen=True)
class LoggedStatement:
    """A DDL statement of a block that took effect.

    Attributes:
        row: Its number among the rows of the range.
        file, offset: Where its event begins.
        query: The event.
        flavor: Of the server that wrote the log.
    """

    row: int
    file: str
    offset: int
    query: Query
    flavor: Flavor

    @property
    def session(self) -> Session:
        """The session that ran the statement."""
        return self.query.session(self.flavor)

    @cached_property
    def ddl(self) -> DdlStatement | None:
        """Actions of the statement on tables, read once; None without any.

        Raises:
            UnsupportedError: The tables of the statement cannot be determined.
        """
        with error_context(file=self.file, offset=self.offset):
            ddl = read_ddl(self.query.sql, self.session)
        # Where statements are logged, TRUNCATE is logged whichever table of this name it is about.
        # MySQL's has the number of a transaction if that is a base table of InnoDB.
        if ddl is not None and self.query.used_temporary and self.query.ddl_xid is None:
            return perhaps_of_temporary(ddl)
        return ddl


@dataclass(frozen=True)
class CapturedBlock:
    """A block, with its captured rows events, their tables, transactions and row numbers.

    Attributes:
        block: The events.
        file_index: Of the block's file among the range's files.
        transactions: The transactions that the block has a part of.
        statements: The DDL in it, in log order.
        events: int64; the captured rows events, as indexes of the block's events, in log order.
        table: int64; the table of each captured rows event, an index into `table_maps`.
        table_maps: All of the range so far.
    """

    block: EventBlock
    file_index: int
    transactions: Transactions
    statements: tuple[LoggedStatement, ...]
    events: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    table_maps: Sequence[TableMap]

    def __len__(self) -> int:
        """How many rows events are captured."""
        return len(self.events)

    @cached_property
    def row(self) -> npt.NDArray[np.int64]:
        """int64; of each captured rows event, the number from which its rows are numbered."""
        return self._row_numbers[self.events]

    def row_of(self, event: int) -> int:
        """Return the row number of any event of the block: rows after it have larger ones."""
        return int(self._row_numbers[event])

    @cached_property
    def _row_numbers(self) -> npt.NDArray[np.int64]:
        return self.block.expanded_offset + (np.int64(self.file_index) << ROW_FILE_SHIFT)

    @property
    def transaction(self) -> npt.NDArray[np.int64]:
        """int64; of each captured rows event, its transaction: an index into `transactions`."""
        return self.transactions.of_event[self.events]

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> CapturedBlock:
        """Return the same block with some of its captured rows events, in log order."""
        return replace(self, events=self.events[chosen], table=self.table[chosen])

    def with_tables(
        self, table: npt.NDArray[np.int64], table_maps: Sequence[TableMap]
    ) -> CapturedBlock:
        """Return the same rows events with other tables."""
        return replace(self, table=table, table_maps=table_maps)
