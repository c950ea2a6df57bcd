"""The DDL statements of a log that took effect, and what each did to the schemas of tables.

Source: as binlog/transactions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.binlog.events.gtid import MariadbGtid
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sql.alterations import Opaque, RewriteRows
from airflow_provider_binlog.sql.ddl import (
    Altered,
    DroppedDatabase,
    Renamed,
    TableChange,
    Truncated,
)
from airflow_provider_binlog.sql.statement_types import StatementType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.errors import BinlogError
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.block_stream import BlockStream


class LoggedChange(NamedTuple):
    """What a statement of the log did to the schema of a table.

    Attributes:
        row: Its number among the rows of the range.
        file, offset: Where the statement is logged.
        change: What it did.
    """

    row: int
    file: str
    offset: int
    change: TableChange

    @property
    def names(self) -> tuple[TableName, ...]:
        """The tables whose schemas it may have changed; of a database, (database, "")."""
        if isinstance(self.change, DroppedDatabase):
            return ((self.change.database, ""),)
        if isinstance(self.change, Renamed):
            return (self.change.old, self.change.new)
        return (self.change.table,)


class StatementFinder:
    """Finds the DDL statements of a log that took effect, block after block."""

    def __init__(self) -> None:
        self._alters_nothing = False

    def read(
        self, block: EventBlock, transactions: Transactions, row_of: Callable[[int], int]
    ) -> Iterator[LoggedStatement]:
        """Yield those of the next block; `row_of` returns the row number of an event."""
        for event, seen in sorted(transactions.scanned.items()):
            if seen.gtid is not None:
                # It is about the statement that follows, be that in the next block.
                self._alters_nothing = (
                    isinstance(seen.gtid, MariadbGtid) and seen.gtid.alters_nothing
                )
            if seen.query is None or self._alters_nothing:
                continue
            if seen.statement_type is StatementType.DDL:
                row, offset = row_of(event), int(block.offset[event])
                yield LoggedStatement(row, block.file, offset, seen.query, block.format.flavor)


def changes_of(logged: LoggedStatement) -> list[LoggedChange]:
    """Return what a statement did to the schemas of tables, even where it failed half-way.

    Raises:
        UnsupportedError: Which tables it is about cannot be determined.
    """
    ddl, query = logged.ddl, logged.query
    if ddl is None:
        return []
    changes = [change for change in ddl.changes if not _changes_rows_alone(change)]
    if query.error:
        # What it did before it failed is not in the log.
        failed = Opaque(f"error {query.error}")
        changes = [Altered(name, (failed,)) for name in ddl.tables]
    return [LoggedChange(logged.row, logged.file, logged.offset, change) for change in changes]


def _changes_rows_alone(change: TableChange) -> bool:
    if isinstance(change, Altered):
        return all(isinstance(alteration, RewriteRows) for alteration in change.alterations)
    return isinstance(change, Truncated)


def read_statements(
    source: BlockStream, start: Position, stop: Position
) -> Iterator[LoggedStatement]:
    """Yield the DDL statements between two positions; their row numbers mean nothing.

    Events that a range would refuse are skipped: they are not statements.
    """
    if start.coordinates >= stop.coordinates:
        return
    expander, transactions = Expander(), TransactionReader(refuse=_skip)
    finder = StatementFinder()
    for logged in source.blocks(start, stop):
        for block in expander.expand(logged):
            for statement in finder.read(block, transactions.read(block), lambda _: 0):
                if Position(statement.file, statement.offset).coordinates >= stop.coordinates:
                    return
                yield statement


def _skip(error: BinlogError) -> None:
    """Skip an event that is not decoded, or a statement that changes rows; raise anything else."""
    skipped = error.context.keys() & {"event", "statement"}
    if not (isinstance(error, UnsupportedError) and skipped):
        raise error
