"""Read a range of the log and yield its captured rows events.

source ─blocks─▶ new ─▶ expanded ─▶ transactions ─▶ committed ─▶ tables ─▶ CapturedBlock ─▶ a sink

Capture writes their rows to Parquet, `rows` prints them, and `rows --verify` counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.header import ROWS, EventType
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.blocks.captured import (
    NO_TABLE,
    CapturedBlock,
    TableMapReader,
    TransactionBlock,
)
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader, Transactions
from airflow_provider_binlog.capture.commits import CommitReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids, StagedTransactions
from airflow_provider_binlog.errors import BinlogError, Refuse, raise_error
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.schema_history.schemas import SchemaReader
from airflow_provider_binlog.schema_history.statements import StatementFinder

_ROWS = [int(event_type) for event_type in ROWS]
_CHANGES = [*_ROWS, int(EventType.TABLE_MAP)]


class RangeReader:
    """Reads the blocks of a range, in log order, from a transaction boundary on.

    Attributes:
        files: The range's files in order; `CapturedBlock.file_index` counts them.
        undecoded: Rows events whose tables could not be found, by type code.
    """

    def __init__(
        self,
        *,
        captured: Callable[[str, str], bool],
        schemas: SchemaReader,
        commits: CommitReader | None = None,
        gtids: ExecutedGtids | None = None,
        staged: StagedTransactions | None = None,
        refuse: Refuse = raise_error,
        skips: Callable[[Query], bool] = lambda _: False,
        files: Iterable[str] = (),
    ) -> None:
        """Create the reader.

        Args:
            captured: Whether a table, named by database and name, is captured.
            schemas: Completes the captured tables.
            commits: Keeps the changes that were committed; without it, all are yielded where they
                are logged.
            gtids: Follows the executed GTIDs, and refuses gaps.
            staged: Leaves out the transactions that are already staged.
            refuse: Takes an error. Where it returns, reading continues after the error.
            skips: Whether the rows that a statement changes by its text alone do not matter.
            files: Files before the range, which rows are numbered after.
        """
        self.files = list(files)
        self.transactions = TransactionReader(refuse=refuse, skips=skips)
        self.schemas = schemas
        self.undecoded: Counter[int] = Counter()
        self._captured = captured
        self._commits = commits
        self._gtids = gtids
        self._gtids_refused = False
        self._staged = staged
        self._refuse = refuse
        self._expander = Expander()
        self._table_maps = TableMapReader()
        self._ddl = StatementFinder()
        # Of the TABLE_MAPs so far: whether their tables are captured.
        self._wanted = np.empty(0, dtype=bool)

    @property
    def events(self) -> Counter[int]:
        """Number of events read so far, by type code."""
        return self._expander.events

    @property
    def tables(self) -> set[TableName]:
        """The tables of rows so far, captured or not."""
        return {(table_map.database, table_map.table) for table_map in self._table_maps.table_maps}

    @property
    def in_doubt(self) -> tuple[Prepared, ...]:
        """The XA transactions that are in doubt by now."""
        return () if self._commits is None else self._commits.in_doubt

    @property
    def executed(self) -> str | None:
        """GTIDs executed up to here; None where they are unknown."""
        return None if self._gtids is None or self._gtids_refused else self._gtids.text

    def executed_at(self, stop: Position) -> Position:
        """Return the position that was read up to with the GTIDs executed before it."""
        if self._staged is not None:
            return self._staged.at(stop)
        return replace(stop, gtid=self.executed)

    def read(self, logged: EventBlock) -> Iterator[CapturedBlock]:
        """Yield what is captured of the next block of the log, which may be several blocks.

        Raises:
            BinlogError: The block is damaged, is not decoded, or does not follow the last one.
        """
        try:
            new = [logged] if self._staged is None else self._staged.choose_new(logged)
            for block in chain.from_iterable(map(self._expander.expand, new)):
                for arranged in self._arranged(block):
                    yield self._capture(*arranged)
        except BinlogError as error:
            self._refuse(error)
            self._skip_to_next_transaction()

    def resume(self) -> None:
        """Continue after a gap in the log, at the beginning of a file."""
        if self._gtids is not None:
            self._gtids.reset()
            self._gtids_refused = False
        self._skip_to_next_transaction()

    def _skip_to_next_transaction(self) -> None:
        self.transactions.skip_to_next_transaction()
        if self._commits is not None:
            self._commits.reset()

    def _arranged(self, block: EventBlock) -> Iterable[TransactionBlock]:
        read = self.transactions.read(block)
        self._read_gtids(block, read)
        whole = TransactionBlock(block, read)
        return [whole] if self._commits is None else self._commits.arrange(whole)

    def _capture(self, block: EventBlock, read: Transactions) -> CapturedBlock:
        if block.file not in self.files:
            self.files.append(block.file)
        events, table = self._find_tables(block, read)
        chosen = self._are_captured(table)
        captured = CapturedBlock(
            block=block,
            file_index=len(self.files) - 1,
            transactions=read,
            statements=(),
            events=events[chosen],
            table=table[chosen],
            table_maps=self._table_maps.table_maps,
        )
        if self._commits is not None:
            self._commits.check(captured)
        statements = tuple(self._ddl.read(block, read, captured.row_of))
        return self.schemas.read(replace(captured, statements=statements))

    def _read_gtids(self, block: EventBlock, read: Transactions) -> None:
        if self._gtids is None or self._gtids_refused:
            return
        try:
            # The first entry began in an earlier block.
            prefixes = self.transactions.prefixes
            self._gtids.read(block, read.prefix[1:], read.number[1:], prefixes)
        except BinlogError as error:
            self._refuse(error)
            self._gtids_refused = True  # what follows would be refused for the same reason

    def _find_tables(
        self, block: EventBlock, read: Transactions
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows events of transactions that are not refused, and the table of each."""
        left, events = block, np.arange(len(block))
        while True:
            try:
                rows, table = self._table_maps.read(
                    left, read.of_event[events], ends_open=read.ends_open
                )
                return events[rows], table
            except BinlogError as error:
                self._refuse(error)
                at = np.flatnonzero(left.offset == error.context.get("offset", -1))
                own = read.of_event[events]
                lost = np.isin(left.type, _CHANGES)
                if len(at):
                    lost &= own == own[at[0]]
                self.undecoded.update(left.type[lost & np.isin(left.type, _ROWS)].tolist())
                if lost.all() or not lost.any():
                    return events[:0], events[:0]
                left, events = left.choose(np.flatnonzero(~lost)), events[~lost]

    def _are_captured(self, table: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        new = self._table_maps.table_maps[len(self._wanted) :]
        if new:
            captured = [self._captured(table_map.database, table_map.table) for table_map in new]
            self._wanted = np.append(self._wanted, np.array(captured, dtype=bool))
        if not len(self._wanted):
            return np.zeros(len(table), dtype=bool)
        wanted: npt.NDArray[np.bool_] = self._wanted[table] & (table != NO_TABLE)
        return wanted
