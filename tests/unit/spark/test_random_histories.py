"""Random histories of tables, cut into merges anywhere: each lake table is as at its mark.

The story of a merge, its plans and its progress are the real ones; a lake of dictionaries stands in
for Spark, and row images are whole.
"""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.snapshot_manifest import (
    digest_in,
    snapshot_part_path,
    snapshot_path,
    table_digest,
)
from airflow_provider_binlog.spark import (
    merge_run,
    merge_start,
    renamed_rows,
    sessions,
    table_merge,
)
from airflow_provider_binlog.spark.lake.column_changes import alter_statements
from airflow_provider_binlog.spark.lake.lake_state import LIVE, state_property
from airflow_provider_binlog.spark.lake.owner import owner_properties
from airflow_provider_binlog.spark.lake.table_format import (
    ENDED,
    KEY,
    SNAPSHOT,
    TABLE_ID,
    UNSEEN,
    Commit,
    TargetState,
    announce_fills,
    fields_property,
    key_property,
    table_property,
)
from airflow_provider_binlog.spark.mark import NOTHING, Contents, Mark
from airflow_provider_binlog.spark.merge_options import MergeOptions
from airflow_provider_binlog.spark.merge_run import merge_all
from tests.unit.spark.history import RowImage, Source, Table
from tests.unit.spark.made_snapshots import SnapshotMaker
from tests.unit.spark.plan.test_progress import Files
from tests.unit.spark.staged_changes import BIGINT, INT, Change, ColumnType, make_part

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Part
    from airflow_provider_binlog.schema import Action, Schema
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.spark.lake_table import LakeTable
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.renamed_table import OldTable
    from airflow_provider_binlog.spark.staged.parts import StagedRows
    from airflow_provider_binlog.spark.table_merge import TableWork

NUMBER = ColumnType("int", BIGINT.arrow)
NEVER_NULL = replace(NUMBER, nullable=False, default=None, initial=0)
DECIMAL = ColumnType("decimal(20,2)", pa.decimal128(20, 2))
WIDE = ColumnType("decimal(20,0)", pa.decimal128(20, 0))
SEVEN = replace(NUMBER, default=Default("7"), initial=7)


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
        if table.held is not None and table.target in self.tables:
            self.tables[table.target].properties |= state_property(table.held)

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
            target.properties |= {SNAPSHOT: work.snapshot} | state_property(LIVE)
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


def _read(segment: Segment, rows: StagedRows, change: Change) -> tuple[dict[str, Any], set[str]]:
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


class Owner:
    """Changes one table at random; a quiet one is older than the log, and has few changes."""

    def __init__(
        self, source: StagedInMemory, chance: random.Random, name: str, *, quiet: bool
    ) -> None:
        self.source, self.chance, self.quiet = source, chance, quiet
        self.table = source.create(
            "shop", name, {"id": INT, "n": NUMBER}, ("id",), logged=chance.random() < 0.8 - quiet
        )
        self.exists = True
        self.next_id = 1
        for _ in range(2 * quiet):
            self.table.load(id=self.next_id, n=self.next_id)
            self.next_id += 1
        source.owners.append(self)

    def step(self) -> None:
        table = self.table
        self.source.note()
        if not self.exists:
            if self.chance.random() < 0.5:
                table.types, table.key = {"id": INT, "n": NUMBER}, ("id",)
            table.create_again()
            self.exists = True
            self.source.note()
        rows = 1 if self.quiet else 12
        action = self.chance.choice(
            ["row"] * rows + ["alter"] * 4 + ["truncate", "drop", "rewrite"]
        )
        if action == "row":
            self.row()
        elif action == "alter":
            self.alter()
        elif action == "truncate":
            table.truncate()
        elif action == "drop":
            table.drop()
            self.exists = False
        elif self.chance.random() < 0.2:
            self.rewrite()

    def row(self) -> None:
        table, chance = self.table, self.chance
        self.source.row_image = chance.choice([RowImage.FULL, RowImage.FULL, RowImage.MINIMAL])
        rest = [name for name in table.types if name != "id"]
        given = chance.sample(rest, chance.randint(0, len(rest)))
        values = {name: chance.randint(1, 99) for name in {*given, *table.key} - {"id"}}
        action = chance.choice("iiiud") if table.rows else "i"
        if action == "i":
            table.insert(id=self.next_id, **values)
            self.next_id += 1
        elif action == "u":
            key = chance.choice(list(table.rows))
            if chance.random() < 0.2:
                values["id"] = self.next_id
                self.next_id += 1
            table.update(key, **values)
        else:
            table.delete(chance.choice(list(table.rows)))

    def rewrite(self) -> None:
        """Change rows as a statement does."""
        table = self.table
        name = self.chance.choice([None, *(each for each in table.types if each != "id")])
        if name is None:
            for key in list(table.rows)[::2]:
                del table.rows[key]
        elif name not in table.key:
            at = list(table.types).index(name)
            for key, row in table.rows.items():
                table.rows[key] = (*row[:at], -1, *row[at + 1 :])
        table.rewrite("rewrote values", name)

    def alter(self) -> None:
        """Change the columns, and the rows as the server does."""
        table, chance = self.table, self.chance
        rest = [name for name in table.types if name not in ("id", *table.key)]
        free = [name for name in "abcdefghnmAN" if name.lower() not in map(str.lower, table.types)]
        old, other = (chance.choice(rest), chance.choice(rest)) if rest else (None, None)
        new = chance.choice(free)
        any_ = chance.choice(list(table.types))
        type_, value, unknown = chance.choice(
            [(NUMBER, None, False), (SEVEN, 7, False), (NEVER_NULL, 0, False), (NUMBER, 8, True)]
        )
        action = chance.choice(
            ["add"] * 4 + ["drop", "rename", "swap", "again", "relax", "type", "key", "no key"]
        )
        types, renamed = dict(table.types), dict[str, str]()
        added: list[str] = []
        key: tuple[str, ...] | None = None
        if action == "add":
            types[new], added = type_, [new]
        elif action == "drop" and old:
            del types[old]
        elif action == "rename" and any_ != "id":
            name = chance.choice([new, any_.swapcase()])
            types = {name if each == any_ else each: type_ for each, type_ in types.items()}
            renamed = {name: any_}
        elif action == "swap" and old and other and old != other:
            renamed = {old: other, other: old}
            types = {renamed.get(each, each): type_ for each, type_ in types.items()}
        elif action == "again" and old:
            types[old], added = type_, [old]
        elif action == "relax" and old:
            types[old] = NUMBER
        elif action == "type" and old:
            types[old] = chance.choice([NUMBER, DECIMAL, WIDE])
        elif action == "key" and old and all(row[old] is not None for row in table.values):
            key = ("id", old) if len(table.key) == 1 else ("id",)
        elif action == "no key" and chance.random() < 0.3:
            key = ()
        table.alter(
            action,
            types,
            renamed=renamed,
            again=added if action == "again" else (),
            unknown=added if unknown else (),
            key=key,
            **dict.fromkeys(added, value),
        )


def rename(source: StagedInMemory, chance: random.Random, owners: list[Owner]) -> None:
    """Give a table another name, or two tables each other's."""
    one, other = chance.sample(owners, 2)
    taken = {owner.table.name[1] for owner in owners}
    name = chance.choice([each for each in ("t", "u", "v", "w") if each not in taken])
    if not one.exists:
        return
    source.note()
    if other.exists and chance.random() < 0.5:
        first, second = one.table.name[1], other.table.name[1]
        source.rename((one.table, name), (other.table, first), (one.table, second))
    else:
        source.rename((one.table, name))
        source.note()
        if chance.random() < 0.3 and "x" not in taken:
            source.rename((one.table, "x"))


def run_history(seed: int, monkeypatch: pytest.MonkeyPatch, *, quiet: bool = False) -> Counter[str]:
    """Return how many times the lake was compared."""
    chance = random.Random(seed)
    source, files = StagedInMemory(), Files()
    lake = LakeInMemory(source, chance)
    monkeypatch.setattr(merge_run, "HadoopFiles", lambda *_: files)
    monkeypatch.setattr(merge_run, "_lake", lambda _: lake)
    monkeypatch.setattr(renamed_rows, "copy_rows", lake.copy_rows)
    monkeypatch.setattr(table_merge, "_merge_segment", lake.merge_segment)
    monkeypatch.setattr(table_merge, "prepare_collapse", lambda *_: None)
    monkeypatch.setattr(merge_run, "check_sizes", lambda *_: None)
    monkeypatch.setattr(merge_run, "_note_held", lake.note_held)
    monkeypatch.setattr(merge_start, "list_manifests", lambda _: [*range(1, source.sequence + 1)])
    monkeypatch.setattr(sessions, "configure", lambda *_, few: None)
    monkeypatch.setattr(merge_run, "check_jars", lambda *_: None)
    spark: Any = SimpleNamespace(newSession=lambda: None)
    options = MergeOptions("", "shop", "delta", "lake", threads=1)
    owners = [Owner(source, chance, name, quiet=quiet) for name in ("t", "u")]
    snapshots: dict[int, SnapshotInMemory] = {}
    compared = Counter[str]()
    for _ in range(chance.randint(1, 12)):
        for _ in range(chance.randint(0, 4)):
            if chance.random() < 0.04:
                rename(source, chance, owners)
            elif chance.random() < 0.3:
                read_on(files, chance.choice(owners), snapshots)
            else:
                chance.choice(owners).step()
        manifest = source.make_manifest()
        files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
        if chance.random() < 0.5:
            continue
        lake.meddle()
        if chance.random() < 0.1:
            # Whoever deletes the progress has every manifest read again.
            files.data = {path: data for path, data in files.data.items() if "_merged" not in path}
        report = merge_all(spark, options)
        for table in report.tables:
            lake.unfinished.discard(table.table)
            if table.error:
                # Nobody adds columns to the lake.
                assert "columns that the table does not have" not in table.error, (seed, table)
                lake.unfinished.add(table.table)
        compared += _compare(seed, source, lake)
    compared["reloads"] += lake.reloads
    return compared


def read_on(files: Files, owner: Owner, snapshots: dict[int, SnapshotInMemory]) -> None:
    """Begin a snapshot of a table, or continue the one that is being taken."""
    if owner.exists and id(owner) not in snapshots and owner.table.key:
        snapshots[id(owner)] = SnapshotInMemory(owner.table)
        snapshots[id(owner)].files = files
    snapshot = snapshots.get(id(owner))
    if snapshot is not None and snapshot.step(owner):
        del snapshots[id(owner)]


def _compare(seed: int, source: StagedInMemory, lake: LakeInMemory) -> Counter[str]:
    """Compare every lake table with what its table held at the applied mark."""
    compared = Counter[str]()
    for name, target in lake.tables.items():
        if name in lake.unfinished:
            # Its columns may have changed already, and its rows not yet.
            continue
        contents = source.contents.get(target.applied, {})
        table = target.contents.table or target.properties.get(TABLE_ID, "")
        at = contents.get(table)
        if table == UNSEEN:
            at = next((each for each in contents.values() if each.name == name), None)
        if at is None or at.name != name or target.properties[KEY] == "[]":
            # It keeps what a table had that has another name now, or none.
            continue
        names = set(target.columns)
        # While it is empty, it may have the columns of the one before it.
        assert not target.rows or names == at.columns, (seed, name, names, at.columns)
        found = sorted(repr(sorted(row.items())) for row in target.read())
        rows = [{each: row[each] for each in names} for row in at.rows]
        assert found == sorted(repr(sorted(row.items())) for row in rows), (seed, name)
        compared["within a manifest" if target.applied.statements else "whole"] += 1
    return compared


def test_a_lake_table_is_what_select_returned_at_its_mark() -> None:
    compared = Counter[str]()
    # 1297: what an older rename of a name says is not where its table was lost.
    for seed in (*range(400), 1297):
        with pytest.MonkeyPatch.context() as patch:
            compared += run_history(seed, patch)
    for seed in range(100):
        with pytest.MonkeyPatch.context() as patch:
            compared += run_history(seed, patch, quiet=True)
    assert compared["whole"] > 400
    assert compared["within a manifest"] > 20
    assert compared["reloads"] > 20
