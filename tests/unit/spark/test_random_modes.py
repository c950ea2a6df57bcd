"""Random histories in every mode, cut into merges anywhere: lake tables are as the plain model's.

As in `test_random_histories.py`, all of the merge is the real one but for Spark.
"""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_binlog.spark.job.options import MergeOptions, Report
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from airflow_provider_binlog.spark.target.modes import END, choose_mode
from airflow_provider_binlog.spark.target.state import KEY, Mark
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.support.memory_target import MemoryTarget
from tests.unit.spark.history import Event
from tests.unit.spark.lake_in_memory import MemoryRows, SnapshotInMemory, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.plain_modes import PlainHistory, PlainLakes, Row
from tests.unit.spark.random_owners import NUMBER, Owner, rename
from tests.unit.spark.staged_changes import INT

SECOND = 1_000_000
HISTORY = TableOptions(mode="history")


class TimedSource(StagedInMemory):
    """A source whose transactions have times, which may run back, and GTIDs."""

    def __init__(self, files: Files, chance: random.Random) -> None:
        super().__init__(files)
        self.chance = chance
        self.transactions = 0
        self.events_at: dict[Mark, int] = {}

    def begin(self) -> None:
        """Begin the next transaction."""
        self.transactions += 1
        self.commit_ts += self.chance.choice([0, 1, SECOND, 2 * SECOND, -SECOND])
        self.gtid = f"uuid:{self.transactions}"

    def run_actions(self, kind: str, text: str, actions: list[Any]) -> None:
        self.events_at[Mark(self.sequence, len(self._statements) + 1)] = len(self.events)
        super().run_actions(kind, text, actions)

    def make_manifest(self) -> Any:
        manifest = super().make_manifest()
        self.events_at[Mark(self.sequence)] = len(self.events)
        return manifest


class TimedOwner(Owner):
    """An owner whose transactions may change several rows, or one row several times."""

    def row(self) -> None:
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            super().row()


@dataclass
class ModesHistory:
    """A source, its staged files, and a lake in one mode, which is merged and killed at random."""

    seed: int
    options: TableOptions
    compared: Counter[str] = field(default_factory=Counter)
    snapshots: dict[int, SnapshotInMemory] = field(default_factory=dict)
    loads: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.files = Files()
        self.source = TimedSource(self.files, self.chance)
        self.target = MemoryTarget(self.die)
        self.mode = choose_mode(self.options, keyed=True)
        self.plain, self.applied = PlainLakes(self.mode, self.options.track_columns), 0
        self.uncertain: set[str] = set()
        self.unfinished: set[str] = set()

    def die(self) -> None:
        if self.chance.random() < 0.02:
            raise RuntimeError("killed")

    def run(self) -> Counter[str]:
        chance, source = self.chance, self.source
        kind = TimedOwner if self.mode.is_history else Owner
        owners: list[Owner] = [
            kind(source, chance, name, quiet=False, begin=source.begin) for name in "tu"
        ]
        for _ in range(chance.randint(1, 12)):
            for _ in range(chance.randint(0, 5)):
                if chance.random() < 0.04:
                    source.begin()
                    rename(source, chance, owners)
                elif chance.random() < 0.2:
                    self.read_on(chance.choice(owners))
                else:
                    chance.choice(owners).step()
            self.stage()
            if chance.random() < 0.5:
                if self.mode.is_history:
                    self.restore()
                self.merge()
                self.compare()
        return self.compared

    def stage(self) -> None:
        manifest = self.source.make_manifest()
        self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())

    def restore(self) -> None:
        """Put a lake table back to an earlier version, as its owner may: it is merged again."""
        tables = self.target.tables
        if tables and self.chance.random() < 0.2:
            name = self.chance.choice([*tables])
            if versions := self.target.history.get(name):
                tables[name] = deepcopy(self.chance.choice(versions))

    def read_on(self, owner: Owner) -> None:
        if owner.exists and id(owner) not in self.snapshots and owner.table.key:
            self.snapshots[id(owner)] = SnapshotInMemory(owner.table)
        snapshot = self.snapshots.get(id(owner))
        if snapshot is not None and snapshot.step(owner):
            del self.snapshots[id(owner)]

    def merge(self) -> Report:
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        rules = TableRules({"*": self.options})
        options = MergeOptions("", "shop", "delta", "lake", table_options=rules, threads=1)
        report = merge_into(lambda: lake, self.files, options)
        for table in report.tables:
            self.unfinished.discard(table.table)
            if table.error is not None:
                self.unfinished.add(table.table)
            if table.error is not None or table.hold is not None:
                assert "a defect" not in (table.error or ""), (self.seed, table.error)
                self.uncertain.add(table.table)
                self.compared["named"] += 1
            elif table.table in self.uncertain:
                self.compared["healed"] += 1
        return report

    def compare(self) -> None:
        """Compare every lake table that nothing but its log has changed with the plain one."""
        loaded = {change.table for change in self.target.committed if change.snapshot}
        for name, table in self.target.tables.items():
            if name in self.uncertain | loaded:
                self.check_living(name)
                continue
            at = self.source.events_at[table.contents.mark]
            plain = PlainLakes(self.mode, self.options.track_columns)
            for event in self.source.events[:at]:
                plain.apply(event)
            key = ("shop", name.partition(".")[2])
            lake, follows = plain.lakes.get(key), table.contents.table
            if lake is None or table.properties[KEY] == "[]":
                continue
            if self.is_uncertain(key, plain):
                continue
            if plain.names.get(key, follows) != follows:
                # It has the rows of a table that gets its name later.
                continue
            if key not in plain.names and not self.mode.keeps_removed:
                # It keeps what its table had at some merge before.
                continue
            if isinstance(lake, PlainHistory) and lake.lost_columns:
                self.check_living(name)
                continue
            found, wanted = in_order(table.read()), in_order(lake.read())
            assert found == wanted, (self.seed, name, table.contents.mark)
            self.compared["tables"] += 1
            self.compared["rows"] += len(wanted)

    def is_uncertain(self, name: tuple[str, str], plain: PlainLakes) -> bool:
        """Whether a table of a name waited for a reload, or got the name that had no lake table.

        Then it depends on when merges ran whether rows are those of its log, or copied.
        """
        if any(new == name for event in self.source.events for _, _, new in event.names):
            return True
        seen = {event.table for event in self.source.events if name in names_in(event)}
        names = {
            each for event in self.source.events if event.table in seen for each in names_in(event)
        }
        others = {".".join(each) for each in names}
        return bool(seen & plain.rewritten) or bool(others & self.uncertain)

    def check_living(self, name: str) -> None:
        """Compare the rows that are not marked with those that the table had."""
        table = self.target.tables[name]
        state = self.target.read_state(name)
        marks = self.mode.names.get(END) or self.mode.deleted_at
        content = self.source.contents.get(table.contents.mark, {}).get(str(table.contents.table))
        if content is None or state is None or content.name != name or state.hold is not None:
            return
        if name in self.unfinished:
            # Its columns may have changed already, and its rows not yet.
            return
        if marks is None or marks not in table.columns or self.mode.deletes == "ignore":
            return
        living = [row for row in table.read() if row[marks] is None]
        # A merge that was killed may have dropped columns.
        columns = content.columns & {*table.columns} if self.mode.is_history else content.columns
        plain = [{each: row[each] for each in columns} for row in content.rows]
        found = [{each: row[each] for each in columns if each in row} for row in living]
        assert in_order(found) == in_order(plain), (self.seed, name)
        self.compared["reloaded"] += 1


@pytest.mark.parametrize(
    "options", [TableOptions(deletes="soft"), TableOptions(deletes="ignore"), HISTORY], ids=str
)
def test_one_merge_loads_a_snapshot_and_follows_a_truncation_after_it(
    options: TableOptions,
) -> None:
    history = ModesHistory(0, options)
    history.target = MemoryTarget(lambda: None)
    source, end = history.source, history.mode.names.get(END) or history.mode.deleted_at
    table = source.create("shop", "t", {"id": INT, "n": NUMBER}, ("id",), logged=False)
    table.load(id=1, n=1)
    snapshot = SnapshotInMemory(table)
    snapshot.read()
    snapshot.commit()
    for id_ in (2, 3):
        source.begin()
        table.truncate()
        source.begin()
        table.insert(id=id_, n=id_)
        history.stage()

    (report,) = history.merge().tables

    assert (report.status, report.applied_after) == ("merged", Mark(2))
    rows = history.target.tables["shop.t"].read()
    assert sorted(row["id"] for row in rows) == [1, 2, 3]
    if end is not None:
        assert [row["id"] for row in rows if row[end] is None] == [3]


def names_in(event: Event) -> set[tuple[str, str]]:
    return {event.name} | {name for _, *names in event.names for name in names}


def in_order(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(
    "options",
    [
        TableOptions(metadata=True),
        TableOptions(deletes="soft"),
        TableOptions(deletes="soft", metadata=True, prefix="cdc_"),
        TableOptions(deletes="ignore"),
        HISTORY,
        TableOptions(mode="history", track_columns=("id",), metadata=True),
    ],
    ids=str,
)
def test_lake_tables_in_a_mode_are_as_the_plain_ones(options: TableOptions) -> None:
    compared = Counter[str]()
    # In the last one a piece of a log has no rows of the table that the name stands for later.
    for seed in [*range(150), 1374]:
        compared += ModesHistory(seed, options).run()
    assert compared["tables"] > 100
    assert compared["rows"] > 200
