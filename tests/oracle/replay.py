"""The staged changes applied one after another in plain dicts: what a perfect merge would do."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from airflow_provider_binlog.changes import CHANGE_TYPE, IMAGE, ROW, ChangeType
from airflow_provider_binlog.staging.paths import part_key
from tests.oracle.kinds import as_shown

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, TableChanges
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.oracle.workload import Effect, Table

Row = dict[str, Any]


class DifferenceError(Exception):
    """What is staged is not what happened."""


class Replay:
    """Some tables as the staged changes make them; others are passed over.

    Attributes:
        rows: By table.
        changes: How many were applied.
    """

    def __init__(self, tables: dict[str, Table]) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in tables}
        self.changes = 0
        self._tables = tables
        self._effects = {name: iter(table.effects) for name, table in tables.items()}
        self._moved: Row | None = None

    def apply(self, store: ObjectStore, source: str, manifest: Manifest) -> None:
        """Apply one manifest's changes and statements, in order.

        Raises:
            DifferenceError: A change does not fit the rows that are there.
        """
        steps = [step for table in manifest.tables for step in _changes(store, source, table)]
        steps += [
            (statement.row, statement.tables[0][1], None, ())
            for statement in manifest.statements
            if statement.kind in ("ALTER TABLE", "TRUNCATE TABLE")
        ]
        steps.sort(key=lambda step: step[0])
        for place, name, change, present in steps:
            table = self._tables.get(name)
            if table is None:
                continue
            try:
                if change is None:
                    self._alter(name, next(self._effects[name]))
                else:
                    kind = ChangeType(change[CHANGE_TYPE])
                    self._change(table, kind, _shown(table, change, present))
            except DifferenceError as error:
                where = f"{name}, manifest {manifest.sequence}, _row {place}"
                raise DifferenceError(f"{where}: {error}") from error
            self.changes += change is not None

    def _alter(self, name: str, effect: Effect) -> None:
        if effect.emptied:
            self.rows[name].clear()
        for row in self.rows[name]:
            row.update(effect.added)
            if effect.dropped is not None:
                del row[effect.dropped]
            if effect.renamed is not None:
                old, new = effect.renamed
                row[new] = row.pop(old)

    def _change(self, table: Table, kind: ChangeType, row: Row) -> None:
        rows = self.rows[table.name]
        if kind is ChangeType.INSERT:
            if table.key and _find(rows, {name: row[name] for name in table.key}) is not None:
                raise DifferenceError(f"inserted twice: {row}")
            rows.append(row)
        elif kind is ChangeType.DELETE or kind is ChangeType.UPDATE_PREIMAGE:
            self._moved = rows.pop(_must_find(rows, row))
        else:
            known, self._moved = self._moved, None
            if known is None:  # only where the key stayed is the before-image left out
                known = rows.pop(_must_find(rows, {name: row[name] for name in table.key}))
            rows.append(known | row)
        if kind is ChangeType.DELETE:
            self._moved = None


def _find(rows: Sequence[Row], wanted: Row) -> int | None:
    for index, row in enumerate(rows):
        if all(row.get(name) == value for name, value in wanted.items()):
            return index
    return None


def _must_find(rows: Sequence[Row], wanted: Row) -> int:
    found = _find(rows, wanted)
    if found is None:
        raise DifferenceError(f"a change of a row that is not there: {wanted}")
    return found


def _shown(table: Table, change: Row, present: Sequence[str]) -> Row:
    row = {name: as_shown(table.kinds[name], change[name]) for name in present}
    if change[CHANGE_TYPE] == ChangeType.INSERT.value:
        # What an insert leaves out has its default.
        columns = [name for name in change if name in table.kinds]
        row = {name: table.filled[name] for name in columns} | row
    return row


_Step = tuple[int, str, "Row | None", Sequence[str]]


def _changes(store: ObjectStore, source: str, table: TableChanges) -> Iterator[_Step]:
    for part in table.parts:
        rows = pq.read_table(io.BytesIO(store.read(part_key(source, part.path)))).to_pylist()
        if len(rows) != part.rows:
            raise DifferenceError(f"{part.path} has {len(rows)} rows, not {part.rows}")
        for row in rows:
            yield row[ROW], table.table, row, table.images[row[IMAGE]]
