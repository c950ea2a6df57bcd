"""Staged files and a lake in memory, and what a segment does to it, row by row."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.snapshot_manifest import (
    digest_in,
    snapshot_part_path,
    snapshot_path,
    table_digest,
)
from airflow_provider_binlog.spark.target.column_changes import alter_statements
from airflow_provider_binlog.spark.target.mark import NOTHING, Contents, Mark
from airflow_provider_binlog.spark.target.properties import (
    announce_fills,
    fields_property,
    key_property,
    owner_properties,
    table_property,
)
from airflow_provider_binlog.spark.target.protocol import Commit
from airflow_provider_binlog.spark.target.state import (
    ENDED,
    SNAPSHOT,
    TargetState,
    hold_property,
    live_property,
)
from tests.unit.spark.history import Source, Table
from tests.unit.spark.made_snapshots import SnapshotMaker
from tests.unit.spark.memory_files import Files
from tests.unit.spark.staged_changes import Change, make_part

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Part
    from airflow_provider_binlog.schema import Action, Schema
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge.renamed_table import OldTable
    from airflow_provider_binlog.spark.merge.table_merge import TableWork
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.staged.parts import SchemaRows
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

    def __init__(self) -> None:
        super().__init__(None, "shop")  # type: ignore[arg-type]
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
        return make_part(path, changes, bytes_=1, sha256="")


class SnapshotInMemory(SnapshotMaker):
    """A snapshot whose parts are lists of changes; it is read in two chunks."""

    files: Files
    first_schema: Schema

    def _write(self, changes: list[Change], _: tuple[int, ...]) -> Part:
        source = self.table.source
        assert isinstance(source, StagedInMemory)
        path = snapshot_part_path(self.id, len(self.parts), "0")
        source.parts[path] = 0, changes
        return make_part(path, changes, bytes_=1, sha256="")

    def _store(self, manifest: SnapshotManifest) -> None:
        self.files.write(snapshot_path(manifest.id), manifest.encode())

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


@dataclass
class Target:
    """One table of the lake; its rows by key, their values by the columns' own ids."""

    columns: dict[str, str]
    properties: dict[str, str]
    contents: Contents = field(default_factory=lambda: Contents(NOTHING))
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    last_id: int = 0

    @property
    def applied(self) -> Mark:
        return self.contents.mark

    def add(self, columns: dict[str, str]) -> None:
        for name, type_ in columns.items():
            assert name.lower() not in map(str.lower, self.columns)
            self.last_id += 1
            self.columns[name], self.ids[name] = type_, str(self.last_id)

    def rename(self, old: str, new: str) -> None:
        assert new.lower() not in map(str.lower, self.columns)
        self.columns = {new if name == old else name: each for name, each in self.columns.items()}
        self.ids = {new if name == old else name: each for name, each in self.ids.items()}

    def drop(self, name: str) -> None:
        del self.columns[name], self.ids[name]

    def read(self) -> list[dict[str, Any]]:
        return [
            {name: row.get(id_) for name, id_ in self.ids.items()} for row in self.rows.values()
        ]

    def write(self, rows: list[dict[str, Any]], key: tuple[str, ...]) -> None:
        self.rows = {
            tuple(row[name] for name in key): {self.ids[name]: row[name] for name in self.columns}
            for row in rows
        }


class LakeInMemory:
    """A lake, and the merge of one table into it."""

    def __init__(self, source: StagedInMemory, chance: random.Random) -> None:
        self.source, self.chance = source, chance
        self.settings: dict[str, str] = {}
        self.tables: dict[str, Target] = {}
        self.history: dict[str, list[Target]] = {}
        self.unfinished: set[str] = set()
        self.reloads = 0

    def target(self, database: str, table: str) -> str:
        return f"{database}.{table}"

    def find_state(self, _: object, target: str) -> TargetState | None:
        found = self.tables.get(target)
        if found is None:
            return None
        return TargetState(
            columns=dict(found.columns),
            column_ids=dict(found.ids),
            properties=dict(found.properties),
            contents=found.contents,
            files=len(found.rows),
            bytes=0,
            is_empty=not found.rows,
            snapshot=None,
        )

    def copy_rows(self, _session: object, _lake: object, old: OldTable, **of: Any) -> Any:
        target = self.target(*of["name"])
        self._maybe_die()
        self.tables[target] = copied = deepcopy(self.tables[old.target])
        copied.properties |= owner_properties(of["source"], of["identity"], of["name"])
        return self.find_state(None, target)

    def note_held(self, _run: object, _session: object, table: LakeTable) -> None:
        if table.hold is not None and table.target in self.tables:
            self.tables[table.target].properties |= hold_property(
                table.hold, table.applied, table.loaded
            )

    def merge_segment(self, merge: Any) -> Commit:
        work: TableWork = merge.work
        segment: Segment = merge.segment
        plan = work.plan
        self._prepare(work, segment)
        target = self.tables[work.target]
        state = self._state(work)
        if plan.table is not None and plan.table == state.table:
            target.properties |= table_property(plan.table)
            target.properties |= fields_property(state, segment.fields)
        self._maybe_die()
        filled = {name: int(sql.split("'")[1]) for name, sql in segment.evolution.filled.items()}
        if segment.is_changelog:
            # It holds changes, which are not compared.
            target.contents = Contents(segment.mark, work.table, work.loaded)
            return Commit(0, 0, 0)
        kept = (
            []
            if segment.starts_empty or segment.reloads
            else [row | filled for row in target.read()]
        )
        rows = {tuple(row[name] for name in segment.key): row for row in kept}
        for change, row, held in self._changes(segment):
            _apply(rows, segment.key, change, row, held)
        target.write(list(rows.values()), segment.key)
        assert segment.reloads or target.applied < segment.mark, "a mark does not decrease"
        target.contents = Contents(segment.mark, work.table, work.loaded)
        self.history.setdefault(work.target, []).append(deepcopy(target))
        self._maybe_die()
        if plan.table is not None and plan.table != state.table:
            fields = fields_property(state, segment.fields, of_another=True)
            target.properties |= table_property(plan.table) | fields
        self._maybe_die()
        if work.snapshot is not None:
            self.reloads += 1
            target.properties |= {SNAPSHOT: work.snapshot} | live_property()
        return Commit(0, 0, 0)

    def _state(self, work: TableWork) -> TargetState:
        state = self.find_state(None, work.target)
        assert state is not None
        return state

    def _prepare(self, work: TableWork, segment: Segment) -> None:
        plan, state = work.plan, work.state
        properties = owner_properties(work.applied.source, work.identity, plan.name)
        properties |= key_property(segment.key)
        if segment.ends:
            properties[ENDED] = str(work.applied.mark)
        if state is None:
            made = self.tables[work.target] = Target({}, properties)
            assert plan.table is not None
            made.properties |= table_property(plan.table)
            made.add(segment.target_columns)
            self._maybe_die()
            return
        target, evolution = self.tables[work.target], segment.evolution
        target.properties |= properties
        filled = {id_ for id_, name in segment.fields.items() if name in evolution.filled}
        if filled:
            target.properties |= announce_fills(state, filled, work.applied.mark)
        for statement in alter_statements("x", state.columns, evolution):
            self._maybe_die()
            words = statement.split()[3:]
            quoted = statement.split("`")[1::2]
            if words[0] == "RENAME":
                target.rename(*quoted)
            elif words[0] == "ADD":
                target.add(evolution.added)
            elif words[0] == "DROP":
                for name in quoted:
                    target.drop(name)
            else:
                target.columns |= evolution.widened

    def meddle(self) -> None:
        """Put a table back to an earlier state, or to none, as its owner may."""
        if self.tables and self.chance.random() < 0.1:
            name = self.chance.choice(list(self.tables))
            before = self.chance.choice([*self.history.get(name, []), None])
            if before is None:
                del self.tables[name]
            else:
                self.tables[name] = deepcopy(before)

    def _changes(self, segment: Segment) -> list[tuple[str, dict[str, Any], set[str]]]:
        """Return type, values and the columns that have one, of every change in order."""
        found = []
        for rows in segment.reads:
            for part in rows.parts:
                sequence, changes = self.source.parts[part.path]
                for change in changes:
                    row, held = _read(segment, rows, change)
                    found.append(((sequence, change.point), change.type.value, row, held))
        return [(type_, row, held) for _, type_, row, held in sorted(found, key=lambda e: e[0])]

    def _maybe_die(self) -> None:
        if self.chance.random() < 0.02:
            raise RuntimeError("killed")


def _read(segment: Segment, rows: SchemaRows, change: Change) -> tuple[dict[str, Any], set[str]]:
    names = {each.id: each.name for each in change.schema.fields}
    staged = dict(zip(names.values(), change.image, strict=True))
    has = {names[each] for each in change.held}
    row, held = dict[str, Any](), set[str]()
    for name in segment.columns:
        own = rows.names.get(name)
        if own is None:
            initial = rows.initial.get(name)
            row[name] = None if initial is None else int(initial.split("'")[1])
        elif own in has:
            row[name] = staged[own]
        elif change.type.value == "insert" and own in rows.defaults:
            text = rows.defaults[own]
            row[name] = int(text.split("'")[1]) if "'" in text else None
        else:
            row[name] = None
            continue
        held.add(name)
    return row, held


def _apply(
    rows: dict[Any, dict[str, Any]],
    key: tuple[str, ...],
    change: str,
    row: dict[str, Any],
    held: set[str],
) -> None:
    """Apply one change, as the collapse and the MERGE do together."""
    at = tuple(row[name] for name in key)
    if change == "update_preimage":
        # The next change is the after-image: of what it lacks the row keeps what it has.
        rows["moved"] = rows.pop(at, {})
        return
    before = rows.pop("moved", None) or rows.get(at, {})
    rows.pop(at, None)
    if change == "delete":
        return
    if change == "insert":
        before = {}
    missing = set(row) - held - set(before)
    if missing:
        raise MergeError("the log holds only changed columns of a row that is not there")
    rows[at] = before | {name: row[name] for name in held}
