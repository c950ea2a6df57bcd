"""The logged statements that act on captured tables as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import UnsupportedError, error_context, raise_error
from airflow_provider_binlog.sql.lexer import STATEMENT_SHOWN

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.captured import CapturedBlock, LoggedStatement
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.schema import TableName


class StatementReader:
    """Finds the statements of a log that act on captured tables as a whole."""

    def __init__(self, tables: TableFilter, *, refuse: Refuse = raise_error) -> None:
        """Begin a range; `refuse` takes the error of a statement that is not understood."""
        self._tables = tables
        self._refuse = refuse

    def read(self, captured: CapturedBlock) -> list[LoggedStatement]:
        """Return those of the next block, in log order.

        Raises:
            UnsupportedError: A statement failed half-way, or which tables it is about cannot be
                determined.
        """
        found = []
        for logged in captured.statements:
            try:
                with error_context(file=logged.file, offset=logged.offset):
                    if self._is_captured(logged):
                        found.append(logged)
            except UnsupportedError as error:
                self._refuse(error)
        return found

    def _is_captured(self, logged: LoggedStatement) -> bool:
        ddl, query = logged.ddl, logged.query
        if ddl is None or not any(map(self._concerns, ddl.tables)):
            return False
        if query.error:
            # What it did before it failed is not in the log.
            raise UnsupportedError(
                "a statement on a captured table failed half-way on the server: take a new "
                "snapshot of it",
                error=query.error,
                statement=query.sql[:STATEMENT_SHOWN],
            )
        return True

    def _concerns(self, name: TableName) -> bool:
        database, table = name
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)
