"""Snapshots of the tables of `history.py`: what a reader of a server would stage.

snapshot = SnapshotMaker(orders)
snapshot.read(lambda row: row["id"] < 3)
orders.update(1, note="meanwhile")
snapshot.read(lambda row: row["id"] >= 3)
snapshot.commit()
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.names import encode_name
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import Field, Schema
from airflow_provider_binlog.snapshot_manifest import (
    Chunk,
    SnapshotManifest,
    new_snapshot_id,
    snapshot_part_path,
    snapshot_path,
)
from airflow_provider_binlog.staging.part_writer import write_part
from tests.unit.spark.staged_changes import Change, make_part, note_types, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.manifest import Part
    from tests.unit.spark.history import Table

_TIMES = count()
_PLANNED = datetime(2026, 11, 22, tzinfo=UTC)


@dataclass
class SnapshotMaker:
    """One snapshot, from its plan on.

    Attributes:
        table: What is read.
        low: Its `low`; the position where it begins by default.
        is_exact: Whether all chunks are read at `low`.
    """

    table: Table
    low: Position = field(init=False)
    is_exact: bool = False
    id: str = field(init=False)
    chunks: list[Chunk] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    rows: int = 0

    def __post_init__(self) -> None:
        self.id = new_snapshot_id(_PLANNED + timedelta(seconds=next(_TIMES)), self.table.name)
        self.low = self.table.source.position()

    @property
    def schema(self) -> Schema:
        """The schema as SELECT shows it, whatever the log knows of it."""
        note_types(self.table.types.values())
        fields = tuple(
            Field(number, name, each.mysql, str(each.arrow), each.nullable)
            for number, (name, each) in enumerate(self.table.types.items(), 1)
        )
        names = list(self.table.types)
        return Schema(1, fields, tuple(names.index(each) + 1 for each in self.table.key))

    def read(self, where: Callable[[dict[str, Any]], bool] = lambda _: True) -> SnapshotMaker:
        """Read a chunk: the rows that fulfil a condition, as they are now."""
        source, schema = self.table.source, self.schema
        low = source.position()
        ids = tuple(each.id for each in schema.fields)
        rows = [each for each in self.table.values if where(each)]
        changes = [
            Change(
                ChangeType.INSERT,
                self.rows + number,
                tuple(row.values()),
                schema,
                ids,
                self.low.offset,
                0,
            )
            for number, row in enumerate(rows)
        ]
        self.rows += len(rows)
        if changes:
            self.parts.append(self._write(changes, ids))
        self.chunks.append(Chunk(len(self.chunks), low, source.position(), len(rows)))
        return self

    def commit(self, **other: Any) -> SnapshotManifest:
        """Make the snapshot visible."""
        source = self.table.source
        manifest = SnapshotManifest(
            id=self.id,
            identity=source.identity,
            database=self.table.name[0],
            table=self.table.name[1],
            schema=self.schema,
            low=self.low,
            high=source.position(),
            is_exact=self.is_exact,
            where=None,
            chunks=tuple(self.chunks),
            parts=tuple(self.parts),
            created_at="2026-11-22T00:00:00Z",
            created_by="test",
        )
        manifest = replace(manifest, **other)
        self._store(manifest)
        return manifest

    def _write(self, changes: list[Change], ids: tuple[int, ...]) -> Part:
        source, schema = self.table.source, changes[0].schema
        path = snapshot_part_path(self.id, len(self.parts), "9f86d081")
        arrow = to_arrow(schema, changes, (ids,))
        written = write_part(source.store, f"{encode_name(source.name)}/{path}", arrow, schema)
        return make_part(path, changes, bytes_=written.bytes, sha256=written.sha256)

    def _store(self, manifest: SnapshotManifest) -> None:
        source = self.table.source
        key = f"{encode_name(source.name)}/{snapshot_path(self.id)}"
        source.store.create(key, manifest.encode())


def take_snapshot(table: Table, **other: Any) -> SnapshotManifest:
    """Take a snapshot of a table in one chunk."""
    return SnapshotMaker(table).read().commit(**other)
