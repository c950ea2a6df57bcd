"""The DDL statements of a log that took effect, in a range and after it.

Source: as binlog/transactions.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema_history.history import LoggedChange
from airflow_provider_binlog.sql.alterations import Opaque, RewriteRows
from airflow_provider_binlog.sql.ddl import (
    Altered,
    DdlStatement,
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
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.block_stream import BlockStream

_OF_BASE_TABLES = frozenset({"CREATE TABLE", "CREATE OR REPLACE TABLE", "DROP TABLE"})
"""Types of statements that name no temporary table without the word, as the server logs them."""

AFTER_RANGE = 1 << 62
"""Row number of the statements after a range: they follow all of its rows."""


@dataclass(frozen=True, order=True)
class TemporaryTable:
    """A temporary table of a session that logs statements, by the session's connection id."""

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
        return self._temporary.listed

    def follow(self, logged: EventBlock) -> None:
        """Take note of the next block of the log, as it is logged."""
        if logged.file != self._file:
            self._file = logged.file
            if logged.format.follows_start:
                self._temporary.clear()

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
                if not self._temporary.take(logged):
                    yield logged


class _TemporaryTables:
    """The temporary tables of sessions that log statements, by the session's connection id.

    Such a session logs `TRUNCATE t` whichever table of this name it is about. A session that logs
    rows logs no statement on a temporary table, but for MariaDB's RENAME TABLE.
    """

    def __init__(self, there: Iterable[TemporaryTable]) -> None:
        self._names: dict[int, set[TableName]] = {}
        for each in there:
            self._names.setdefault(each.session, set()).add((each.database, each.table))

    @property
    def listed(self) -> tuple[TemporaryTable, ...]:
        found = ((session, *name) for session, names in self._names.items() for name in names)
        return tuple(sorted(TemporaryTable(*each) for each in found))

    def clear(self) -> None:
        """Forget all of them: they end with the server, whose next sessions count from 1 again."""
        self._names.clear()

    def take(self, logged: LoggedStatement) -> bool:
        """Whether a statement is about temporary tables, and no other ones."""
        query = logged.query
        try:
            named = read_temporary(query.sql, logged.session)
            if named is None and query.thread_id not in self._names:
                return False
            return self._created_or_dropped(query.thread_id, named) or self._changed(logged)
        except UnsupportedError:
            return False  # it is refused where its tables are looked for

    def _created_or_dropped(self, session: int, named: DdlStatement | None) -> bool:
        if named is None:
            return False
        names = self._names.setdefault(session, set())
        if named.type.startswith("CREATE"):
            names.update(named.tables)
        else:
            names.difference_update(named.tables)
        return True

    def _changed(self, logged: LoggedStatement) -> bool:
        ddl, names = logged.ddl, self._names[logged.query.thread_id]
        if ddl is None or ddl.tables[0] not in names or ddl.type in _OF_BASE_TABLES:
            return False
        for change in ddl.changes:
            if isinstance(change, Renamed) and change.old in names:
                names.remove(change.old)
                names.add(change.new)
        return True


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


def changes_between(source: BlockStream, start: Position, stop: Position) -> Iterator[LoggedChange]:
    """Yield what the statements between two positions after a range did.

    Events that the range itself would refuse are skipped: they are not statements.

    Raises:
        UnsupportedError: Which tables a statement is about cannot be determined.
    """
    if start.coordinates >= stop.coordinates:
        return
    expander, transactions, ddl = Expander(), TransactionReader(refuse=_skip), DdlReader()
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
