"""What is staged, read as plainly as can be, and applied as strictly: each change exactly once."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from airflow_provider_binlog.changes import CHANGE_COLUMNS, CHANGE_TYPE, IMAGE, ROW
from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import check_follows
from airflow_provider_binlog.schema import DropTable, TruncateTable
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import part_key
from tests.support.replay import DifferenceError, TableRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_binlog.manifest import Manifest, Part, Statement, TableChanges
    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.staging.object_store import ObjectStore

Row = dict[str, Any]
Tables = dict[str, dict[tuple[Any, ...], Row]]
"""The rows of tables by their primary keys."""


def manifests_after(log: ManifestLog, sequence: int) -> Iterator[Manifest]:
    """Yield the manifests after number `sequence`, in order; each is loaded when it is needed.

    The first one is checked against manifest `sequence` if that still exists.

    Raises:
        ManifestError: A number is missing, or a manifest does not start where the previous one
            stops.
    """
    sequences = log.sequences()
    previous = log.load(sequence) if sequence in sequences else None
    newer = [number for number in sequences if number > sequence]
    for expected, number in enumerate(newer, start=sequence + 1):
        if number != expected:
            raise ManifestError("a manifest is missing", key=log.key(expected))
        manifest = log.load(number)
        if previous is not None:
            check_follows(previous.end, manifest)
        yield manifest
        previous = manifest


@dataclass(frozen=True)
class Change:
    """One staged change: its row as the part has it, and the columns that its image holds."""

    table: TableChanges
    part: Part
    row: Row
    image: Row


def steps_of(
    store: ObjectStore, source: str, manifest: Manifest
) -> list[tuple[int, Change | Statement]]:
    """Return what a manifest says in the order of the log: a statement before the row it numbers.

    Fails where a part is not the one that was written, or changes of a table share a number.
    """
    steps: list[tuple[int, Change | Statement]] = [(each.row, each) for each in manifest.statements]
    for table in manifest.tables:
        changes = [Change(table, *change) for change in _changes(store, source, table)]
        numbers = [int(change.row[ROW]) for change in changes]
        # Parts of two schemas may alternate in the log.
        assert len(numbers) == len(set(numbers))
        steps += zip(numbers, changes, strict=True)
    return sorted(steps, key=lambda step: step[0])


class Replay:
    """Tables as staged changes make them, applied one after another.

    Attributes:
        changes: How many were applied.
        names: The newest name of each table, by its id.

    Args:
        defaults: By table, what a new row holds in columns that its image leaves out.
    """

    def __init__(self, defaults: Mapping[str, Row] | None = None) -> None:
        self.changes = 0
        self.names: dict[str, str] = {}
        self._defaults = defaults or {}
        self._rows: dict[str, TableRows] = {}
        self._schemas: dict[str, Schema] = {}

    def tables(self) -> dict[str, TableRows]:
        """Return the tables of which anything was applied, by their newest names."""
        return {self.names[table]: rows for table, rows in self._rows.items()}

    def apply(self, store: ObjectStore, source: str, manifest: Manifest) -> None:
        """Apply what a manifest says; see `steps_of`.

        Raises:
            DifferenceError: A change does not fit the rows that are there.
        """
        self.names |= {table.id: table.table for table in manifest.tables}
        for number, step in steps_of(store, source, manifest):
            try:
                if isinstance(step, Change):
                    self.change(step)
                    self.changes += 1
                else:
                    self.run(step, manifest)
            except DifferenceError as error:
                where = f"manifest {manifest.sequence}, _row {number}"
                raise DifferenceError(f"{where}: {error}") from error

    def run(self, statement: Statement, _: Manifest) -> None:
        """Apply what a statement did to tables as a whole."""
        for action in statement.actions:
            if isinstance(action, TruncateTable | DropTable):
                self._rows.pop(action.table, None)
                self._schemas.pop(action.table, None)

    def change(self, change: Change) -> None:
        """Apply one change."""
        table, schema = change.table, change.table.schema(change.part.schema)
        rows = self._rows.setdefault(table.id, TableRows())
        names = [field.name for field in schema.fields]
        if self._schemas.get(table.id) != schema:
            self._schemas[table.id] = schema
            rows.set_key(schema.key_names)
            for name, row in product(names, rows):
                row.setdefault(name, None)
        defaults = self._defaults.get(table.table, dict.fromkeys(names))
        rows.apply(change.row[CHANGE_TYPE], change.image, defaults)


def apply_all(store: ObjectStore, source: str) -> tuple[list[Manifest], Tables]:
    """Return the manifests, and what the tables hold after them.

    Fails where a manifest is missing, a part is not the one that was written, its counts are
    wrong, or a change comes twice or to a row that is not there.
    """
    replay, manifests = Replay(), list(manifests_after(ManifestLog(store, source), 0))
    for manifest in manifests:
        replay.apply(store, source, manifest)
    return manifests, {name: rows.by_key() for name, rows in replay.tables().items()}


def named_in(part: Part) -> str:
    """Return the name that a part's table had when its rows were logged."""
    return unquote(part.path.split("/")[1], errors="strict")


def held_by(table: TableChanges, schema: Schema, image: int) -> tuple[str, ...]:
    """Return the columns that a row image holds, by their names in a schema."""
    names = {field.id: field.name for field in schema.fields}
    return tuple(names[each] for each in table.images[image])


def changes_of(store: ObjectStore, source: str, table: TableChanges) -> Iterator[Row]:
    """Yield the change rows of a table, in the order of its parts."""
    for _, rows in parts_of(store, source, table):
        yield from rows


def _changes(
    store: ObjectStore, source: str, table: TableChanges
) -> Iterator[tuple[Part, Row, Row]]:
    for part, rows in parts_of(store, source, table):
        for row in rows:
            held = held_by(table, table.schema(part.schema), row[IMAGE])
            assert all(row[name] is None for name in row.keys() - {*held, *CHANGE_COLUMNS})
            yield part, row, {name: row[name] for name in held}


def parts_of(
    store: ObjectStore, source: str, table: TableChanges
) -> Iterator[tuple[Part, list[Row]]]:
    """Yield the parts of a table with their rows, checked against what the manifest says."""
    for part in table.parts:
        data = store.read(part_key(source, part.path))
        assert hashlib.sha256(data).hexdigest() == part.sha256, part.path
        assert len(data) == part.bytes
        rows = pq.read_table(io.BytesIO(data)).to_pylist()
        assert len(rows) == part.rows == sum(part.changes.values())
        yield part, rows
