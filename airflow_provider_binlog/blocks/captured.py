"""A block of a range as its readers meet it: the events, and what is known of each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import error_context
from airflow_provider_binlog.sql.ddl import read_ddl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.sql.ddl import DdlStatement
    from airflow_provider_binlog.sql.session import Session


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
        """That ran it."""
        return self.query.session(self.flavor)

    @cached_property
    def ddl(self) -> DdlStatement | None:
        """What it does to tables, read once; None if it does nothing to any.

        Raises:
            UnsupportedError: Which tables it is about cannot be determined.
        """
        with error_context(file=self.file, offset=self.offset):
            return read_ddl(self.query.sql, self.session)


@dataclass(frozen=True)
class CapturedBlock:
    """A block, with its captured rows events, their tables, transactions and row numbers.

    Attributes:
        block: The events.
        file_index: Of the block's file among the range's files.
        transactions: Those that the block has a part of.
        statements: The DDL in it, in log order.
        events: int64; the captured rows events, as indexes of the block's events, in log order.
        table: int64; the table of each of them, an index into `table_maps`.
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
