"""Random histories of tables, cut into merges anywhere: each lake table is as at its mark.

All of the merge is the real one but for Spark: files, rows and lake tables are in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from airflow_provider_binlog.spark.target.state import KEY, TABLE_ID, UNSEEN, Mark
from tests.support.memory_target import MemoryTarget
from tests.unit.spark.lake_in_memory import MemoryRows, SnapshotInMemory, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.random_owners import Owner, rename


@dataclass
class History:
    """A source, its staged files, and a lake, which things happen to at random."""

    seed: int
    compared: Counter[str] = field(default_factory=Counter)
    unfinished: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    meddled: set[str] = field(default_factory=set)
    snapshots: dict[int, SnapshotInMemory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.files = Files()
        self.source = StagedInMemory(self.files)
        self.target = MemoryTarget(self.die)

    def die(self) -> None:
        """Kill the merge of a table, now and then."""
        if self.chance.random() < 0.02:
            raise RuntimeError("killed")

    def run(self, *, quiet: bool = False) -> Counter[str]:
        """Return how many times lake tables were compared."""
        chance, source, files = self.chance, self.source, self.files
        owners = [Owner(source, chance, name, quiet=quiet) for name in ("t", "u")]
        for _ in range(chance.randint(1, 12)):
            for _ in range(chance.randint(0, 4)):
                if chance.random() < 0.04:
                    rename(source, chance, owners)
                elif chance.random() < 0.3:
                    self.read_on(chance.choice(owners))
                else:
                    chance.choice(owners).step()
            manifest = source.make_manifest()
            files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
            if chance.random() < 0.5:
                continue
            self.meddle()
            if chance.random() < 0.1:
                # Whoever deletes the progress has every manifest read again.
                progress = [path for path in files.data if "_merged" in path]
                files.data = {
                    path: data for path, data in files.data.items() if path not in progress
                }
            self.merge()
            self.compare()
            if not quiet:
                # Of quiet tables the log says nothing: what the lake lacks, the next plan reads.
                self.compare_newest()
        loads = [each for each in self.target.committed if each.snapshot is not None]
        self.compared["reloads"] += len(loads)
        return self.compared

    def merge(self) -> None:
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        options = MergeOptions("", "shop", "delta", "lake", threads=1)
        report = merge_into(lambda: lake, self.files, options)
        for table in report.tables:
            is_named = table.error is not None or table.hold is not None
            (self.named.add if is_named else self.named.discard)(table.table)
            if table.status == "merged":
                self.meddled.discard(table.table)
                self.unfinished.discard(table.table)
            elif table.error:
                assert "a defect of the merge" not in table.error, (self.seed, table)
                # Nobody adds columns to the lake.
                assert "columns that the table does not have" not in table.error, (self.seed, table)
                self.unfinished.add(table.table)

    def meddle(self) -> None:
        """Put a table back to an earlier state, or to none, as its owner may."""
        tables = self.target.tables
        if tables and self.chance.random() < 0.1:
            name = self.chance.choice(list(tables))
            self.meddled.add(name)
            before = self.chance.choice([*self.target.history.get(name, []), None])
            if before is None:
                del tables[name]
            else:
                tables[name] = deepcopy(before)

    def read_on(self, owner: Owner) -> None:
        """Begin a snapshot of a table, or continue the one that is being taken."""
        if owner.exists and id(owner) not in self.snapshots and owner.table.key:
            self.snapshots[id(owner)] = SnapshotInMemory(owner.table)
        snapshot = self.snapshots.get(id(owner))
        if snapshot is not None and snapshot.step(owner):
            del self.snapshots[id(owner)]

    def compare(self) -> None:
        """Compare every lake table with what its table held at the applied mark."""
        for name, target in self.target.tables.items():
            if name in self.unfinished:
                # Its columns may have changed already, and its rows not yet.
                continue
            contents = self.source.contents.get(target.contents.mark, {})
            table = target.contents.table or target.properties.get(TABLE_ID, "")
            at = contents.get(table)
            if table == UNSEEN:
                at = next((each for each in contents.values() if each.name == name), None)
            if at is None or at.name != name or target.properties[KEY] == "[]":
                # It keeps what a table had that has another name now, or none.
                continue
            names = set(target.columns)
            state = self.target.read_state(name)
            assert state is not None
            # While it is empty, it may have the columns of the one before it; and before a stop it
            # may lack a column that no row has shown.
            # Restored to the version from before its hold, it is stale by what the merge says.
            is_stale = (state.hold is not None or name in self.named) and names < at.columns
            same = not target.rows or is_stale or names == at.columns
            assert same, (self.seed, name, names, at.columns)
            found = sorted(repr(sorted(row.items())) for row in target.read())
            rows = [{each: row[each] for each in names} for row in at.rows]
            assert found == sorted(repr(sorted(row.items())) for row in rows), (self.seed, name)
            self.compared["within a manifest" if target.contents.mark.statements else "whole"] += 1

    def compare_newest(self) -> None:
        """Compare every table that exists with the lake, unless a merge named it and its reason."""
        for table in self.source.contents.get(Mark(self.source.sequence), {}).values():
            target = self.target.tables.get(table.name)
            if table.name in self.named | self.meddled | self.unfinished:
                continue
            if target is None:
                assert not table.rows, (self.seed, table.name)
            elif target.properties[KEY] != "[]":
                found = sorted(repr(sorted(row.items())) for row in target.read())
                rows = [
                    {each: row[each] for each in target.columns if each in row}
                    for row in table.rows
                ]
                assert found == sorted(repr(sorted(row.items())) for row in rows), (
                    self.seed,
                    table.name,
                )
                self.compared["newest"] += 1


def test_a_lake_table_is_what_select_returned_at_its_mark() -> None:
    compared = Counter[str]()
    # 1297: what an older rename of a name says is not where its table was lost.
    # 7379: a merge was killed once it had changed columns that only a snapshot had said.
    # 13419: a column that was just added is of the key.
    for seed in (*range(400), 1297, 7379, 13419):
        compared += History(seed).run()
    # 8673: values were rewritten in a column that only the snapshot had named.
    for seed in (*range(100), 8673):
        compared += History(seed).run(quiet=True)
    assert compared["whole"] > 400
    assert compared["within a manifest"] > 20
    assert compared["reloads"] > 20
    assert compared["newest"] > 400
