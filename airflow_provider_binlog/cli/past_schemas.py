"""What a server can tell of the tables in its log, for whoever reads the log in one go.

Capture reads a range again where a later statement explains an earlier row. Here the statements up
to the log's end are read before the first question is answered, and what was told is never taken
back. The answers are the same, but for what capture knows from the range that was staged before.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.schema_history.completion import Unclear, complete_table_map
from airflow_provider_binlog.schema_history.history import LoggedChange
from airflow_provider_binlog.schema_history.later_statements import changes_between
from airflow_provider_binlog.schema_history.schemas import Past
from airflow_provider_binlog.transport.server.version import parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.cli.source import ServerLog
    from airflow_provider_binlog.position import Flavor, Position
    from airflow_provider_binlog.schema_history.history import History

_ALWAYS = -1


class PastSchemas:
    """Completes TABLE_MAPs of a server's log, one after another, where they are certain.

    Nothing is asked before the first one comes.
    """

    def __init__(self, log: ServerLog, start: Position, wanted: Callable[[str, str], bool]) -> None:
        """Note where to ask.

        Args:
            log: The server and its log.
            start: Where the reading begins: statements before it are not looked at.
            wanted: Tells, by database and name, for which tables the server is asked at once;
                for others it is asked when they come.
        """
        self._log = log
        self._wanted = wanted
        self._changes: list[LoggedChange] = []
        self._names: set[tuple[str, str]] = set()
        self._first_file = start.file_number
        self._known_to = start
        self._past: Past | None = None
        self._history: History | None = None
        self._failure: Unclear | None = None

    def epoch(self, table_map: TableMap, at: Position, flavor: Flavor) -> int:
        """Return a number that is the same for as long as no statement changes the table.

        Args:
            table_map: As it was logged.
            at: Where it stands, or rows that it describes.
            flavor: Of the server.

        Raises:
            SourceError: The way to the server failed, or a table is locked: a retry may help.
        """
        history = self._look(table_map, at, flavor)
        if history is None:
            return _ALWAYS
        bounds = history.bounds((table_map.database, table_map.table))
        index = bisect_right(bounds, self._row(at.file, at.offset))
        return bounds[index - 1] if index else _ALWAYS

    def complete(
        self, table_map: TableMap, at: Position, file_format: FormatDescription
    ) -> TableMap | Unclear:
        """Return a TABLE_MAP with all that the log leaves out, or why that is not certain.

        Raises:
            SourceError: As `epoch`.
        """
        history = self._look(table_map, at, file_format.flavor)
        if history is None:
            return self._failure or Unclear("nobody was asked")
        name = table_map.database, table_map.table
        return complete_table_map(
            table_map,
            *history.at(name, self._row(at.file, at.offset)),
            flavor=file_format.flavor,
            version=parse_version(file_format.server_version).version,
        )

    def _look(self, table_map: TableMap, at: Position, flavor: Flavor) -> History | None:
        """Return what is known of a table and the others; None where the server cannot tell."""
        if self._failure is not None:
            return None
        try:
            if self._past is None or at.coordinates >= self._known_to.coordinates:
                self._read_statements()
            name = table_map.database, table_map.table
            if self._past is not None and (self._history is None or name not in self._names):
                self._names.add(name)
                self._history = self._past.history(self._changes, self._names, flavor)
        except BinlogError as error:
            if error.retryable:
                raise
            self._failure = Unclear(str(error))
            return None
        return self._history

    def _read_statements(self) -> None:
        """Read on to where the log ends now, for its statements alone."""
        end = self._log.end()
        for offset, file, change in changes_between(self._log, self._known_to, end):
            self._changes.append(LoggedChange(self._row(file, offset), file, offset, change))
        self._known_to, self._history = end, None
        self._past = Past(
            self._log,
            end,
            captured=self._wanted,
            read_server_tables=self._log.read_server_tables,
        )

    def _row(self, file: str, offset: int) -> int:
        """Return a number for a place in the log: later ones are larger."""
        number = split_file_name(file)[1] - self._first_file
        return (number << ROW_FILE_SHIFT) + offset
