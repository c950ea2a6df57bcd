"""The staged changes applied one after another in plain dicts, and the result beside SELECT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from airflow_provider_binlog.changes import CHANGE_COLUMNS, CHANGE_TYPE, ROW, ChangeType
from airflow_provider_binlog.manifest import Manifest, TableChanges
from airflow_provider_binlog.schema import Schema, TruncateTable
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.support.replay import DifferenceError, TableRows
from tests.support.staged import manifests_after, parts_of
from tests.support.stores import open_store

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass
class Replayed:
    """What the manifests say.

    Attributes:
        tables: By name.
        manifests, parts, changes: How many there were.
        unnamed: Parts that no manifest names: those of processes that were killed.
    """

    tables: dict[str, TableRows]
    manifests: int = 0
    parts: int = 0
    changes: int = 0
    unnamed: int = 0


def replay(folder: Path, source: str) -> Replayed:
    """Apply everything that is staged below `folder`, in order.

    Raises:
        DifferenceError: A change does not fit.
        AssertionError: A part is not as its manifest says.
    """
    store = open_store(f"file://{folder}")
    replayed, schemas = Replayed({}), dict[str, Schema]()
    for manifest in manifests_after(ManifestLog(store, source), 0):
        replayed.manifests += 1
        replayed.parts += sum(len(table.parts) for table in manifest.tables)
        for number, name, step in sorted(_steps(store, source, manifest), key=lambda step: step[0]):
            rows = replayed.tables.setdefault(name, TableRows())
            if step is None:
                rows.clear()
                continue
            change, row, schema = step
            if schemas.get(name) != schema:
                schemas[name] = schema
                rows.set_key(schema.key_names)
                for added, other in product(schema.fields, rows):
                    other.setdefault(added.name, None)
            try:
                rows.apply(change, row, {})
            except DifferenceError as error:
                raise DifferenceError(
                    f"{name}, manifest {manifest.sequence}, _row {number}: {error}"
                ) from error
            replayed.changes += 1
    replayed.unnamed = len(list(folder.rglob("*.parquet"))) - replayed.parts
    return replayed


_Step = tuple[int, str, tuple[ChangeType, Row, Schema] | None]


def _steps(store: ObjectStore, source: str, manifest: Manifest) -> Iterator[_Step]:
    """Yield every change of a manifest, and None in its place for a table that is truncated."""
    names = {table.id: table.table for table in manifest.tables}
    for statement in manifest.statements:
        for action in statement.actions:
            if isinstance(action, TruncateTable):
                yield statement.row, names[action.table], None
    for table in manifest.tables:
        yield from _changes(store, source, table)


def _changes(store: ObjectStore, source: str, table: TableChanges) -> Iterator[_Step]:
    for part, rows in parts_of(store, source, table):
        schema = table.schema(part.schema)
        for row in rows:
            values = {name: plain(row[name]) for name in row if name not in CHANGE_COLUMNS}
            yield row[ROW], table.table, (ChangeType(row[CHANGE_TYPE]), values, schema)


def plain(value: Any) -> Any:
    """Return a value in the one form in which Arrow's and PyMySQL's can be compared."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1_000_000)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value


def contents(rows: Iterable[Row]) -> Counter[Key]:
    """Return the rows, counted: values in the order of their columns' names."""
    return Counter(map(_values, rows))


def select(cursor: Any, table: str) -> Counter[Key]:
    """Return what the server holds, as `contents` does."""
    # A number of 50 digits is staged as its text.
    cursor.execute(f"SHOW COLUMNS FROM {table}")
    columns = {row[0]: str(row[1]) for row in cursor.fetchall()}
    shown = [
        f"CAST({name} AS CHAR) AS {name}" if kind == "decimal(50,10)" else name
        for name, kind in columns.items()
    ]
    cursor.execute(f"SELECT {', '.join(shown)} FROM {table}")
    rows = (dict(zip(columns, map(plain, row), strict=True)) for row in cursor.fetchall())
    return Counter(_values(row) for row in rows)


def _values(row: Row) -> Key:
    """Return the values that are not NULL: a column added without changes is in no image."""
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))
