"""The DDL statements of a log that took effect, and schemas by information_schema between them.

information_schema shows a table as it is at one position of the log. It holds for a row before that
position if no statement between the two names the table.

Source: as binlog/transactions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from airflow_provider_binlog import errors
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader, Transactions
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sql import ddl
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.sql.definitions import Opaque, RewriteRows
from airflow_provider_binlog.sql.statement_types import StatementType
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.server.information_schema import ServerTables


@dataclass(frozen=True)
class LoggedChange:
    """Change of a table by a logged statement; `row` is its number among the range's rows."""

    row: int
    file: str
    offset: int
    change: ddl.TableChange

    @property
    def names(self) -> tuple[TableName, ...]:
        """The tables whose schemas it may have changed; of a database, (database, "")."""
        if isinstance(self.change, ddl.DroppedDatabase):
            return ((self.change.database, ""),)
        if isinstance(self.change, ddl.Renamed):
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
                self._alters_nothing = seen.gtid.alters_nothing
            if seen.query is None or self._alters_nothing:
                continue
            if seen.statement_type is StatementType.DDL:
                yield LoggedStatement(
                    row_of(event),
                    block.file,
                    int(block.offset[event]),
                    seen.query,
                    block.format.flavor,
                    int(transactions.commit_ts[transactions.of_event[event]]),
                )


def changes_of(logged: LoggedStatement) -> list[LoggedChange]:
    """Return what a statement did to the schemas of tables, even where it failed half-way.

    Raises:
        UnsupportedError: Which tables it is about cannot be determined.
    """
    done, query = logged.ddl, logged.query
    if done is None:
        return []
    changes = [change for change in done.changes if not _changes_rows_alone(change)]
    if query.error:
        # What it did before it failed is not in the log.
        failed = Opaque(f"error {query.error}")
        changes = [ddl.Altered(name, (failed,)) for name in done.tables]
    return [LoggedChange(logged.row, logged.file, logged.offset, change) for change in changes]


def _changes_rows_alone(change: ddl.TableChange) -> bool:
    if isinstance(change, ddl.Altered):
        return all(isinstance(alteration, RewriteRows) for alteration in change.alterations)
    return isinstance(change, ddl.Truncated)


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
    for read in source.blocks(start, stop):
        for block in expander.expand(read):
            for logged in finder.read(block, transactions.read(block), lambda _: 0):
                if Position(logged.file, logged.offset).coordinates >= stop.coordinates:
                    return
                yield logged


def _skip(error: errors.BinlogError) -> None:
    """Skip an event that is not decoded, or a statement that changes rows; raise anything else."""
    skipped = error.context.keys() & {"event", "statement"}
    if not (isinstance(error, errors.UnsupportedError) and skipped):
        raise error


ServerTablesReader: TypeAlias = Callable[[Collection[TableName]], ServerTables]
"""Reads the tables of these names from information_schema, over a connection of its own."""


_NOT_THERE = (
    "it is not in the server's information_schema: it was dropped or renamed since, or the account "
    "has no SELECT on it"
)


class Undeterminable(NamedTuple):
    """Reason why the schema that a table had cannot be determined."""

    reason: str


class _Described(NamedTuple):
    """A table by information_schema at a position; the last statement that had named it by then."""

    position: Position
    schema: PartialSchema | Undeterminable
    named: tuple[Position, str] | None


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
        read_server_tables: ServerTablesReader | None,
        wants_defaults: bool = False,
        named: Iterable[LoggedChange] = (),
        tables: ServerTables | None = None,
    ) -> None:
        """Note what to query; nothing is queried yet.

        Without `read_server_tables` there is no server: the log must say it all. `named` are the
        statements before `since`, in log order; `tables` were queried before, at `since`, and stand
        in for a server.
        """
        self.since = since
        self.failure: errors.BinlogError | None = None
        self.has_server = self.can_gain = bool(read_server_tables or tables)
        self.wants_defaults = wants_defaults
        self._source = source
        self._read_server_tables = read_server_tables
        self._read_up_to = since
        self._described: dict[TableName, _Described] = {}
        self._versioned: set[TableName] = set()
        # The last statement that names a table, or all of a database; under "" one that cannot be
        # read, which may name any.
        self._named: dict[TableName, tuple[Position, str]] = {}
        for logged in named:
            self._note(logged)
        if tables is not None:
            self._describe(tables.tables.keys() | tables.refused.keys() | tables.versioned, tables)

    def lose_server(self, failure: errors.BinlogError) -> None:
        """Stop querying the server."""
        self.has_server = self.can_gain = False
        self.failure = failure

    def is_versioned(self, name: TableName) -> bool:
        """Whether the table was system-versioned when it was queried; False before that."""
        return name in self._versioned

    def queried(self) -> ServerTables | None:
        """Return what was queried, as it holds at `since`; None where there is no server."""
        if not (self._described or self.has_server):
            return None
        shown, refused = {}, {}
        for name in self._described:
            schema = self._show(name, self.since)
            if isinstance(schema, Undeterminable):
                refused[name] = schema.reason
            else:
                shown[name] = schema
        return ServerTables(self.since, shown, frozenset(self._versioned), refused)

    def find(
        self, name: TableName, at: Position, also: Collection[TableName] = ()
    ) -> PartialSchema | Undeterminable:
        """Return the schema that a table had at a row, whose event begins at `at`.

        Where the server is queried for it, it is queried for `also`, too.

        Raises:
            SourceError: The server, or the way to it, failed.
        """
        described = self._described.get(name)
        if described is None or at.coordinates >= described.position.coordinates:
            self._query_server({name, *(other for other in also if other not in self._described)})
        return self._show(name, at)

    def _show(self, name: TableName, at: Position) -> PartialSchema | Undeterminable:
        described = self._described[name]
        if described.named is not None:
            position, reason = described.named
            if position.coordinates >= at.coordinates:
                return Undeterminable(reason)
        return described.schema

    def _query_server(self, names: Collection[TableName]) -> None:
        """Read information_schema, and the log up to the position at which it was read."""
        # What stands in for a server has no other tables.
        read = self._read_server_tables or (lambda _: ServerTables(self.since, {}))
        tables = read(names)
        if tables.position.coordinates < self._read_up_to.coordinates:
            raise errors.ConnectionLostError(
                "the server's log ends before the range does",
                at=tables.position,
                stop=self._read_up_to,
            )
        for statement in read_statements(self._source, self._read_up_to, tables.position):
            try:
                for logged in changes_of(statement):
                    self._note(logged)
            except errors.UnsupportedError as error:
                at = Position(statement.file, statement.offset)
                self._named["", ""] = at, str(error)
        self._read_up_to = tables.position
        self._describe(names, tables)

    def _describe(self, names: Iterable[TableName], tables: ServerTables) -> None:
        """Keep what was queried, as it holds until a later statement."""
        for name in names:
            unknown = Undeterminable(tables.refused.get(name, _NOT_THERE))
            schema = tables.tables.get(name, unknown)
            keys = self._named.keys() & {name, (name[0], ""), ("", "")}
            statements = [self._named[key] for key in keys]
            last = max(statements, key=lambda named: named[0].coordinates, default=None)
            self._described[name] = _Described(tables.position, schema, last)
        self._versioned = self._versioned.difference(names) | tables.versioned

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
