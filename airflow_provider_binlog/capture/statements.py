"""The logged statements that act on captured tables as a whole, each read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema_history.ddl_reader import DdlReader, placed
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.lexer import STATEMENT_SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.sql.ddl import TableChange
    from airflow_provider_binlog.sql.session import Session


class LoggedStatement(NamedTuple):
    """A statement that acts on captured tables.

    Attributes:
        row, file, offset, type, text: As `manifest.Statement` has them.
        changes: What it does, in order.
        session: That ran it.
    """

    row: int
    file: str
    offset: int
    type: str
    text: str
    changes: tuple[TableChange, ...]
    session: Session


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
        for event, query in self._ddl.read(transactions):
            offset, session = int(block.position[event]), query.session(block.format.flavor)
            with placed(block.file, offset):
                ddl = read_ddl(query.sql, session)
                if ddl is None or not any(map(self._concerns, ddl.tables)):
                    continue
                if query.error:
                    # What it did before it failed is not in the log.
                    raise UnsupportedError(
                        "a statement on a captured table failed half-way on the server: take a new "
                        "snapshot of it",
                        error=query.error,
                        statement=query.sql[:STATEMENT_SHOWN],
                    )
            row = (file_index << ROW_FILE_SHIFT) + int(block.place[event])
            yield LoggedStatement(
                row, block.file, offset, ddl.type, query.sql, ddl.changes, session
            )

    def _concerns(self, name: TableName) -> bool:
        database, table = name
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)
