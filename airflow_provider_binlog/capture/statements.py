"""The logged statements that act on captured tables as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.quarantine import RefusedTables, raise_table_error
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import UnsupportedError, error_context, raise_error

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.captured import CapturedBlock, LoggedStatement
    from airflow_provider_binlog.capture.quarantine import RefuseTables
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.schema import TableName


class StatementReader:
    """Finds the statements of a log that act on captured tables as a whole."""

    def __init__(
        self,
        tables: TableFilter,
        *,
        refuse: Refuse = raise_error,
        refuse_tables: RefuseTables = raise_table_error,
    ) -> None:
        """Begin a range.

        Args:
            tables: Which tables are captured.
            refuse: Takes the error of a statement that is not understood.
            refuse_tables: Takes the error of one that failed half-way.
        """
        self._tables = tables
        self._refuse = refuse
        self._refuse_tables = refuse_tables

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
                    names = self._captured(logged)
            except UnsupportedError as error:
                self._refuse(error)
                continue
            if names and logged.query.error:
                self._refuse_failed(logged, names)
            elif names:
                found.append(logged)
        return found

    def _captured(self, logged: LoggedStatement) -> list[TableName]:
        """Return the tables of a statement that are captured."""
        ddl = logged.ddl
        return [] if ddl is None else [each for each in ddl.tables if self._concerns(each)]

    def _refuse_failed(self, logged: LoggedStatement, names: list[TableName]) -> None:
        """Refuse a statement of which the log does not say what it did before it failed."""
        error = UnsupportedError(
            "a statement on captured tables failed half-way on the server: reload them",
            error=logged.query.error,
            statement=logged.ddl.type if logged.ddl is not None else "",
            file=logged.file,
            offset=logged.offset,
        )
        expanded_offset = logged.row % (1 << ROW_FILE_SHIFT)
        self._refuse_tables(
            RefusedTables(error, tuple(names), logged.file, logged.offset, expanded_offset)
        )

    def _concerns(self, name: TableName) -> bool:
        database, table = name
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)
