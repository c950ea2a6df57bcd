"""The DDL statements of a log that took effect, in a range and after it.

Source: as binlog/transactions.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.events.gtid import MariadbGtid
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema_history.history import LoggedChange
from airflow_provider_binlog.sql.alterations import Opaque, RewriteRows
from airflow_provider_binlog.sql.ddl import (
    Altered,
    Renamed,
    TableChange,
    Truncated,
    read_temporary,
)
from airflow_provider_binlog.sql.statement_types import StatementType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.errors import BinlogError
    from airflow_provider_binlog.transport.block_stream import BlockStream

_RENAME_TABLE = "RENAME TABLE"
_OF_BASE_TABLES = frozenset({"CREATE TABLE", "CREATE OR REPLACE TABLE", "DROP TABLE"})
"""Types of statements that name no temporary table without the word, as the server logs them."""

AFTER_RANGE = 1 << 62
"""Row number of the statements after a range: they follow all of its rows."""


@dataclass(frozen=True, order=True)
class TemporaryTable:
    """A temporary table of a session that logs statements, by the session's connection id.

    The sessions of another server, whose log this one repeats as its replica, have the same ids.
    """

    server_id: int
    session: int
    database: str
    table: str


class DdlReader:
    """Finds the statements of a log that change tables or other objects, and took effect."""

    def __init__(self, temporary: Iterable[TemporaryTable] = ()) -> None:
        """Begin, with the temporary tables that there are."""
        self._alters_nothing = False
        self._temporary = _TemporaryTables(temporary)
        self._file = ""

    @property
    def temporary(self) -> tuple[TemporaryTable, ...]:
        """The temporary tables that there are by now, in order."""
        return tuple(sorted(self._temporary.tables))

    def follow(self, logged: EventBlock) -> None:
        """Take note of the next block of the log, as it is logged."""
        if logged.file != self._file:
            self._file = logged.file
            if logged.format.follows_start:
                # They end with the server, whose next sessions count from 1 again.
                self._temporary.tables.clear()

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
                logged = LoggedStatement(row, block.file, offset, seen.query, block.format.flavor)
                if not self._temporary.take(logged, int(block.server_id[event])):
                    yield logged


class _TemporaryTables:
    """The temporary tables of sessions that log statements.

    Such a session logs `TRUNCATE t` whichever table of this name it is about. A session that logs
    rows logs no statement on a temporary table, but for MariaDB's RENAME TABLE.
    """

    def __init__(self, tables: Iterable[TemporaryTable]) -> None:
        self.tables = set(tables)

    def take(self, logged: LoggedStatement, server_id: int) -> bool:
        """Whether a statement is about temporary tables, and no other ones."""
        query, of = logged.query, partial(TemporaryTable, server_id, logged.query.thread_id)
        try:
            named = read_temporary(query.sql, logged.session)
            if named is None:
                return bool(self.tables) and self._change(logged, of)
        except UnsupportedError:
            return False  # it is refused where its tables are looked for
        tables = {of(*name) for name in named.tables}
        # One that was not created, since the statement failed, hides no other table.
        if named.type.startswith("CREATE") and not query.error:
            self.tables |= tables
        else:
            self.tables -= tables
        return True

    def _change(self, logged: LoggedStatement, of: Callable[[str, str], TemporaryTable]) -> bool:
        ddl = logged.ddl
        if ddl is None or ddl.type in _OF_BASE_TABLES:
            return False
        if ddl.type != _RENAME_TABLE:
            is_temporary = of(*ddl.tables[0]) in self.tables
        elif logged.flavor is Flavor.MARIADB:
            is_temporary = True
        else:
            return False  # MySQL renames the table that a temporary one hides
        for change in ddl.changes:
            if isinstance(change, Renamed):
                if of(*change.old) in self.tables:
                    self.tables.remove(of(*change.old))
                    self.tables.add(of(*change.new))
                else:
                    is_temporary = False
        return is_temporary


def changes_of(logged: LoggedStatement) -> list[LoggedChange]:
    """Return what a statement did to the schemas of tables, even where it failed half-way.

    Raises:
        UnsupportedError: Which tables it is about cannot be determined.
    """
    ddl, query = logged.ddl, logged.query
    if ddl is None:
        return []
    changes = [each for each in ddl.changes if not _changes_rows_alone(each)]
    if query.error:
        # What it did before it failed is not in the log.
        failed = Opaque(f"error {query.error}")
        changes = [Altered(name, (failed,)) for name in ddl.tables]
    return [LoggedChange(logged.row, logged.file, logged.offset, each) for each in changes]


def _changes_rows_alone(change: TableChange) -> bool:
    if isinstance(change, Altered):
        return all(isinstance(each, RewriteRows) for each in change.alterations)
    return isinstance(change, Truncated)


def changes_between(
    source: BlockStream, start: Position, stop: Position, ddl: DdlReader | None = None
) -> Iterator[LoggedChange]:
    """Yield what the statements between two positions after a range did.

    Events that the range itself would refuse are skipped: they are not statements.

    Args:
        source: Where the log is read.
        start: Where to begin.
        stop: Where to end.
        ddl: Knows the temporary tables at the start, and then those at the stop; by default there
            are none.

    Raises:
        UnsupportedError: Which tables a statement is about cannot be determined.
    """
    if start.coordinates >= stop.coordinates:
        return
    expander, transactions, ddl = Expander(), TransactionReader(refuse=_skip), ddl or DdlReader()
    for logged in source.blocks(start, stop):
        ddl.follow(logged)
        for block in expander.expand(logged):
            for found in ddl.read(block, transactions.read(block), lambda _: AFTER_RANGE):
                if Position(found.file, found.offset).coordinates >= stop.coordinates:
                    return
                yield from changes_of(found)


def _skip(error: BinlogError) -> None:
    """Skip an event that is not decoded, or a statement that changes rows; raise anything else."""
    skipped = error.context.keys() & {"event", "statement"}
    if not (isinstance(error, UnsupportedError) and skipped):
        raise error
