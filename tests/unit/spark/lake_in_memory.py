"""Staged files in memory, and the source rows of a segment, collapsed in Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import ReloadNeededError, StagingError
from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.snapshot_manifest import (
    digest_in,
    snapshot_part_path,
    snapshot_path,
    table_digest,
)
from airflow_provider_binlog.spark.collapse.partial_rows import DEFAULT, END, MOVED, REMOVED
from airflow_provider_binlog.spark.collapse.partial_rows import ROW as ROW_LACKS
from airflow_provider_binlog.spark.plan.fold import StartWithin
from airflow_provider_binlog.spark.target.modes import END as UNTIL
from airflow_provider_binlog.spark.target.modes import SEQUENCE, START
from airflow_provider_binlog.spark.target.state import Mark
from tests.support.memory_target import (
    EPOCH,
    MICROSECOND,
    MemoryTarget,
    SourceRow,
    as_number,
    fold_versions,
)
from tests.unit.spark.history import Source, Table
from tests.unit.spark.made_snapshots import SnapshotMaker
from tests.unit.spark.plain_collapse import Image, collapse_plainly
from tests.unit.spark.plain_modes import time_text
from tests.unit.spark.staged_changes import LOG, Change, make_part

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@dataclass(frozen=True)
class ReadChange:
    """A change as a row of the lake table, and the columns of which it has a value."""

    at: Point
    type: str
    row: dict[str, Any]
    has: set[str]
    commit_ts: int
    gtid: str | None
    file: str
    position: int


def _held(segment: Segment, read: ReadChange) -> dict[str, Any]:
    """Return what the columns of a mode hold of a change."""
    is_end = read.type in ("delete", "update_preimage")
    at = time_text(read.commit_ts)
    kind = "delete" if is_end else read.type
    held = {
        "deleted_at": at if is_end else None,
        START: EPOCH + read.commit_ts * MICROSECOND,
        UNTIL: None,
        "change_type": kind if read.at[0] else "snapshot",
        "commit_ts": at,
        "gtid": read.gtid,
        "file": read.file,
        "pos": read.position,
    }
    return {name: held[of] for of, name in segment.mode.names.items()}


def _is_based(segment: Segment, read: ReadChange) -> bool:
    if segment.base is None:
        return False
    until = segment.base.until
    if isinstance(until, StartWithin):
        number = split_file_name(read.file)[1]
        at = until.sequence, until.file_number, until.offset
        return (read.at[0], number, read.position) < at
    return read.at < until


class MemoryRows:
    """Makes the rows of changes from parts in memory; a `RowMaker`."""

    def __init__(self, source: StagedInMemory, target: MemoryTarget) -> None:
        self.source, self.target = source, target

    def make(self, segment: Segment, state: TargetState | None) -> list[SourceRow]:
        if segment.is_changelog:
            return [
                SourceRow(
                    dict.fromkeys(segment.target_columns)
                    | change.row
                    | {SEQUENCE: change.at[0], ROW: change.at[1]}
                )
                for change in self._changes(segment)
            ]
        if segment.mode.is_multiset:
            return self._count(segment, alone=segment.replaces_rows(state))
        if segment.mode.is_history:
            return self._version(segment, state)
        columns, deletes = segment.columns.keys() - {*segment.key}, segment.mode.deletes
        images = [_image(segment, change) for change in self._changes(segment)]
        left = collapse_plainly(images, columns, deletes)
        has_rows = state is not None and not segment.starts_empty
        lacking = {row.lacks(columns, deletes): key for key, row in left.items()}
        for what in (MOVED, DEFAULT, END) if has_rows else (MOVED, DEFAULT, END, ROW_LACKS):
            if what in lacking:
                raise ReloadNeededError(what, position=segment.position, key=lacking[what])
        rows = []
        for key, row in left.items():
            is_removed = row.deleted and (deletes == "ignore" or row.removed)
            alone = segment.replaces_rows(state) and deletes == "soft"
            if is_removed and deletes != "hard":
                continue
            if alone and row.lacks(columns, deletes) == REMOVED:
                continue
            keeps_values = row.deleted and deletes == "hard"
            rows.append(
                SourceRow(
                    dict.fromkeys(columns)
                    | row.values
                    | dict(row.held)
                    | dict(zip(segment.key, key, strict=True)),
                    deleted=row.deleted and not alone,
                    lacks=frozenset(() if keeps_values else columns - row.values.keys()),
                )
            )
        return rows

    def _version(self, segment: Segment, state: TargetState | None) -> list[SourceRow]:
        """Return what every transaction left of a key; finished versions if there are no others."""
        columns, start = segment.columns.keys() - {*segment.key}, segment.mode.names[START]
        has_rows = state is not None and not segment.starts_empty
        refused = (MOVED, DEFAULT, END) if has_rows else (MOVED, DEFAULT, END, ROW_LACKS)
        rows: list[SourceRow] = []
        seen: set[Any] = set()
        images: list[Image] = []

        def transaction(change: ReadChange) -> Any:
            of = change.at[0], change.gtid, change.commit_ts
            return None if _is_based(segment, change) else of

        for of, changes in groupby(self._changes(segment), transaction):
            new = [_image(segment, change) for change in changes]
            images += new
            left = collapse_plainly(images, columns)
            for key in dict.fromkeys(image.key for image in new):
                row, at = left[key], dict(zip(segment.key, key, strict=True))
                lacks = row.lacks(columns)
                if lacks is not None and lacks in refused:
                    raise ReloadNeededError(lacks, position=segment.position, key=key)
                made = SourceRow(
                    dict.fromkeys(columns) | row.values | dict(row.held) | at,
                    deleted=row.deleted,
                    lacks=frozenset(() if row.deleted else columns - row.values.keys()),
                )
                if segment.base is not None:
                    based = {start: EPOCH + segment.base.at * MICROSECOND}
                    first = replace(made, values=made.values | based)
                    if of is None:
                        made = first
                    elif key not in seen:
                        rows.append(replace(first, deleted=True, lacks=frozenset()))
                    seen.add(key)
                rows.append(made)
        if not segment.replaces_rows(state):
            return rows
        names = segment.mode.names
        versions = fold_versions(
            (),
            rows,
            key=segment.key,
            start=start,
            end=names[UNTIL],
            tracked=segment.tracked,
        )
        return [SourceRow(version) for version in versions]

    def _count(self, segment: Segment, *, alone: bool) -> list[SourceRow]:
        """Return how many copies more there are to be of each row; all of them if `alone`."""
        copies = Counter[tuple[Any, ...]]()
        before: ReadChange | None = None
        for change in self._changes(segment):
            row = change.row
            is_end = change.type in ("delete", "update_preimage")
            if change.has != {*segment.columns}:
                if change.type != "update_postimage" or before is None:
                    raise ReloadNeededError("not all of a row", position=segment.position)
                row = before.row | {name: row[name] for name in change.has}
            copies[tuple(row[name] for name in segment.columns)] += -1 if is_end else 1
            before = change if change.type == "update_preimage" else None
        if alone and any(number < 0 for number in copies.values()):
            raise ReloadNeededError("less than none of a row", position=segment.position)
        named = [
            (dict(zip(segment.columns, row, strict=True)), number)
            for row, number in copies.items()
            if number
        ]
        if alone:
            return [SourceRow(row) for row, number in named for _ in range(number)]
        return [SourceRow(row, copies=number) for row, number in named]

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> list[SourceRow]:
        return [SourceRow(row) for row in self.target.tables[table].read()]

    def _changes(self, segment: Segment) -> list[ReadChange]:
        """Return every change in order."""
        found = []
        for rows in segment.reads:
            for part in rows.parts:
                if self.source.files.size(part.path) is None:
                    raise StagingError("a part is missing", part=part.path)
                sequence, changes = self.source.parts[part.path]
                for change in changes:
                    start = segment.start
                    # All is in one binlog file.
                    is_of_start = start is not None and sequence == start.sequence
                    if is_of_start and start and change.position < start.offset:
                        continue
                    row, has = _read(segment, rows, change)
                    at, type_ = (sequence, change.point), change.type.value
                    position, when = change.position, (change.commit_ts, change.gtid)
                    found.append(ReadChange(at, type_, row, has, *when, LOG, position))
        return sorted(found, key=lambda change: change.at)


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


def _image(segment: Segment, change: ReadChange) -> Image:
    return Image(
        change.type,
        tuple(change.row[name] for name in segment.key),
        _without_key(segment, change.row, change.has),
        _held(segment, change),
        _is_based(segment, change),
    )


def _without_key(segment: Segment, row: dict[str, Any], held: set[str]) -> dict[str, Any]:
    return {name: row[name] for name in held - {*segment.key}}
