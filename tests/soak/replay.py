"""The staged changes applied one after another in plain dicts, and the result beside SELECT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_binlog.staging.manifest_log import ManifestLog
from tests.oracle.kinds import Kind, as_selected, as_shown
from tests.soak.workload import ADDED, TABLES
from tests.support.replay import TableRows
from tests.support.staged import Replay, manifests_after
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
    store, tables = open_store(f"file://{folder}"), Replay()
    manifests = parts = 0
    for manifest in manifests_after(ManifestLog(store, source), 0):
        manifests += 1
        parts += sum(len(table.parts) for table in manifest.tables)
        tables.apply(store, source, manifest)
    unnamed = len(list(folder.rglob("*.parquet"))) - parts
    return Replayed(tables.tables(), manifests, parts, tables.changes, unnamed)


def contents(table: str, rows: Iterable[Row]) -> Counter[Key]:
    """Return the rows of a table, counted, in the form in which `select` returns them."""
    return _counted(table, rows, as_shown)


def select(cursor: Any, table: str) -> Counter[Key]:
    """Return what the server holds."""
    cursor.execute(f"SHOW COLUMNS FROM {table}")
    names = [row[0] for row in cursor.fetchall()]
    shown = (_kind(table, name).select.format(name) for name in names)
    cursor.execute(f"SELECT {', '.join(shown)} FROM {table}")
    rows = (dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    return _counted(table, rows, lambda _, value: as_selected(value))


def _counted(table: str, rows: Iterable[Row], form: Callable[[Kind, Any], Any]) -> Counter[Key]:
    """Return the values that are not NULL: a column added without changes is in no image."""
    return Counter(
        tuple(
            sorted(
                (name, form(_kind(table, name), value))
                for name, value in row.items()
                if value is not None
            )
        )
        for row in rows
    )


def _kind(table: str, column: str) -> Kind:
    key, columns = TABLES[table]
    return next((each.kind for each in (*key, *columns) if each.name == column), ADDED)
