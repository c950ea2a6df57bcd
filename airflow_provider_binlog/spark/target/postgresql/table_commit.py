"""Commit of one staged change: columns, key, rows and marks, in a transaction that is open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_binlog.errors import MergeError, ReloadNeededError, TargetConflictError
from airflow_provider_binlog.spark.names import shorten_name
from airflow_provider_binlog.spark.target.modes import START
from airflow_provider_binlog.spark.target.postgresql import marks, sql
from airflow_provider_binlog.spark.target.postgresql.connection import (
    SQLSTATE,
    Connection,
    quote,
)
from airflow_provider_binlog.spark.target.postgresql.marks import ColumnNote, StoredTable
from airflow_provider_binlog.spark.target.postgresql.types import conversion
from airflow_provider_binlog.spark.target.properties import (
    fields_property,
    find_first_properties,
    find_last_properties,
)
from airflow_provider_binlog.spark.target.protocol import (
    COPIES,
    Commit,
    CountedRows,
    KeyedRows,
    TableChange,
    VersionedRows,
    WholeRows,
    conflict,
)
from airflow_provider_binlog.spark.target.sql import ORPHAN, order_renames
from airflow_provider_binlog.spark.target.state import NOTHING, TABLE_ID, Contents, TargetState
from airflow_provider_binlog.spark.target.versions import versions_to_write

_NAME = re.compile(r'"((?:[^"]|"")*)"\."((?:[^"]|"")*)"')
# Objects depend on what is to be dropped; a view on a column whose type is to change.
_DEPENDENT = ("2BP01", "0A000")


@dataclass(frozen=True)
class TableCopy:
    """All rows of another table of the database, in place of source rows."""

    table: str


@dataclass(frozen=True)
class ColumnPlan:
    """What a column is to be.

    Attributes:
        type: PostgreSQL's type.
        source: The type at the source; None where that is not known.
        collation: Of a text in the key.
    """

    type: str
    source: str | None
    collation: str | None

    @property
    def definition(self) -> str:
        """The type as a CREATE TABLE has it."""
        return self.type if self.collation is None else f"{self.type} COLLATE {self.collation}"


@dataclass(frozen=True)
class StagedChange:
    """A change whose rows are in a table that nobody else reads.

    Attributes:
        change: The change.
        rows: The table of its rows; of a copy the table that is copied.
        columns: What each column is to be, by its name at the source.
        values: SQL of what older rows hold in added columns, where that is not NULL.
        rest: SQL of what rows hold, by column, that are not among the changes, and not marked.
    """

    change: TableChange[Any]
    rows: str
    columns: dict[str, ColumnPlan]
    values: dict[str, str]
    rest: dict[str, str]


def split_name(table: str) -> tuple[str, str]:
    """Return schema and name of a quoted name."""
    match = _NAME.fullmatch(table)
    if match is None:
        raise MergeError("not a quoted name of a schema and a table", table=table)
    schema, name = (part.replace('""', '"') for part in match.groups())
    return schema, name


@dataclass(frozen=True)
class TableCommit:
    """The statements of one change; none of them counts if one fails."""

    connection: Connection
    staged: StagedChange

    @property
    def change(self) -> TableChange[Any]:
        """The change."""
        return self.staged.change

    def run(self) -> Commit:
        """Run the statements; see `Target.commit`."""
        change, (schema, table) = self.change, split_name(self.change.table)
        stored = self._read(lock=True)
        if change.before is None:
            stored, notes = self._create(stored, schema), self._new_notes(1, change.columns)
        else:
            stored = self._check_unchanged(change.before, stored)
            with _naming_dependents(change.table):
                notes = self._evolve(stored)
        if not stored.has_trigger:
            marks.create_trigger(self.connection, change.table)
        done = replace(self._write(stored, notes), version=stored.version + 1)
        after = replace(self._created(), notes=notes, version=stored.version + 1)
        properties, contents = self._properties(stored, after), self._contents(stored)
        after = replace(after, properties=properties, contents=contents)
        marks.save_table(self.connection, schema, table, after)
        return done

    def _read(self, *, lock: bool = False) -> StoredTable | None:
        return marks.read_table(self.connection, *split_name(self.change.table), lock=lock)

    def _created(self) -> StoredTable:
        stored = self._read()
        if stored is None:
            raise conflict(self.change.table)
        return stored

    # ------------------------------------------------------------------- columns

    def _create(self, present: StoredTable | None, schema: str) -> StoredTable:
        if present is not None:
            raise TargetConflictError("another merge created the target", target=self.change.table)
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
        names = [shorten_name(name) for name in self.change.columns]
        self._refuse_twins(names)
        plans = self.staged.columns.values()
        columns = {name: plan.definition for name, plan in zip(names, plans, strict=True)}
        self.connection.execute(sql.create_table(self.change.table, columns))
        # What is noted of a table that was dropped says nothing of this one.
        nothing = Contents(NOTHING)
        return replace(
            self._created(),
            is_noted=False,
            is_replaced=False,
            contents=nothing,
            properties={},
            notes={},
        )

    def _check_unchanged(self, before: TargetState, stored: StoredTable | None) -> StoredTable:
        state = None if stored is None else stored.state
        if stored is None or state is None or not _is_same(before, state):
            raise conflict(self.change.table)
        return stored

    def _new_notes(self, version: int, names: Mapping[str, str]) -> dict[str, ColumnNote]:
        plans = self.staged.columns
        return {
            shorten_name(name): ColumnNote(
                f"{version}.{number}", name, plans[name].type, plans[name].source
            )
            for number, name in enumerate(names, 1)
        }

    def _evolve(self, stored: StoredTable) -> dict[str, ColumnNote]:
        """Change the columns; return the notes of those that the table has then."""
        change, table, named = self.change, self.change.table, stored.named
        if isinstance(change.rows, WholeRows):
            self.connection.execute(f"DELETE FROM {table}")
        evolution = change.evolution
        for name in evolution.dropped:
            dropped = quote(named.pop(name).name)
            self.connection.execute(f"ALTER TABLE {table} DROP COLUMN {dropped}")
        renamed: dict[str, str] = {}
        notes: dict[str, ColumnNote] = {}
        retyped: list[tuple[str, str, ColumnPlan]] = []
        for old, column in named.items():
            name = evolution.renamed.get(old, old)
            plan, note = self.staged.columns[name], stored.note(column)
            is_noted = column.name in stored.notes
            at = column.name if name == old else shorten_name(name)
            if at != column.name:
                renamed[column.name] = at
            if note.type != plan.type and (is_noted or name in evolution.widened):
                retyped.append((at, note.type, plan))
            notes[at] = replace(note, name=name, type=plan.type, source=plan.source or note.source)
        added = self._new_notes(stored.version + 1, evolution.added)
        self._refuse_twins([*notes, *added])
        for old, new in order_renames([column.name for column in stored.columns], renamed):
            self.connection.execute(
                f"ALTER TABLE {table} RENAME COLUMN {quote(old)} TO {quote(new)}"
            )
        for at, type_, plan in retyped:
            self._retype(at, type_, plan)
        for at, note in added.items():
            value, own = self.staged.values.get(note.name), self.staged.columns[note.name]
            for statement in sql.add_column(table, at, own.definition, value):
                self.connection.execute(statement)
        return notes | added

    def _retype(self, column: str, before: str, plan: ColumnPlan) -> None:
        empty = isinstance(self.change.rows, WholeRows)
        value = f"NULL::{plan.type}" if empty else conversion(quote(column), before, plan.type)
        self.connection.execute(
            f"ALTER TABLE {self.change.table} ALTER COLUMN {quote(column)} "
            f"TYPE {plan.definition} USING {value}"
        )

    def _refuse_twins(self, names: list[str]) -> None:
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise MergeError(
                "two columns get the same name, which is shortened to 63 bytes: rename one at the "
                "source",
                column=", ".join(twins),
            )

    # ------------------------------------------------------------------- rows

    def _write(self, stored: StoredTable, notes: Mapping[str, ColumnNote]) -> Commit:
        change, rows, connection = self.change, self.staged.rows, self.connection
        by_source = {note.name: name for name, note in notes.items()}
        names = [by_source[name] for name in change.columns]
        if isinstance(change.rows.rows, TableCopy):
            columns = sql.column_list(names)
            query = f"INSERT INTO {change.table} ({columns}) SELECT {columns} FROM {rows}"
            inserted = connection.execute(query)
            self._set_key(stored, self._constrained(by_source), nulls=False)
            return Commit(inserted)
        if isinstance(change.rows, CountedRows):
            return self._write_copies(names)
        numbers = {name: at for at, name in enumerate(change.columns)}
        key, at = [numbers[name] for name in change.key], self._constrained(by_source)
        keyed = sql.KeyedStatements(change.table, names, key, rows)
        nulls = bool(key) and connection.read(keyed.find_null()) == "t"
        replaces = isinstance(change.rows, WholeRows)
        if isinstance(change.rows, WholeRows) or not key:
            if replaces and change.before is not None:
                self._drop_other_keys(stored, at, nulls=nulls)
            inserted = connection.execute(keyed.insert())
            if replaces:
                self._set_key(stored, at, nulls=nulls)
            return Commit(inserted, 0, 0 if change.before is None or not replaces else None)
        self._set_key(stored, at, nulls=nulls)
        groups = [[numbers[name] for name in group] for group in change.rows.groups]
        keyed = replace(keyed, groups=groups, nulls=nulls)
        before = marks.read_actions(connection, stored.oid)
        if isinstance(change.rows, VersionedRows):
            self._write_versions(change.rows, by_source, keyed)
        else:
            self._write_rows(change.rows, by_source, keyed)
        after = marks.read_actions(connection, stored.oid)
        if after is None:
            return Commit()
        counts = (now - then for now, then in zip(after, before or (0, 0, 0), strict=True))
        return Commit(*counts)

    def _write_rows(
        self, changes: KeyedRows[Any], by_source: Mapping[str, str], keyed: sql.KeyedStatements
    ) -> None:
        """Update, insert and delete the rows of keys."""
        if keyed.groups:
            self._refuse_orphans(keyed.find_orphans(end=None))
        if changes.marks is not None and self.staged.rest:
            values = {by_source[name]: value for name, value in self.staged.rest.items()}
            self.connection.execute(keyed.mark_rest(by_source[changes.marks], values))
        for statement in keyed.merges(marks=changes.marks is not None):
            self.connection.execute(statement)

    def _write_versions(
        self, changes: VersionedRows[Any], by_source: Mapping[str, str], keyed: sql.KeyedStatements
    ) -> None:
        """Close versions, open others, and change those that stay current."""
        start, end = by_source[changes.start], by_source[changes.end]
        if keyed.groups:
            self._refuse_orphans(keyed.find_orphans(end))
            self.connection.execute(keyed.complete_rows(end))
        if changes.rest is not None:
            at = sql.DIALECT.time.format(changes.rest)
            values = {end: f"greatest({at}, {quote(start)} + interval '1 microsecond')"}
            self.connection.execute(keyed.mark_rest(end, values))
        types = {by_source[name]: plan.type for name, plan in self.staged.columns.items()}
        query = versions_to_write(
            types,
            source=keyed.staged,
            key=[keyed.names[at] for at in keyed.key],
            start=start,
            end=end,
            tracked=[by_source[name] for name in changes.tracked],
            target=keyed.table,
            # Somebody may have given a column another type.
            filled={name: f"t.{quote(name)}::{type_}" for name, type_ in types.items()},
            dialect=sql.DIALECT,
        )
        by = [*keyed.key, keyed.names.index(start)]
        source = f"({query}) AS v" if keyed.nulls else f"({query})"
        for statement in replace(keyed, key=by, staged=source, groups=()).merges(marks=True):
            self.connection.execute(statement)

    def _write_copies(self, names: list[str]) -> Commit:
        """Add copies of rows, and remove others."""
        table, rows = self.change.table, self.staged.rows
        plans = self.staged.columns.values()
        types = {name: plan.type for name, plan in zip(names, plans, strict=True)}
        less = f"SELECT coalesce(sum(-{COPIES}), 0) FROM {rows} WHERE {COPIES} < 0"
        wanted = int(str(self.connection.read(less)))
        removed = self.connection.execute(sql.remove_copies(table, types, rows)) if wanted else 0
        if removed != wanted:
            raise ReloadNeededError(
                "rows were deleted that the lake table does not have, or not as often: reload the "
                "table from a snapshot",
                target=table,
            )
        inserted = self.connection.execute(sql.insert_copies(table, names, rows))
        return Commit(inserted, 0, removed)

    def _refuse_orphans(self, query: str) -> None:
        rows, one = self.connection.read_json(query)
        if rows:
            raise ReloadNeededError(
                f"{ORPHAN}: the log holds only changed columns of it: reload the table from a "
                "snapshot",
                target=self.change.table,
                rows=rows,
                key=one,
            )

    # ------------------------------------------------------------------- key

    def _constrained(self, by_source: Mapping[str, str]) -> list[str]:
        """Return the columns that identify a row; of a version also its start."""
        names = [by_source[name] for name in self.change.key]
        start = self.change.mode.names.get(START)
        return names if start is None or not names else [*names, by_source[start]]

    def _set_key(self, stored: StoredTable, key: list[str], *, nulls: bool) -> None:
        """Let an index say what identifies a row: the primary key, if it has no NULL."""
        if not key or self._drop_other_keys(stored, key, nulls=nulls):
            return
        kind = "UNIQUE NULLS NOT DISTINCT" if nulls else "PRIMARY KEY"
        columns = sql.column_list(key)
        self.connection.execute(f"ALTER TABLE {self.change.table} ADD {kind} ({columns})")

    def _drop_other_keys(self, stored: StoredTable, key: list[str], *, nulls: bool) -> bool:
        """Drop a primary key that is not that of the rows; return whether theirs is there."""
        found = False
        for constraint in marks.read_keys(self.connection, stored.oid):
            same = {*constraint.columns} == {*key}
            if constraint.is_primary and (nulls or not same):
                table = self.change.table
                with _naming_dependents(table):
                    self.connection.execute(
                        f"ALTER TABLE {table} DROP CONSTRAINT {quote(constraint.name)}"
                    )
                for column in constraint.columns:
                    self.connection.execute(
                        f"ALTER TABLE {table} ALTER COLUMN {quote(column)} DROP NOT NULL"
                    )
            elif same and (constraint.is_primary or constraint.holds_null_once):
                found = True
        return found

    # ------------------------------------------------------------------- what is noted

    def _properties(self, stored: StoredTable, after: StoredTable) -> dict[str, str]:
        change = self.change
        blanks = {} if change.before is None else change.before.blanks
        properties = {**stored.properties, **blanks, **find_first_properties(change)}
        after = replace(after, properties=properties, contents=stored.contents)
        if change.follows is not None and change.follows == after.state.table:
            claims = fields_property(after.state, change.evolution.fields)
            properties = properties | {TABLE_ID: change.follows} | claims
        after = replace(after, properties=properties)
        return properties | find_last_properties(change, after.state)

    def _contents(self, stored: StoredTable) -> Contents:
        change, meanwhile = self.change, stored.contents.foreign_write
        contents = change.contents
        if meanwhile is None or change.base is None or isinstance(change.rows, WholeRows):
            return contents
        if meanwhile.version > change.base:
            return replace(contents, foreign_write=contents.foreign_write or meanwhile)
        return contents


def _is_same(before: TargetState, state: TargetState) -> bool:
    expected = before.applied, before.loaded, before.column_ids
    return expected == (state.applied, state.loaded, state.column_ids)


@contextmanager
def _naming_dependents(table: str) -> Iterator[None]:
    """Raise a ReloadNeededError where an object of the database depends on what changes."""
    try:
        yield
    except MergeError as error:
        if error.context.get(SQLSTATE) not in _DEPENDENT:
            raise
        raise ReloadNeededError(
            "an object of the database depends on a column that changes: drop it, reload the "
            "table, and create it again",
            target=table,
            cause=error.context["cause"],
            dependent=error.context.get("detail", ""),
        ) from error
