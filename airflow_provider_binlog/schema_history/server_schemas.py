"""The schemas of tables by the server's information_schema, for rows that were logged before.

information_schema shows a table as it is at one position of the log. It holds for a row before that
position if no statement between the two names the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_provider_binlog.errors import (
    BinlogError,
    ConnectionLostError,
    ServerSetupError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema_history.statements import changes_of, read_statements

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.statements import LoggedChange
    from airflow_provider_binlog.sql.partial_schema import PartialSchema
    from airflow_provider_binlog.transport.block_stream import BlockStream
    from airflow_provider_binlog.transport.server.information_schema import ServerTables

ServerTablesReader: TypeAlias = Callable[[Callable[[str, str], bool]], "ServerTables"]
"""Reads information_schema, over a connection of its own."""


class Undeterminable(NamedTuple):
    """Why the schema that a table had cannot be determined."""

    reason: str


class ServerSchemas:
    """The tables of information_schema, and the statements that have named them since.

    Attributes:
        since: The statements from here on are read whenever information_schema is; those before
            are the caller's.
        has_server: Whether there is a server to query.
        can_gain: Whether it is queried for tables of which the log says what it takes.
        wants_defaults: Whether the defaults of all tables' columns are queried.
        failure: Why the server is not queried any more; None where it did not fail.
    """

    def __init__(
        self,
        source: BlockStream,
        since: Position,
        *,
        captured: Callable[[str, str], bool],
        read_server_tables: ServerTablesReader | None,
        wants_defaults: bool = False,
        named: Iterable[LoggedChange] = (),
    ) -> None:
        """Note what to query; nothing is queried yet.

        Args:
            source: Where the log is read.
            since: See the attribute.
            captured: Whether a table, by database and name, is queried.
            read_server_tables: None where there is no server: then the log must say it all.
            wants_defaults: Whether the defaults of all tables' columns are queried.
            named: Statements before `since` that are known already, in log order.
        """
        self.since = since
        self.failure: BinlogError | None = None
        self.has_server = self.can_gain = read_server_tables is not None
        self.wants_defaults = wants_defaults
        self._source = source
        self._captured = captured
        self._read_server_tables = read_server_tables
        self._read_up_to = since
        self._tables: ServerTables | None = None
        # The last statement that names a table, or all of a database; under "" one that cannot be
        # read, which may name any.
        self._named: dict[TableName, tuple[Position, str]] = {}
        for logged in named:
            self._note(logged)

    def lose_server(self, failure: BinlogError) -> None:
        """Stop querying the server."""
        self.has_server = self.can_gain = False
        self.failure = failure

    def is_versioned(self, name: TableName) -> bool:
        """Whether the table was system-versioned when the server was queried; False before that."""
        return self._tables is not None and name in self._tables.versioned

    def find(self, name: TableName, at: Position) -> PartialSchema | Undeterminable:
        """Return the schema that a table had at a row.

        Args:
            name: Database and table.
            at: Where the row's event begins.

        Raises:
            SourceError: The server, or the way to it, failed.
        """
        tables = self._tables
        if tables is None or at.coordinates >= tables.position.coordinates:
            tables = self._tables = self._query_server()
        for named in (name, (name[0], ""), ("", "")):
            position, reason = self._named.get(named, (None, ""))
            if position is not None and position.coordinates > at.coordinates:
                return Undeterminable(reason)
        if (table := tables.tables.get(name)) is not None:
            return table
        if (why := tables.refused.get(name)) is not None:
            return Undeterminable(
                f"its columns are unknown, since the server refuses a SELECT from it: {why}"
            )
        return Undeterminable(
            "it is not in the server's information_schema: it was dropped or renamed since, or the "
            "account has no SELECT on it"
        )

    def _query_server(self) -> ServerTables:
        """Read information_schema, and the log up to the position at which it was read."""
        if self._read_server_tables is None:
            raise ServerSetupError("there is no server whose information_schema can be queried")
        tables = self._read_server_tables(self._captured)
        if tables.position.coordinates < self._read_up_to.coordinates:
            raise ConnectionLostError(
                "the server's log ends before the range does",
                at=tables.position,
                stop=self._read_up_to,
            )
        for statement in read_statements(self._source, self._read_up_to, tables.position):
            try:
                for logged in changes_of(statement):
                    self._note(logged)
            except UnsupportedError as error:
                at = Position(statement.file, statement.offset)
                self._named["", ""] = at, str(error)
        self._read_up_to = tables.position
        return tables

    def _note(self, logged: LoggedChange) -> None:
        reason = named_later(logged)
        for name in logged.names:
            self._named[name] = Position(logged.file, logged.offset), reason


def named_later(logged: LoggedChange) -> str:
    """Return why information_schema does not hold before a statement."""
    return (
        f"the statement at {logged.file}:{logged.offset} names the table, and information_schema "
        "shows the table after it"
    )
