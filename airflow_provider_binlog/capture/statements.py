"""The logged statements that act on captured tables as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.errors import UnsupportedError, raise_error
from airflow_provider_binlog.schema_history.ddl_reader import placed
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.lexer import STATEMENT_SHOWN

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.captured import CapturedBlock, LoggedStatement
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.sql.ddl import TableChange
    from airflow_provider_binlog.sql.session import Session


class ReadStatement(NamedTuple):
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

    def __init__(self, tables: TableFilter, *, refuse: Refuse = raise_error) -> None:
        """Begin a range; `refuse` takes the error of a statement that is not understood."""
        self._tables = tables
        self._refuse = refuse

    def read(self, captured: CapturedBlock) -> list[ReadStatement]:
        """Return those of the next block, in log order.

        Raises:
            UnsupportedError: A statement failed half-way, or which tables it is about cannot be
                determined.
        """
        found = []
        for logged in captured.statements:
            try:
                with placed(logged.file, logged.offset):
                    statement = self._read(logged, captured.block.format.flavor)
            except UnsupportedError as error:
                self._refuse(error)
                continue
            if statement is not None:
                found.append(statement)
        return found

    def _read(self, logged: LoggedStatement, flavor: Flavor) -> ReadStatement | None:
        row, file, offset, query = logged
        session = query.session(flavor)
        ddl = read_ddl(query.sql, session)
        if ddl is None or not any(map(self._concerns, ddl.tables)):
            return None
        if query.error:
            # What it did before it failed is not in the log.
            raise UnsupportedError(
                "a statement on a captured table failed half-way on the server: take a new "
                "snapshot of it",
                error=query.error,
                statement=query.sql[:STATEMENT_SHOWN],
            )
        return ReadStatement(row, file, offset, ddl.type, query.sql, ddl.changes, session)

    def _concerns(self, name: TableName) -> bool:
        database, table = name
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)
