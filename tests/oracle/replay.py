"""The staged changes applied one after another in plain dicts: what a perfect merge would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import CHANGE_TYPE, IMAGE, ROW
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.lexer import Session
from tests.oracle.kinds import as_shown
from tests.support.replay import DifferenceError, Row, TableRows
from tests.support.staged import held_by, named_in, parts_of

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement, TableChanges
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.oracle.tables import Effect, Past


class Replay:
    """Tables as the staged changes make them.

    Attributes:
        changes: How many were applied.
    """

    def __init__(self, past: Past, refused: set[str]) -> None:
        """Begin without tables; of those whose names are in `refused` statements may be missing."""
        self.changes = 0
        self._past = past
        self._refused = refused
        self._effects = iter(past.effects)
        self._tables: dict[str, TableRows] = {}

    def rows(self, name: str) -> TableRows:
        """Return the rows of the table that has this name now."""
        return self._tables[name]

    def apply(self, store: ObjectStore, source: str, manifest: Manifest) -> None:
        """Apply one manifest's changes and statements, in order.

        Raises:
            DifferenceError: A change does not fit the rows that are there, or a statement is not
                the one that came next.
        """
        steps: list[_Step | tuple[int, Statement]] = [
            step for table in manifest.tables for step in _changes(store, source, table)
        ]
        steps += [
            (statement.row, statement)
            for statement in manifest.statements
            if not statement.type.endswith("DATABASE")
        ]
        self._session = Session(manifest.identity.flavor)
        for step in sorted(steps, key=lambda step: step[0]):
            try:
                if len(step) == 2:
                    self._alter(step[1])
                else:
                    self._change(*step[1:])
                    self.changes += 1
            except DifferenceError as error:
                where = f"manifest {manifest.sequence}, _row {step[0]}"
                raise DifferenceError(f"{where}: {error}") from error

    def end(self) -> None:
        """Check that no statement was left out.

        Raises:
            DifferenceError: One was.
        """
        for effect in self._effects:
            self._skip(effect)

    def _skip(self, effect: Effect) -> None:
        if self._refused.isdisjoint(effect.tables):
            raise DifferenceError(f"not staged: {effect}")

    def _alter(self, statement: Statement) -> None:
        ddl = read_ddl(statement.text, self._session)
        tables = () if ddl is None else tuple(name for _, name in ddl.tables)
        staged = statement.type, tables
        for effect in self._effects:
            if staged == (effect.kind, effect.tables):
                break
            self._skip(effect)
        else:
            raise DifferenceError(f"a statement that was not written: {statement}")
        if effect.kind == "CREATE TABLE":
            self._tables[effect.tables[0]] = TableRows()
        rows = self._tables[effect.tables[0]]
        if effect.truncated:
            rows.clear()
        if effect.key is not None:
            rows.set_key(effect.key)
        for row in rows:
            row.update(effect.added)
            if effect.dropped is not None:
                del row[effect.dropped]
            if effect.renamed is not None:
                old, new = effect.renamed
                row[new] = row.pop(old)
        for old, new in effect.moves:
            self._tables[new] = self._tables.pop(old)

    def _change(self, name: str, change: Row, present: Sequence[str]) -> None:
        kinds, filled = self._past.kinds, self._past.filled
        image = {column: as_shown(kinds[column], change[column]) for column in present}
        # What an insert leaves out has its default.
        defaults = {column: filled[column] for column in change if column in filled}
        self._tables[name].apply(change[CHANGE_TYPE], image, defaults)


_Step = tuple[int, str, Row, Sequence[str]]


def _changes(store: ObjectStore, source: str, table: TableChanges) -> Iterator[_Step]:
    for part, rows in parts_of(store, source, table):
        for row in rows:
            held = held_by(table, table.schema(part.schema), row[IMAGE])
            yield row[ROW], named_in(part), row, held
