"""What is known of a range's tables from outside of it: before it, and after it.

Before it, by what was staged last; after it, by information_schema and the statements up to the end
of the log when that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_binlog.errors import BinlogError, ConnectionLostError, ServerSetupError
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.schema_history.completion import partial_from_schema
from airflow_provider_binlog.schema_history.ddl_reader import DdlReader, changes_between
from airflow_provider_binlog.schema_history.history import History, Lost, names_of
from airflow_provider_binlog.sql.ddl import Created, Renamed

if TYPE_CHECKING:
    from airflow_provider_binlog.position import Flavor, Position
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.ddl_reader import TemporaryTable
    from airflow_provider_binlog.schema_history.history import Backwards, LoggedChange
    from airflow_provider_binlog.schema_history.tables import NoTable
    from airflow_provider_binlog.sql.partial_schema import PartialSchema
    from airflow_provider_binlog.transport.block_stream import BlockStream
    from airflow_provider_binlog.transport.server.information_schema import ServerTables

ServerTablesReader: TypeAlias = Callable[[Callable[[str, str], bool]], "ServerTables"]
"""Reads information_schema, over a connection of its own."""


class Past:
    """What is known of the tables of a range from outside of it, and kept when it is read again.

    Attributes:
        has_server: Whether there is a server to query.
        can_gain: Whether it is queried for tables of which the log says what it takes.
        wants_defaults: Whether the defaults of all tables' columns are queried.
        failure: Why the server is not queried any more; None where it did not fail.
    """

    def __init__(
        self,
        source: BlockStream,
        stop: Position,
        *,
        captured: Callable[[str, str], bool],
        read_server_tables: ServerTablesReader | None,
        find_table: Callable[[TableName], TableState | NoTable | None] = lambda _: None,
        wants_defaults: bool = False,
        temporary: Sequence[TemporaryTable] = (),
    ) -> None:
        """Note what to query; nothing is queried yet.

        Args:
            source: Where the log is read.
            stop: Where the range ends.
            captured: Whether a table, named by database and name, is captured.
            read_server_tables: None where there is no server: then the log must say it all.
            find_table: Returns what was known of a table before the range.
            wants_defaults: Whether the defaults of all tables' columns are queried.
            temporary: The temporary tables that there are where the range ends, as far as known.
        """
        self.failure: BinlogError | None = None
        self.has_server = self.can_gain = read_server_tables is not None
        self.wants_defaults = wants_defaults
        self._source = source
        self._captured = captured
        self._read_server_tables = read_server_tables
        self._find_table = find_table
        self._others: set[TableName] = set()
        self._server_tables: ServerTables | None = None
        self._stop = stop
        self._temporary = tuple(temporary)
        self._forget_tail()

    def lose_server(self, failure: BinlogError) -> None:
        """Stop querying the server."""
        self.has_server = self.can_gain = False
        self.failure = failure

    def _forget_tail(self) -> None:
        """Begin where the range ends."""
        self._tail: list[LoggedChange] = []
        self._tail_end = self._stop
        self._tail_ddl = DdlReader(self._temporary)

    def end_with(self, temporary: Sequence[TemporaryTable]) -> bool:
        """Take note of the temporary tables that there are where the range ends.

        Returns whether statements after it were read without them, so that what was determined by
        them may be wrong.
        """
        if tuple(temporary) == self._temporary:
            return False
        misread = bool(self._tail)
        self._temporary, self._server_tables = tuple(temporary), None
        self._forget_tail()
        return misread

    def is_versioned(self, name: TableName) -> bool:
        """Whether the table was system-versioned when the server was queried; False before that."""
        return self._server_tables is not None and name in self._server_tables.versioned

    def history(
        self, changes: list[LoggedChange], names: set[TableName], flavor: Flavor
    ) -> History:
        """Return what is known of these tables, given what the statements of the range did.

        Raises:
            SourceError: The server, or the way to it, failed.
        """
        while True:
            server_tables = self._server_tables or self._query_server()
            related, relevant = _related([*changes, *self._tail], names)
            missing = {name for name in related if not self._wants(*name)}
            if not missing:
                break
            # Tables that are not captured, and once were, or share a schema with one that is.
            self._others |= missing
            self._server_tables = None
        last = {name: _last_of(server_tables, name) for name in related}
        first = {name: schema for name in related if (schema := self._first(name)) is not None}
        return History(relevant, related, first=first, last=last.__getitem__, flavor=flavor)

    def _first(self, name: TableName) -> PartialSchema | None:
        """Return the schema that a table had before the range, if it is known for certain."""
        known = self._find_table(name) if self._captured(*name) else None
        if not isinstance(known, TableState) or known.schema is None or not known.is_confirmed:
            return None
        return partial_from_schema(known.schema)

    def _wants(self, database: str, table: str) -> bool:
        return (database, table) in self._others or self._captured(database, table)

    def _query_server(self) -> ServerTables:
        """Read information_schema, and the log up to the position at which it was read."""
        if self._read_server_tables is None:
            raise ServerSetupError("there is no server whose information_schema can be queried")
        server_tables = self._read_server_tables(self._wants)
        if server_tables.position.coordinates < self._tail_end.coordinates:
            raise ConnectionLostError(
                "the server's log ends before the range does",
                at=server_tables.position,
                stop=self._tail_end,
            )
        self._tail += changes_between(
            self._source, self._tail_end, server_tables.position, self._tail_ddl
        )
        self._tail_end = server_tables.position
        self._server_tables = server_tables
        return server_tables


def _related(
    changes: list[LoggedChange], names: set[TableName]
) -> tuple[set[TableName], list[LoggedChange]]:
    """Return the tables whose names or schemas these ones had, or gave, and what changed them."""
    related = set(names)
    while True:
        more = set(related)
        for logged in changes:
            change = logged.change
            if isinstance(change, Renamed):
                pair = {change.old, change.new}
            elif isinstance(change, Created) and change.like is not None:
                pair = {change.table, change.like}
            else:
                continue
            if pair & more:
                more |= pair
        if more == related:
            break
        related = more
    databases = {database for database, _ in related}
    relevant = [
        logged
        for logged in changes
        if any(
            (database, table) in related or (not table and database in databases)
            for database, table in names_of(logged.change)
        )
    ]
    return related, relevant


def _last_of(server_tables: ServerTables, name: TableName) -> Backwards:
    table = server_tables.tables.get(name)
    if table is not None:
        return (table,)
    if (why := server_tables.refused.get(name)) is not None:
        return Lost(f"its columns are unknown, since the server refuses a SELECT from it: {why}")
    return Lost(
        "it is not in the server's information_schema: it was dropped or renamed since, or the "
        "account has no SELECT on it"
    )
