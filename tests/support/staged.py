"""What is staged, read as plainly as can be, and applied as strictly: each change exactly once."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from airflow_provider_binlog.changes import CHANGE_COLUMNS, CHANGE_TYPE, IMAGE, ROW
from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import check_follows
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import part_key
from tests.support.replay import TableRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.manifest import Manifest, Part, TableChanges
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


def apply_all(store: ObjectStore, source: str) -> tuple[list[Manifest], Tables]:
    """Return the manifests, and what the tables hold after them.

    Fails where a manifest is missing, a part is not the one that was written, its counts are
    wrong, or a change comes twice or to a row that is not there.
    """
    tables: dict[str, TableRows] = {}
    manifests = list(manifests_after(ManifestLog(store, source), 0))
    for manifest in manifests:
        for table in manifest.tables:
            rows = tables.setdefault(table.table, TableRows(table.schemas[0].key_names))
            changes = list(images_of(store, source, table))
            numbers = [change[ROW] for change, _ in changes]
            assert numbers == sorted(set(numbers))
            for change, image in changes:
                rows.apply(change[CHANGE_TYPE], image, {})
    return manifests, {name: rows.by_key() for name, rows in tables.items()}


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


def images_of(store: ObjectStore, source: str, table: TableChanges) -> Iterator[tuple[Row, Row]]:
    """Yield the change rows of a table, each with the columns that its row image has."""
    for part, rows in parts_of(store, source, table):
        for row in rows:
            held = held_by(table, table.schema(part.schema), row[IMAGE])
            assert all(row[name] is None for name in row.keys() - {*held, *CHANGE_COLUMNS})
            yield row, {name: row[name] for name in held}


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
