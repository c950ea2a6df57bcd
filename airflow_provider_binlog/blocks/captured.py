"""Events with their transactions, and rows events with their tables and row numbers.

Source: mysql-server sql/log_event.cc, Table_map_log_event and Rows_log_event::do_apply_event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventType
from airflow_provider_binlog.binlog.transactions import Scanned
from airflow_provider_binlog.blocks.arrays import gather, numbers_of, unaligned_view
from airflow_provider_binlog.blocks.block import BLOCK_BYTES, IS_ROWS, EventBlock, join, span
from airflow_provider_binlog.blocks.transactions import Transactions
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.ddl import DdlStatement, perhaps_of_temporary, read_ddl
from airflow_provider_binlog.sql.lexer import Session


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

    The first entry of their transactions is again the one that was open when the last block ended.
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
    """A DDL statement of a block that took effect, and its number among the rows of the range.

    The `commit_ts` is in microseconds since 1970; None where only the schemas matter.
    """

    row: int
    file: str
    offset: int
    query: Query
    flavor: Flavor
    commit_ts: int | None = None

    @property
    def session(self) -> Session:
        """The session that ran the statement."""
        return self.query.session(self.flavor)

    @cached_property
    def ddl(self) -> DdlStatement | None:
        """Actions of the statement on tables, read once; None without any."""
        with errors.error_context(file=self.file, offset=self.offset):
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
        file_index: Of the block's file among the range's files.
        transactions: The transactions that the block has a part of.
        statements: The DDL in it, in log order.
        events: The captured rows events, as indexes of the block's events, in log order.
        table: The table of each captured rows event, an index into `table_maps`.
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
        """Number of captured rows events."""
        return len(self.events)

    @cached_property
    def row(self) -> npt.NDArray[np.int64]:
        """Number of the first row of each captured rows event."""
        return self._row_numbers[self.events]

    def row_of(self, event: int) -> int:
        """Return the row number of any event of the block: rows after it have larger ones."""
        return int(self._row_numbers[event])

    @cached_property
    def _row_numbers(self) -> npt.NDArray[np.int64]:
        return self.block.expanded_offset + (np.int64(self.file_index) << ROW_FILE_SHIFT)

    @property
    def transaction(self) -> npt.NDArray[np.int64]:
        """Transaction of each captured rows event: an index into `transactions`."""
        return self.transactions.of_event[self.events]

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> CapturedBlock:
        """Return the same block with some of its captured rows events, in log order."""
        return replace(self, events=self.events[chosen], table=self.table[chosen])

    def with_tables(
        self, table: npt.NDArray[np.int64], table_maps: Sequence[TableMap]
    ) -> CapturedBlock:
        """Return the same rows events with other tables."""
        return replace(self, table=table, table_maps=table_maps)


NO_TABLE = -1
"""Instead of a table: the rows event names none, and holds no rows."""

_TABLE_ID_MASK = np.uint64((1 << 48) - 1)

# A rows event without rows, whose only use is to end a statement, has one of these table ids.
# Source: mysql-server, sql/log_event.cc, Rows_log_event (dummy event); mariadb the same.
_DUMMY_TABLE_IDS = frozenset({0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF})
_STATEMENT_END = 0x0001


class TableMapReader:
    """Follows the TABLE_MAPs of a log, block after block, from a transaction boundary on.

    A server repeats the TABLE_MAP of a table for every statement, most of the time to the byte:
    each distinct one is decoded once.

    Attributes:
        table_maps: Every distinct one so far; the table of a rows event is an index into it.
    """

    def __init__(self) -> None:
        self.table_maps: list[TableMap] = []
        self._tables: dict[bytes, int] = {}
        # Those of the transaction that is open at the end of the last block, by table id.
        self._open: dict[int, int] = {}

    def read(
        self, block: EventBlock, transaction: npt.NDArray[np.int64], *, ends_open: bool
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the block's rows events, as indexes of events, and the table of each.

        Args:
            block: The next block.
            transaction: The transaction of each event, a number that rises; 0 for the one that was
                open when the last block ended.
            ends_open: Whether the last transaction continues in the next block.

        Raises:
            FormatError: A TABLE_MAP breaks the format.
            TableMapMissingError: A rows event's transaction has no TABLE_MAP of its table.
        """
        mapped = np.flatnonzero(block.type == EventType.TABLE_MAP)
        rows = np.flatnonzero(IS_ROWS[block.type])
        if not len(rows) and not len(mapped):
            if not ends_open or (len(transaction) and transaction[-1] > 0):
                self._open = {}
            return rows, rows
        shortest = HEADER_SIZE + 8 + block.format.checksum_size
        if (block.size[mapped] <= shortest).any() or (block.size[rows] <= shortest).any():
            raise errors.FormatError("a rows event or TABLE_MAP ends early", file=block.file)
        ids = unaligned_view(block.data, "<u8")
        mapped_id = ids[block.start[mapped] + HEADER_SIZE] & _TABLE_ID_MASK
        rows_id = ids[block.start[rows] + HEADER_SIZE] & _TABLE_ID_MASK
        mapped_table = self._identify(block, mapped)
        table = self._latest(
            mapped, mapped_id, mapped_table, rows, rows_id, transaction=transaction
        )
        self._continue(
            rows_id, table, np.flatnonzero((table == NO_TABLE) & (transaction[rows] == 0))
        )
        for index in np.flatnonzero(table == NO_TABLE).tolist():
            event = int(rows[index])
            if not _is_dummy(block, event, int(rows_id[index])):
                raise errors.TableMapMissingError(
                    "a rows event without the TABLE_MAP of its table: the start is no transaction "
                    "boundary",
                    **block.where(event),
                    table_id=int(rows_id[index]),
                )
        self._carry(mapped, mapped_id, mapped_table, transaction=transaction, ends_open=ends_open)
        return rows, table

    def _continue(
        self,
        rows_id: npt.NDArray[np.uint64],
        table: npt.NDArray[np.int64],
        which: npt.NDArray[np.int64],
    ) -> None:
        """Set the tables of rows events whose transaction and TABLE_MAPs began before the block."""
        if not len(which):
            return
        ids, index = np.unique(rows_id[which], return_inverse=True)
        tables = [self._open.get(table_id, NO_TABLE) for table_id in ids.tolist()]
        table[which] = np.array(tables)[index]

    def _latest(
        self,
        mapped: npt.NDArray[np.int64],
        mapped_id: npt.NDArray[np.uint64],
        mapped_table: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        rows_id: npt.NDArray[np.uint64],
        *,
        transaction: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Return, for each rows event, the table last mapped to its id in its transaction."""
        table = np.full(len(rows), NO_TABLE, dtype=np.int64)
        if not len(mapped):
            return table
        # Nearly always the last TABLE_MAP before it is the one.
        last = np.searchsorted(mapped, rows) - 1
        good = (last >= 0) & (mapped_id[last] == rows_id)
        if not (good | (last < 0)).all():
            # Statements on several tables: forward fill among the events of each id.
            event = np.concatenate([mapped, rows])
            table_id = np.concatenate([mapped_id, rows_id])
            order = np.lexsort((event, table_id))
            index = np.where(order < len(mapped), np.arange(len(order)), -1)
            latest = np.maximum.accumulate(index)
            latest_map = np.empty(len(order), dtype=np.int64)
            latest_map[order] = order[np.maximum(latest, 0)]
            last = latest_map[len(mapped) :]
            good = last < len(mapped)
            last = np.where(good, last, 0)
            good &= mapped_id[last] == rows_id
        good &= transaction[mapped[last]] == transaction[rows]
        table[good] = mapped_table[last[good]]
        return table

    def _identify(self, block: EventBlock, mapped: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return which of `table_maps` each of these events is, decoding what is new."""
        # After the table id and the flags, which do not describe the table.
        begin = block.start[mapped] + HEADER_SIZE + 8
        end = block.start[mapped] + block.size[mapped] - block.format.checksum_size
        distinct = gather(block.data, begin, end).dictionary_encode()
        bodies: list[Any] = distinct.dictionary.to_pylist()
        index = numbers_of(distinct.indices)
        first = np.empty(len(bodies), dtype=np.int64)
        first[index[::-1]] = mapped[::-1]
        tables = [
            self._decode(block, event, body)
            for event, body in zip(first.tolist(), bodies, strict=True)
        ]
        identified: npt.NDArray[np.int64] = np.array(tables, dtype=np.int64)[index]
        return identified

    def _decode(self, block: EventBlock, event: int, body: bytes) -> int:
        table = self._tables.get(body)
        if table is None:
            try:
                table_map = TableMap.parse(block.body(event), block.format)
            except errors.BinlogError as error:
                error.context |= {**block.where(event), **error.context}
                raise
            table = self._tables[body] = len(self.table_maps)
            self.table_maps.append(table_map)
        return table

    def _carry(
        self,
        mapped: npt.NDArray[np.int64],
        mapped_id: npt.NDArray[np.uint64],
        mapped_table: npt.NDArray[np.int64],
        *,
        transaction: npt.NDArray[np.int64],
        ends_open: bool,
    ) -> None:
        """Keep the TABLE_MAPs that rows events of the next block may be about."""
        last = int(transaction[-1])
        if not ends_open or last > 0:
            self._open = {}
        if ends_open:
            own = transaction[mapped] == last
            own_ids, own_tables = mapped_id[own].tolist(), mapped_table[own].tolist()
            self._open |= dict(zip(own_ids, own_tables, strict=True))


def _is_dummy(block: EventBlock, event: int, table_id: int) -> bool:
    """Whether an event only ends its statement: MariaDB and NDB write such an event of no table."""
    # Of both versions alike: | 19 header | 6 table id | 2 flags | ...
    flags = int(block.data[int(block.start[event]) + HEADER_SIZE + 6])
    return table_id in _DUMMY_TABLE_IDS and bool(flags & _STATEMENT_END)
