"""The logged statements that act on captured tables as a whole, each read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema_history.ddl import (
    STATEMENT_SHOWN,
    DdlReader,
    describe,
    placed,
)
from airflow_provider_binlog.schema_history.table_changes import read_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.table_changes import TableChange


class LoggedStatement(NamedTuple):
    """A statement that acts on captured tables.

    Attributes:
        row, file, offset, type, text: As `manifest.Statement` has them.
        tables: (database, table) of each table that it names; of a database, (database, "").
        changes: What it does to their names and shapes, in order.
    """

    row: int
    file: str
    offset: int
    type: str
    text: str
    tables: tuple[TableName, ...]
    changes: tuple[TableChange, ...]


class StatementReader:
    """Finds the statements of a log that act on captured tables as a whole."""

    def __init__(self, tables: TableFilter) -> None:
        self._tables = tables
        self._ddl = DdlReader()

    def read(
        self, block: EventBlock, transactions: Transactions, file_index: int
    ) -> list[LoggedStatement]:
        """Return those of the next block, of the file that has this index in the range.

        Raises:
            UnsupportedError: A statement failed half-way, or which tables it is about cannot be
                determined.
        """
        return list(self._read(block, transactions, file_index))

    def _read(
        self, block: EventBlock, transactions: Transactions, file_index: int
    ) -> Iterator[LoggedStatement]:
        flavor = block.format.flavor
        for event, query in self._ddl.read(transactions):
            offset = int(block.position[event])
            with placed(block.file, offset):
                described = describe(query, flavor)
                if described is None or not any(map(self._concerns, described.tables)):
                    continue
                changes = _changes(query, flavor)
            row = (file_index << ROW_FILE_SHIFT) + int(block.place[event])
            yield LoggedStatement(
                row, block.file, offset, described.kind, query.sql, described.tables, changes
            )

    def _concerns(self, name: TableName) -> bool:
        database, table = name
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)


def _changes(query: Query, flavor: Flavor) -> tuple[TableChange, ...]:
    if query.error:
        # What it did before it failed is not in the log.
        raise UnsupportedError(
            "a statement on a captured table failed half-way on the server: take a new "
            "snapshot of it",
            error=query.error,
            statement=query.sql[:STATEMENT_SHOWN],
        )
    return read_changes(query, flavor)
