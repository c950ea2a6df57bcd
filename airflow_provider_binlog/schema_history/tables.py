"""Follow the identity of tables, as Iceberg has it: the table of each name after each statement.

A table id begins where a table is created, or first seen, and ends where it is dropped; names are
given and taken in between. Only captured tables are followed: what happens to a table under another
name is not staged, so one that comes from there is another one than any that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from airflow_provider_binlog.position import SourceIdentity
from airflow_provider_binlog.protected_columns import NO_RULES, ColumnRules
from airflow_provider_binlog.schema import (
    Action,
    CreateTable,
    DropTable,
    Field,
    RenameTable,
    RewriteRows,
    Schema,
    TableId,
    TableName,
    TableState,
    TruncateTable,
    new_table_id,
)
from airflow_provider_binlog.schema_history.identity import confirm, create, create_like, follow
from airflow_provider_binlog.schema_history.protected_fields import (
    check_key,
    follow_statement,
    show,
)
from airflow_provider_binlog.sql import ddl
from airflow_provider_binlog.sql.lexer import Session


class NoTable(Enum):
    """A name that no table has."""

    DROPPED = "dropped"


NO_TABLE = NoTable.DROPPED


class TableLookup(NamedTuple):
    """Tables as they were before a range.

    Attributes:
        find: Returns the table of a name; `NO_TABLE` where the log took the name from the last
            table that had it; None where nothing is known.
        find_all: Returns the tables of a database.
        find_schema: Returns the schema of a table that was known from a snapshot alone, with all
            its fields, whose ids are 1, 2, ...; None if there is no such snapshot.
    """

    find: Callable[[TableName], TableState | NoTable | None]
    find_all: Callable[[str], Iterable[TableState]]
    find_schema: Callable[[TableName], Schema | None] = lambda _: None


NOTHING_KNOWN = TableLookup(lambda _: None, lambda _: ())


class EventRow(NamedTuple):
    """An event: the number from which its rows are numbered in the range, and where it begins."""

    row: int
    file: str
    offset: int


@dataclass
class TableInRange:
    """A table that rows or actions of the range concern: `before` is None where it began in it."""

    before: TableState | None
    state: TableState
    dropped: bool = False


class Tables:
    """The captured tables of a range, as far as the log was read.

    Attributes:
        touched: By table id, in the order in which rows or actions first concerned them.
    """

    def __init__(
        self,
        known: TableLookup,
        *,
        captured: Callable[[str, str], bool],
        identity: SourceIdentity,
        sequence: int,
        columns: ColumnRules = NO_RULES,
    ) -> None:
        """Begin at the start of a range, whose manifest has the number `sequence`.

        Args:
            known: What was known before.
            captured: Whether a table, by database and name, is captured.
            identity: Of the server that wrote the log: part of every new table id.
            sequence: See above.
            columns: Which columns are excluded or hashed.
        """
        self.touched: dict[TableId, TableInRange] = {}
        self._known = known
        self._captured = captured
        self._identity = identity
        self._sequence = sequence
        self._columns = columns
        self._names: dict[TableName, TableState | NoTable | None] = {}
        self._before: dict[TableId, TableState] = {}
        self._dropped_databases: set[str] = set()

    @property
    def names(self) -> dict[TableName, TableState | NoTable]:
        """The tables of the names that were looked up."""
        return {name: state for name, state in self._names.items() if state is not None}

    @property
    def dropped_databases(self) -> frozenset[str]:
        """Databases of which no other name stands for a table."""
        return frozenset(self._dropped_databases)

    def confirm(
        self, name: TableName, at: EventRow, fields: Sequence[Field], key: tuple[int, ...]
    ) -> tuple[TableId, Schema, tuple[Action, ...]]:
        """Return the table that rows of a name belong to, its schema, and what only they say of it.

        `at` is the event of the rows; the rest is as for `identity.confirm`.

        Raises:
            ConfigurationError: The options exclude a column of the key, or may miss a protected
                column that has another name now.
        """
        before, flavor = self._ensure(name, at), self._identity.flavor
        if self._columns.options and before.schema is None and self._find(name) is None:
            # What a snapshot has staged of its columns may be another thing than the options say.
            before = self._read(name, at) or before
        known = before.schema
        if not self._columns.options and not (known is not None and known.has_origins):
            state, schema, actions = confirm(before, fields, key, flavor)
        else:
            fields = self._columns.protect(name, fields, () if known is None else known.fields)
            state, schema, actions = confirm(before, fields, key, flavor)
            check_key(name, schema)
            state, actions = show(before, state, actions)
            schema = state.schema or schema
        self._set(state)
        return state.id, schema, actions

    def quarantine(self, name: TableName, at: EventRow) -> Iterator[TableId]:
        """Yield the ids of a table, or of all of a database: no row confirms its schema any more.

        `name` is of a captured table, or (database, ""); `at` is the event that is the reason.
        """
        for table in (name,) if name[1] else self._tables_in(name[0]):
            state = replace(self._ensure(table, at), logged=None)
            self._set(state)
            yield state.id

    def apply(
        self, changes: Sequence[ddl.TableChange], at: EventRow, session: Session
    ) -> Iterator[Action]:
        """Follow what the statement at `at` did, and yield its actions."""
        # Names that are not captured, and stand for a table between two renames of one statement.
        between: dict[TableName, TableState] = {}
        for change in changes:
            if isinstance(change, ddl.Renamed):
                yield from self._rename(change, at, between)
            elif isinstance(change, ddl.DroppedDatabase):
                yield from self._drop_database(change.database)
            elif not self._captured(*change.table):
                continue
            elif isinstance(change, ddl.Altered):
                yield from self._alter(change, at, session)
            elif isinstance(change, ddl.Created):
                yield from self._create(change, at, session)
            elif isinstance(change, ddl.Dropped):
                yield from self._drop(change.table, at)
            else:
                yield from self._truncate(change.table, at)

    def _alter(self, change: ddl.Altered, at: EventRow, session: Session) -> Iterator[Action]:
        known = self._find(change.table) or self._read(change.table, at)
        known = known if isinstance(known, TableState) else self._new(change.table, at)
        altered, actions = follow(known, change.alterations, session)
        altered, actions = follow_statement(self._columns, known, altered, actions)
        if altered != known or actions:
            self._set(altered)
        yield from actions

    def _create(self, change: ddl.Created, at: EventRow, session: Session) -> Iterator[Action]:
        name, known = change.table, self._find(change.table)
        if change.optional and known is not NO_TABLE:
            return
        if isinstance(known, TableState):
            # It was dropped, and the log does not say so.
            yield from self._end(known)
        state = replace(self._new(name, at), created=self._sequence)
        if change.like is not None:
            like = self._find(change.like) if self._captured(*change.like) else None
            if isinstance(like, TableState) and not like.is_partial:
                state = create_like(state, like.schema)
        elif change.elements is not None:
            state = create(state, change.elements, session)
        state, _ = follow_statement(self._columns, replace(state, schema=None), state, ())
        yield CreateTable(state.id, name)
        if change.takes_rows:
            state = replace(state, created=None)
            yield RewriteRows(state.id, "created the table with rows that no row event shows")
        self._set(state)

    def _truncate(self, name: TableName, at: EventRow) -> Iterator[Action]:
        state = self._ensure(name, at)
        self._set(state)
        yield TruncateTable(state.id)

    def _drop(self, name: TableName, at: EventRow) -> Iterator[Action]:
        known = self._find(name)
        if known is NO_TABLE:
            return
        if not isinstance(known, TableState):
            # Another id than that of a table which the same statement creates.
            known = replace(self._new((name[0], f"{name[1]}\0"), at), name=name)
        yield from self._end(known)

    def _drop_database(self, database: str) -> Iterator[Action]:
        for name in self._names_in(database):
            known = self._find(name)
            if isinstance(known, TableState):
                yield from self._end(known)
            else:
                self._names[name] = NO_TABLE
        self._dropped_databases.add(database)

    def _rename(
        self, change: ddl.Renamed, at: EventRow, between: dict[TableName, TableState]
    ) -> Iterator[Action]:
        old, new = change.old, change.new
        if not (self._captured(*old) or self._captured(*new) or old in between):
            return
        known = self._find(old) if self._captured(*old) else between.pop(old, None)
        taken = self._find(new) if self._captured(*new) else None
        if change.optional and (known is NO_TABLE or (not known and isinstance(taken, TableState))):
            return  # IF EXISTS, and there was none to be renamed
        state = known if isinstance(known, TableState) else self._new(old, at)
        if isinstance(taken, TableState) and taken.id != state.id:
            yield from self._end(taken)
        if self._captured(*old):
            self._names[old] = NO_TABLE
        state = replace(state, name=new)
        if self._captured(*new):
            self._set(state)
        else:
            between[new] = state
            self._touch(state)
        yield RenameTable(state.id, old, new)

    def _names_in(self, database: str) -> list[TableName]:
        """Return the names of captured tables that were ever known in a database."""
        names = {name for name in self._names if name[0] == database}
        if database not in self._dropped_databases:  # else all that were known are among them
            names |= {state.name for state in self._known.find_all(database)}
        return sorted(name for name in names if self._captured(*name))

    def _tables_in(self, database: str) -> list[TableName]:
        """Return those of them that tables have now."""
        names = self._names_in(database)
        return [name for name in names if isinstance(self._find(name), TableState)]

    def _ensure(self, name: TableName, at: EventRow) -> TableState:
        known = self._find(name)
        return known if isinstance(known, TableState) else self._new(name, at)

    def _read(self, name: TableName, at: EventRow) -> TableState | None:
        """Return a table with the columns that its snapshot has: its rows have shown them."""
        schema = self._known.find_schema(name)
        if schema is None:
            return None
        last = max(field.id for field in schema.fields)
        return replace(self._new(name, at), schema=schema, last_field_id=last, logged=schema.id)

    def _new(self, name: TableName, at: EventRow) -> TableState:
        return TableState(new_table_id(self._identity.server, at.file, at.offset, name), name)

    def _find(self, name: TableName) -> TableState | NoTable | None:
        if name not in self._names:
            dropped = name[0] in self._dropped_databases
            known = NO_TABLE if dropped else self._known.find(name)
            if isinstance(known, TableState):
                self._before[known.id] = known
            self._names[name] = known
        return self._names[name]

    def _set(self, state: TableState) -> None:
        self._touch(state)
        self._names[state.name] = state

    def _touch(self, state: TableState) -> TableInRange:
        touched = self.touched.get(state.id)
        if touched is None:
            touched = self.touched[state.id] = TableInRange(self._before.get(state.id), state)
        touched.state = state
        return touched

    def _end(self, state: TableState) -> Iterator[Action]:
        self._touch(state).dropped = True
        self._names[state.name] = NO_TABLE
        yield DropTable(state.id, state.name)
