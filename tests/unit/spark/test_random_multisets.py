"""Random histories of tables without a key, cut into merges anywhere, in the mode `multiset`.

As in `test_random_histories.py`, all of the merge is the real one but for Spark: at its mark, a
lake table has the rows that SELECT returned, as often as it did.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.support.memory_target import MemoryTarget
from tests.support.plain_lake import in_order
from tests.unit.spark.history import RowImage
from tests.unit.spark.lake_in_memory import MemoryRows, SnapshotInMemory, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.random_owners import Owner, rename

OPTIONS = TableRules({"*": TableOptions(mode="multiset")})


class Multiset(Owner):
    """Changes a table without a key, whose rows are mostly equal."""

    def row(self) -> None:
        table, chance = self.table, self.chance
        self.source.row_image = chance.choice([*RowImage])
        values = {name: chance.choice([None, 1, 1, 2]) for name in table.types}
        action = chance.choice("iiiud") if table.rows else "i"
        if action == "i":
            table.insert(**values)
        elif action == "u":
            given = chance.sample(list(values), chance.randint(0, len(values)))
            table.update(chance.choice(list(table.rows)), **{name: values[name] for name in given})
        else:
            table.delete(chance.choice(list(table.rows)))

    def rewrite(self) -> None:
        """Change rows as a statement does."""
        for number in list(self.table.rows)[::2]:
            del self.table.rows[number]
        self.table.rewrite("rewrote rows")


@dataclass
class History:
    """A source, its staged files, and a lake, which is merged and killed at random."""

    seed: int
    compared: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.files = Files()
        self.source = StagedInMemory(self.files)
        self.target = MemoryTarget(self.die)
        self.unfinished: set[str] = set()

    def die(self) -> None:
        if self.chance.random() < 0.02:
            raise RuntimeError("killed")

    def run(self) -> Counter[str]:
        chance, source = self.chance, self.source
        owners: list[Owner] = [
            Multiset(source, chance, name, quiet=False, key=()) for name in ("t", "u")
        ]
        for _ in range(chance.randint(1, 12)):
            for _ in range(chance.randint(0, 6)):
                if chance.random() < 0.05:
                    rename(source, chance, owners)
                else:
                    chance.choice(owners).step()
            for owner in owners:
                if owner.exists and chance.random() < 0.2:
                    self.take_snapshot(owner)
            manifest = source.make_manifest()
            self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
            if chance.random() < 0.5:
                self.merge()
                self.compare()
        loads = [change for change in self.target.committed if change.snapshot is not None]
        self.compared["reloads"] += len(loads)
        return self.compared

    def take_snapshot(self, owner: Owner) -> None:
        snapshot = SnapshotInMemory(owner.table)
        snapshot.is_exact = True
        snapshot.first_schema = snapshot.schema
        snapshot.read().commit()

    def merge(self) -> None:
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        options = MergeOptions("", "shop", "delta", "lake", table_options=OPTIONS, threads=1)
        report = merge_into(lambda: lake, self.files, options)
        for table in report.tables:
            self.unfinished.discard(table.table)
            if table.error is not None:
                assert "a defect" not in table.error, (self.seed, table.error)
                self.unfinished.add(table.table)
            self.compared["named"] += table.error is not None or table.hold is not None

    def compare(self) -> None:
        for name, table in self.target.tables.items():
            state = self.target.read_state(name)
            contents = self.source.contents.get(table.contents.mark, {})
            at = contents.get(str(table.contents.table))
            if name in self.unfinished or state is None or state.hold is not None:
                continue
            if at is None or at.name != name:
                # Of one that was dropped or renamed the old name keeps the rows.
                continue
            assert state.mode.is_multiset
            assert {*table.columns} == at.columns or not at.rows, (self.seed, table.columns)
            assert in_order(table.read()) == in_order(at.rows), (self.seed, table.contents.mark)
            self.compared["tables"] += 1
            self.compared["rows"] += len(at.rows)


def test_a_lake_table_has_every_row_as_often_as_select_returned_it() -> None:
    compared = Counter[str]()
    for seed in range(120):
        compared += History(seed).run()
    assert compared["tables"] > 200
    assert compared["rows"] > 500
    assert compared["reloads"] > 10
