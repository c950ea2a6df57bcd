"""Staged files in memory, and the source rows of a segment, collapsed in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import ReloadNeededError, StagingError
from airflow_provider_binlog.snapshot_manifest import (
    digest_in,
    snapshot_part_path,
    snapshot_path,
    table_digest,
)
from airflow_provider_binlog.spark.collapse.partial_rows import DEFAULT, END, MOVED
from airflow_provider_binlog.spark.collapse.partial_rows import ROW as ROW_LACKS
from airflow_provider_binlog.spark.staged.parts import SEQUENCE
from airflow_provider_binlog.spark.target.state import Mark
from tests.support.memory_target import MemoryTarget, SourceRow, as_number
from tests.unit.spark.history import Source, Table
from tests.unit.spark.made_snapshots import SnapshotMaker
from tests.unit.spark.plain_collapse import Image, collapse_plainly
from tests.unit.spark.staged_changes import Change, make_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.manifest import Manifest, Part
    from airflow_provider_binlog.schema import Action, Schema
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.table_log import Point
    from airflow_provider_binlog.spark.staged.parts import SchemaRows
    from airflow_provider_binlog.spark.target.state import TargetState
    from tests.unit.spark.memory_files import Files
    from tests.unit.spark.random_owners import Owner


@dataclass
class Content:
    """What a table holds at one point of the log."""

    name: str
    rows: list[dict[str, Any]]
    columns: set[str]

    @classmethod
    def of(cls, table: Table) -> Content:
        return cls(".".join(table.name), table.values, set(table.types))


class StagedInMemory(Source):
    """A source whose parts are lists of changes."""

    def __init__(self, files: Files) -> None:
        super().__init__(None, "shop")  # type: ignore[arg-type]
        self.files = files
        self.parts: dict[str, tuple[int, list[Change]]] = {}
        self.owners: list[Owner] = []
        self.noted: dict[str, Content] = {}
        self.contents: dict[Mark, dict[str, Content]] = {}

    def note(self) -> None:
        """Note what the tables hold, which is what they hold before the next statement."""
        self.noted = {
            each.table.identity.id: Content.of(each.table) for each in self.owners if each.exists
        }

    def run_actions(self, kind: str, text: str, actions: list[tuple[Table, Action]]) -> None:
        self.contents[Mark(self.sequence, len(self._statements) + 1)] = self.noted
        super().run_actions(kind, text, actions)

    def make_manifest(self) -> Manifest:
        manifest = super().make_manifest()
        self.note()
        self.contents[Mark(self.sequence)] = self.noted
        return manifest

    def _write(
        self,
        name: tuple[str, str],
        changes: list[Change],
        images: tuple[tuple[int, ...], ...],
        ordinal: int,
    ) -> Part:
        path = f"{'/'.join(name)}/{self.sequence:016d}-{ordinal:06d}.parquet"
        self.parts[path] = self.sequence, changes
        self.files.write(path, b"1")
        return make_part(path, changes, bytes_=1, sha256="")


class SnapshotInMemory(SnapshotMaker):
    """A snapshot whose parts are lists of changes; it is read in two chunks."""

    first_schema: Schema

    def _write(self, changes: list[Change], _: tuple[int, ...]) -> Part:
        source = self.table.source
        assert isinstance(source, StagedInMemory)
        path = snapshot_part_path(self.id, len(self.parts), "0")
        source.parts[path] = 0, changes
        source.files.write(path, b"1")
        return make_part(path, changes, bytes_=1, sha256="")

    def _store(self, manifest: SnapshotManifest) -> None:
        source = self.table.source
        assert isinstance(source, StagedInMemory)
        source.files.write(snapshot_path(manifest.id), manifest.encode())

    def step(self, owner: Owner) -> bool:
        """Read the next chunk, or make the snapshot visible; return whether it is over."""
        alike = not self.chunks or self.schema == self.first_schema
        same = digest_in(self.id) == table_digest(owner.table.name)
        if not (owner.exists and same and alike):
            return True
        number = len(self.chunks)
        if number == 2:
            self.commit()
            return True
        self.first_schema = self.schema
        self.read(lambda row: row["id"] % 2 == number)
        return False


class MemoryRows:
    """Makes the rows of changes from parts in memory; a `RowMaker`."""

    def __init__(self, source: StagedInMemory, target: MemoryTarget) -> None:
        self.source, self.target = source, target

    def check_digests(self, parts: Sequence[Part]) -> None:
        """Parts in memory have no bytes."""

    def make(self, segment: Segment, state: TargetState | None) -> list[SourceRow]:
        if segment.is_changelog:
            return [
                SourceRow(
                    dict.fromkeys(segment.target_columns) | row | {SEQUENCE: at[0], ROW: at[1]}
                )
                for at, _, row, _ in self._changes(segment)
            ]
        columns = segment.columns.keys() - {*segment.key}
        images = [
            Image(kind, tuple(row[name] for name in segment.key), _without_key(segment, row, held))
            for _, kind, row, held in self._changes(segment)
        ]
        left = collapse_plainly(images, columns)
        has_rows = state is not None and not segment.starts_empty
        lacking = {row.lacks(columns): key for key, row in left.items()}
        for what in (MOVED, DEFAULT, END) if has_rows else (MOVED, DEFAULT, END, ROW_LACKS):
            if what in lacking:
                raise ReloadNeededError(what, position=segment.position, key=lacking[what])
        return [
            SourceRow(
                dict.fromkeys(columns) | row.values | dict(zip(segment.key, key, strict=True)),
                deleted=row.deleted,
                lacks=frozenset(() if row.deleted else columns - row.values.keys()),
            )
            for key, row in left.items()
        ]

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> list[SourceRow]:
        return [SourceRow(row) for row in self.target.tables[table].read()]

    def refuse_orphans(self, rows: list[SourceRow], segment: Segment, table: str) -> None:
        stored = self.target.tables[table].read()
        there = {tuple(row.get(name) for name in segment.key) for row in stored}
        for row in rows:
            key = tuple(row.values[name] for name in segment.key)
            if row.lacks and key not in there:
                raise ReloadNeededError(ROW_LACKS, position=segment.position, key=key)

    def _changes(self, segment: Segment) -> list[tuple[Point, str, dict[str, Any], set[str]]]:
        """Return point, type, values and the columns that have one, of every change in order."""
        found = []
        for rows in segment.reads:
            for part in rows.parts:
                if self.source.files.size(part.path) is None:
                    raise StagingError("a part is missing", part=part.path)
                sequence, changes = self.source.parts[part.path]
                for change in changes:
                    row, held = _read(segment, rows, change)
                    found.append(((sequence, change.point), change.type.value, row, held))
        return sorted(found, key=lambda change: change[0])


def _read(segment: Segment, rows: SchemaRows, change: Change) -> tuple[dict[str, Any], set[str]]:
    names = {each.id: each.name for each in change.schema.fields}
    staged = dict(zip(names.values(), change.image, strict=True))
    has = {names[each] for each in change.held}
    row, held = dict[str, Any](), set[str]()
    for name in segment.columns:
        own = rows.names.get(name)
        if own is None:
            row[name] = as_number(rows.initial.get(name), segment.columns[name])
        elif own in has:
            row[name] = staged[own]
        elif change.type.value == "insert" and own in rows.defaults:
            row[name] = as_number(rows.defaults[own], segment.columns[name])
        else:
            row[name] = None
            continue
        held.add(name)
    return row, held


def _without_key(segment: Segment, row: dict[str, Any], held: set[str]) -> dict[str, Any]:
    return {name: row[name] for name in held - {*segment.key}}
