"""Random histories of tables, cut into merges anywhere: refused, or what SELECT returns.

The story of a merge, its plans and its progress are the real ones; a lake of dictionaries stands in
for Spark, and row images are whole.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.spark import merge_run
from airflow_provider_binlog.spark.lake.table_format import (
    DROPPED,
    Commit,
    TargetState,
    key_property,
    owner_properties,
    plan_evolution,
)
from airflow_provider_binlog.spark.merge_run import MergeOptions, merge_all
from airflow_provider_binlog.spark.table_merge import _as_target
from tests.unit.spark.history import BIGINT, INT, Change, ColumnType, Source
from tests.unit.spark.plan.test_progress import Files

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Schema
    from airflow_provider_binlog.spark.report import Report
    from airflow_provider_binlog.spark.table_merge import TableWork

NUMBER = ColumnType("int", BIGINT.arrow)
NEVER_NULL = replace(NUMBER, nullable=False, default=None, initial=0)


class StagedInMemory(Source):
    """A source whose parts are lists of changes."""

    def __init__(self) -> None:
        super().__init__(None, "shop")  # type: ignore[arg-type]
        self.parts: dict[str, tuple[Schema, int, list[Change]]] = {}

    def _write(
        self, name: tuple[str, str], schema: int, changes: list[Change], images: Any, ordinal: int
    ) -> Part:
        path = f"{'/'.join(name)}/{self.sequence:016d}-{ordinal:06d}.parquet"
        self.parts[path] = changes[0].schema, self.sequence, changes
        counts: dict[str, int] = {}
        for each in changes:
            counts[each.type.value] = counts.get(each.type.value, 0) + 1
        first, last = changes[0].place, changes[-1].place
        return Part(path, schema, len(changes), 1, "", first, last, 0, 0, counts)


@dataclass
class Target:
    """One table of the lake; its rows by key."""

    columns: dict[str, str]
    properties: dict[str, str]
    marker: int = 0
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)


class LakeInMemory:
    """A lake, and the merge of one table into it."""

    def __init__(self, source: StagedInMemory, chance: random.Random) -> None:
        self.source, self.chance = source, chance
        self.tables: dict[str, Target] = {}
        self.history: dict[str, list[Target]] = {}

    def target(self, database: str, table: str) -> str:
        return f"{database}.{table}"

    def maybe_state(self, _: object, target: str) -> TargetState | None:
        found = self.tables.get(target)
        if found is None:
            return None
        return TargetState(
            dict(found.columns), dict(found.properties), found.marker, 0, 0, found.marker
        )

    def merge_table(self, _spark: object, _lake: object, _files: object, work: TableWork) -> Any:
        plan, state = work.plan, work.state
        if state is None and not plan.shapes:
            return None
        if state is None:
            owner = owner_properties(work.marker.source, work.identity, plan.name)
            made = Target(dict(plan.target_columns), owner | key_property(plan.key))
            self.tables[work.target] = made
        else:
            if not plan.shapes:
                plan = _as_target(plan, work.target, state)
            evolution = plan_evolution(plan, state)
            self.tables[work.target].columns |= evolution.added | evolution.widened
        target = self.tables[work.target]
        if plan.fate.dropped:
            target.properties[DROPPED] = str(work.marker.sequence)
        self._maybe_die()
        if plan.fate.emptied_at is not None:
            target.rows.clear()
        for row, ends in self._changes(plan):
            key = tuple(row[name] for name in plan.key)
            target.rows.pop(key, None)
            if not ends:
                target.rows[key] = row
        target.marker = work.marker.sequence
        self.history.setdefault(work.target, []).append(deepcopy(target))
        self._maybe_die()
        return Commit()

    def meddle(self) -> None:
        """Put a table back to an earlier state, or to none, as its owner may."""
        if self.tables and self.chance.random() < 0.1:
            name = self.chance.choice(list(self.tables))
            before = self.chance.choice([*self.history.get(name, []), None])
            if before is None:
                del self.tables[name]
            else:
                self.tables[name] = deepcopy(before)

    def _changes(self, plan: Any) -> list[tuple[dict[str, Any], bool]]:
        found = []
        for shape in plan.shapes:
            for path in shape.paths:
                schema, sequence, changes = self.source.parts[path]
                names = [column.name for column in schema.columns]
                for change in changes:
                    place = sequence, change.place
                    if shape.within is None or shape.within.may_hold(place, place):
                        row = dict.fromkeys(plan.columns)
                        held = zip(names, change.image, strict=True)
                        row |= {name: value for name, value in held if name in row}
                        ends = change.type.value in ("delete", "update_preimage")
                        found.append((place, row, ends))
        return [(row, ends) for _, row, ends in sorted(found, key=lambda each: each[0])]

    def _maybe_die(self) -> None:
        if self.chance.random() < 0.03:
            raise RuntimeError("killed")


class Life:
    """A table that lives by chance; `settled` says whether a row followed its last statement."""

    def __init__(self, source: StagedInMemory, chance: random.Random, name: str) -> None:
        self.source, self.chance = source, chance
        self.table = source.create("shop", name, {"id": INT, "n": NUMBER}, ("id",))
        self.settled = self.exists = True
        self.next_id = 1

    def step(self) -> None:
        table = self.table
        if not self.exists:
            types = self.chance.choice([table.types, {"id": INT, "n": NUMBER}])
            table.types = types
            table.create_again()
            self.exists = True
        action = self.chance.choice(["row"] * 12 + ["alter"] * 4 + ["truncate", "drop"])
        if action == "row":
            self.row()
        elif action == "alter":
            self.alter()
            self.settled = False
        elif action == "truncate":
            table.truncate()
        else:
            table.drop()
            self.exists = False

    def row(self) -> None:
        table, chance = self.table, self.chance
        values = {name: chance.randint(1, 99) for name in table.types if name != "id"}
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
        self.settled = True

    def alter(self) -> None:
        """Change the columns, and the rows as the server does."""
        table, chance = self.table, self.chance
        rest = [name for name in table.types if name != "id"]
        free = [name for name in "abcnm" if name not in table.types]
        old = chance.choice(rest) if rest else None
        new = chance.choice(free) if free else None
        other = chance.choice(rest) if rest else None
        makes: dict[str, tuple[str, ColumnType, Any]] = {
            "null": ("INT", NUMBER, None),
            "default": ("INT DEFAULT 7", NUMBER, 7),
            "never": ("INT NOT NULL", NEVER_NULL, 0),
            "computed": ("INT AS (id + 1) STORED", NUMBER, 8),
        }
        text, type_, value = makes[chance.choice(list(makes))]
        action = chance.choice(["add"] * 4 + ["drop", "rename", "swap", "again", "relax", "set"])
        # Each new column: where its values come from.
        origins: dict[str, str | None] = {name: name for name in table.types}
        types = dict(table.types)
        if action == "add" and new:
            words, origins[new], types[new] = f"ADD COLUMN {new} {text}", None, type_
        elif action == "drop" and old:
            words = f"DROP COLUMN {old}"
            del origins[old], types[old]
        elif action == "rename" and old and new:
            words = f"RENAME COLUMN {old} TO {new}"
            origins = {new if name == old else name: name for name in types}
            types = {new if name == old else name: each for name, each in types.items()}
        elif action == "swap" and old and other and old != other:
            words = f"RENAME COLUMN {old} TO {other}, RENAME COLUMN {other} TO {old}"
            swapped = {old: other, other: old}
            origins = {swapped.get(name, name): name for name in types}
            types = {swapped.get(name, name): each for name, each in types.items()}
        elif action == "again" and old:
            words = f"DROP COLUMN {old}, ADD COLUMN {old} {text}"
            types[old] = type_
            origins[old] = None
        elif action == "relax" and old:
            words, types[old] = f"MODIFY {old} INT NULL", NUMBER
        else:
            words = f"ALTER COLUMN {old} SET DEFAULT 5" if old else "FORCE"
        names = list(table.types)
        table.rows = {
            key: tuple(
                value if origin is None else row[names.index(origin)] for origin in origins.values()
            )
            for key, row in table.rows.items()
        }
        table.types = types
        self.source.run("ALTER TABLE", f"ALTER TABLE {table.name[1]} {words}", table.name)


def rename(source: StagedInMemory, chance: random.Random, lives: list[Life]) -> None:
    """Give a table another name, or two tables each other's."""
    one, other = chance.sample(lives, 2)
    taken = {life.table.name[1] for life in lives}
    name = chance.choice([each for each in ("t", "u", "v", "w") if each not in taken])
    if not one.exists:
        return
    if other.exists and chance.random() < 0.5:
        first, second = one.table.name[1], other.table.name[1]
        source.rename((one.table, name), (other.table, first), (one.table, second))
        other.settled = False
    else:
        source.rename((one.table, name))
    one.settled = False


def live(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many times the lake was compared."""
    chance = random.Random(seed)
    source, files = StagedInMemory(), Files()
    lake = LakeInMemory(source, chance)
    monkeypatch.setattr(merge_run, "HadoopFiles", lambda *_: files)
    monkeypatch.setattr(merge_run, "_lake", lambda _: lake)
    monkeypatch.setattr(merge_run, "merge_table", lake.merge_table)
    monkeypatch.setattr(merge_run, "check_sizes", lambda *_: None)
    monkeypatch.setattr(merge_run, "newest_sequence", lambda _: source.sequence)
    spark: Any = SimpleNamespace(newSession=lambda: None)
    options = MergeOptions("", "shop", "delta", "lake", threads=1)
    lives = [Life(source, chance, name) for name in ("t", "u")]
    compared = 0
    for _ in range(chance.randint(1, 12)):
        for _ in range(chance.randint(0, 4)):
            if chance.random() < 0.04:
                rename(source, chance, lives)
            else:
                chance.choice(lives).step()
        manifest = source.make_manifest()
        files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
        if chance.random() < 0.5:
            continue
        lake.meddle()
        if chance.random() < 0.1:
            # Whoever deletes the progress has every manifest read again.
            files.data = {path: data for path, data in files.data.items() if "/0" in path}
        report = merge_all(spark, options)
        retry = [each for each in report.tables if each.error and "killed" in each.error]
        if retry and not [each for each in report.tables if each.error and each not in retry]:
            continue
        compared += _compare(seed, report, lake, lives)
        if report.failed:
            break
    return compared


def _compare(seed: int, report: Report, lake: LakeInMemory, lives: list[Life]) -> int:
    # A table that was put back is noticed when it changes next.
    merged = [each.table for each in report.tables if not each.error]
    compared = 0
    for life in lives:
        name = ".".join(life.table.name)
        target = lake.tables.get(name)
        if name not in merged or target is None or not (life.settled and life.exists):
            continue
        found = sorted(map(repr, (sorted(row.items(), key=repr) for row in _whole(target))))
        rows = [sorted(row.items(), key=repr) for row in life.table.values]
        assert found == sorted(map(repr, rows)), (seed, name)
        compared += 1
    return compared


def _whole(target: Target) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in target.columns} for row in target.rows.values()]


def test_what_is_not_refused_is_what_select_returns() -> None:
    compared = 0
    for seed in range(400):
        with pytest.MonkeyPatch.context() as patch:
            compared += live(seed, patch)
    assert compared > 400
