"""Years of a source with three lakes, in minutes: nothing needed is removed, and all else is.

    python -m tests.soak.upkeep --days 365 --seeds 5

Everything is the real code but for Spark: files, rows and lake tables are in memory, and so is the
clock. The lakes are merged at different paces, killed, and restored to versions of the last days;
snapshots last for hours, and cleanups run in between.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fsspec

from airflow_provider_binlog.cleanup.removal import Cleanup, clean_up, plan_cleanup
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, new_snapshot_id
from airflow_provider_binlog.spark.job.options import MergeOptions, TableReport
from airflow_provider_binlog.spark.merge.lake_table import REMOVED
from airflow_provider_binlog.spark.merge.progress import progress_folder, published_at, read_records
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from airflow_provider_binlog.staging.object_store import ObjectStore, StoredObject
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles
from airflow_provider_binlog.table_options import TableRules
from tests.support.memory_target import MemoryTable, MemoryTarget
from tests.unit.spark.lake_in_memory import MemoryRows, SnapshotInMemory, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.random_owners import Owner
from tests.unit.spark.test_random_histories import History

if TYPE_CHECKING:
    from tests.unit.spark.history import Table

STEP, GRACE = timedelta(hours=6), timedelta(days=7)
SOURCE = "shop"


@dataclass
class Clock:
    """The time of a simulation."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class TimedStore(ObjectStore):
    """A store in memory whose objects have the times of a clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(fsspec.filesystem("memory"), f"/{uuid4().hex}")
        self.clock = clock
        self.times: dict[str, datetime] = {}

    def write(self, key: str, data: bytes) -> None:
        self.times[key] = self.clock.now
        super().write(key, data)

    def find(self, folder: str) -> list[StoredObject]:
        return [replace(each, modified=self.times[each.key]) for each in super().find(folder)]


class StagedFiles(StoredFiles, Files):
    """Files of a source in a store, where a source in memory writes them."""

    def __init__(self, store: ObjectStore) -> None:
        StoredFiles.__init__(self, store, SOURCE)


class TimedSnapshot(SnapshotInMemory):
    """A snapshot with the times of a clock."""

    def __init__(self, table: Table, clock: Clock) -> None:
        super().__init__(table)
        self.clock, self.id = clock, new_snapshot_id(clock.now, table.name)

    def commit(self, **other: Any) -> SnapshotManifest:
        return super().commit(**other, created_at=self.clock.now.isoformat())


@dataclass
class Version:
    """A version that a lake table had, and until when merges knew it; None for the present one."""

    table: MemoryTable
    until: datetime | None = None


@dataclass
class Consumer(History):
    """A lake, merged once in so many steps.

    Attributes:
        merges: When it was merged, and up to which manifest.
        versions: By table, the oldest first.
        restored: Restored tables that no merge has read since: when that version was replaced.
        lost: Tables that were restored to what may be removed.
        horizon: Start of the grace period at the last cleanup.
    """

    name: str = ""
    pace: int = 1
    clock: Clock = field(default_factory=Clock)
    staged: StagedInMemory | None = None
    merges: list[tuple[datetime, int]] = field(default_factory=list)
    versions: dict[str, list[Version]] = field(default_factory=dict)
    restored: dict[str, datetime] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    horizon: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def __post_init__(self) -> None:
        assert self.staged is not None
        self.chance = random.Random(self.seed)
        self.source, self.files = self.staged, self.staged.files
        self.target = MemoryTarget(self.die)

    def merge(self) -> None:
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        options = MergeOptions("", SOURCE, "delta", self.name, threads=1)
        counts = {name: len(each) for name, each in self.target.history.items()}
        report = merge_into(lambda: lake, self.files, options, clock=lambda: self.clock.now)
        for name, history in self.target.history.items():
            for version in history[counts.get(name, 0) :]:
                self._note(name, version)
        for table in report.tables:
            self._check(table)
        self.merges.append((self.clock.now, report.through))

    def _note(self, name: str, table: MemoryTable, until: datetime | None = None) -> None:
        versions = self.versions.setdefault(name, [])
        if versions:
            versions[-1].until = versions[-1].until or self.clock.now
        versions.append(Version(deepcopy(table), until))

    def _check(self, table: TableReport) -> None:
        """Fail if a merge lacks what was needed."""
        where = (self.seed, self.name, self.clock.now, table)
        text = f"{table.error or ''} {table.reason}"
        assert "is missing" not in text, where
        assert "what was logged from" not in text, where
        is_excused = table.table in self.lost or "there is nothing to reload" in text
        assert REMOVED not in text or is_excused, where
        is_named = table.error is not None or table.hold is not None
        (self.named.add if is_named else self.named.discard)(table.table)
        if self.restored.pop(table.table, None) is not None and table.status != "merged":
            self.versions[table.table][-1].until = None
        if table.status == "merged":
            for names in (self.meddled, self.unfinished, self.lost):
                names.discard(table.table)
        elif table.error:
            self.unfinished.add(table.table)

    def restore(self) -> None:
        """Put a table back to a version that it had."""
        if not self.versions:
            return
        name = self.chance.choice(sorted(self.versions))
        version = self.chance.choice(self.versions[name][-9:])
        until = version.until or self.clock.now
        self.meddled.add(name)
        self.target.tables[name] = deepcopy(version.table)
        self._note(name, version.table, until)
        self.restored[name] = until
        self._note_lost()

    def merged_before(self, horizon: datetime) -> tuple[datetime, int]:
        """Return when the last merge before a time was, or else the first, and how far it got."""
        before = [merge for merge in self.merges if merge[0] <= horizon]
        return before[-1] if before else self.merges[0]

    def waits(self, horizon: datetime) -> bool:
        """Whether a table waited for a manifest, at a time or now."""
        folder = progress_folder("delta", self.name, TableRules())
        records = [*read_records(self.files, folder)]
        then = [each for each in records if published_at(each.id) <= horizon]
        return any(
            table.pending and table.hold is None
            for record in (*records[:1], *(then[:1] or records[-1:]))
            for table in record.tables.values()
        )

    def note_cleanup(self) -> None:
        """Note which restored tables may lack what they need."""
        self.horizon = self.clock.now - GRACE
        self._note_lost()

    def _note_lost(self) -> None:
        self.lost |= {name for name, until in self.restored.items() if until < self.horizon}


class Years:
    """The source, its lakes, and what happens."""

    def __init__(self, seed: int) -> None:
        self.seed, self.chance, self.clock = seed, random.Random(seed), Clock()
        self.store = TimedStore(self.clock)
        self.files = StagedFiles(self.store)
        self.source = StagedInMemory(self.files)
        self.staged_at: dict[int, datetime] = {}
        self.stops: dict[int, int] = {}
        self.checkpoint = 0
        self.lakes = [
            Consumer(seed, name=name, pace=pace, clock=self.clock, staged=self.source)
            for name, pace in (("quick", 1), ("daily", 4), ("weekly", 28))
        ]
        self.owners = [
            Owner(self.source, self.chance, name, quiet=name == "u") for name in ("t", "u")
        ]
        self.reading: dict[str, TimedSnapshot] = {}
        self.counted: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.kept: list[int] = []

    def run(self, days: int) -> Counter[str]:
        """Return what was counted."""
        for step in range(int(timedelta(days=days) / STEP)):
            self.clock.now += STEP
            self.write()
            for lake in self.lakes:
                if lake.source.sequence and step % lake.pace == 0:
                    if self.chance.random() < 0.1:
                        lake.restore()
                    lake.merge()
                    lake.compare()
            if self.chance.random() < 0.2:
                self.litter()
            if self.source.sequence and self.chance.random() < 0.15:
                self.clean()
        self.settle()
        for lake in self.lakes:
            self.counted += lake.compared
        return self.counted

    def write(self) -> None:
        """Let the source be written to, and stage that."""
        for _ in range(self.chance.randint(0, 3)):
            owner = self.chance.choice(self.owners)
            if owner.exists and len(owner.table.types) > 6:
                owner.drop()
            owner.step()
        self.read_on()
        if self.chance.random() < 0.7:
            self.stage()

    def stage(self) -> None:
        manifest = self.source.make_manifest()
        self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
        self.staged_at[manifest.sequence] = self.clock.now
        self.stops[manifest.sequence] = manifest.stop.offset
        if self.chance.random() < 0.8:
            self.checkpoint = manifest.sequence

    def read_on(self) -> None:
        """Begin, or continue, snapshots of tables that wait for one, or fail."""
        waiting = {name for lake in self.lakes for name in lake.named}
        for owner in self.owners:
            name = ".".join(owner.table.name)
            wanted = name in waiting or self.chance.random() < 0.01
            if wanted and owner.exists and owner.table.key and name not in self.reading:
                self.reading[name] = TimedSnapshot(owner.table, self.clock)
            snapshot = self.reading.get(name)
            if snapshot is not None and self.chance.random() < 0.5 and snapshot.step(owner):
                del self.reading[name]

    def litter(self) -> None:
        """Leave what killed tasks leave, and the files of tasks that ended."""
        number = self.chance.randint(1, max(1, self.source.sequence))
        for path in (
            f"shop/t/{number:016d}-{self.chance.randrange(10**6):06d}-0123456789ab.parquet",
            f"shop/t/.{number:016d}.{uuid4().hex}",
            f"_reports/dag/{uuid4().hex}/merge/0.json",
            f"backlogs/{number:016d}-0123456789ab/plan.json",
        ):
            self.files.write(path, b"1")

    def clean(self) -> Cleanup:
        for lake in self.lakes:
            lake.note_cleanup()
        plan = plan_cleanup(
            self.store, SOURCE, checkpoint=self.checkpoint, grace=GRACE, now=self.clock.now
        )
        clean_up(self.store, SOURCE, plan)
        again = plan_cleanup(
            self.store, SOURCE, checkpoint=self.checkpoint, grace=GRACE, now=self.clock.now
        )
        assert (again.removals, dict(again.copies)) == ((), {}), (self.seed, again)
        expected = self.expect_first()
        if expected is not None:
            assert plan.first == expected, (
                self.seed,
                self.clock.now,
                plan.first,
                expected,
                plan.needs,
            )
            self.counted["exact"] += 1
        self.counted["cleanups"] += 1
        self.counted["removed"] += len(plan.removals)
        self.measure()
        return plan

    def expect_first(self) -> int | None:
        """Return the first manifest that is needed, by what happened; None if a table waits."""
        horizon = self.clock.now - GRACE
        if any(lake.waits(horizon) for lake in self.lakes):
            return None
        present = [n for n in self.staged_at if self.files.size(f"manifests/{n:016d}.json")]
        needed = [max(present), max(self.checkpoint, min(present))]
        needed += [number for number in present if self.staged_at[number] > horizon]
        seen = [lake.merged_before(horizon) for lake in self.lakes if lake.merges]
        needed += [through + 1 for _, through in seen]
        for snapshot in self.newest_snapshots():
            committed, high = datetime.fromisoformat(snapshot.created_at), snapshot.high.offset
            if all(at >= committed and self.stops[through] >= high for at, through in seen):
                continue
            later = (n for n in present if self.stops[n] > snapshot.low.offset)
            needed.append(min(later, default=max(present)))
        return max(min(needed), min(present))

    def newest_snapshots(self) -> list[SnapshotManifest]:
        snapshots = Snapshots(self.files)
        return [snapshots.read(snapshot_id) for snapshot_id in snapshots.ids()]

    def measure(self) -> None:
        """Note how many files there are after a cleanup."""
        paths = [each.key.split("/", 1)[1] for each in self.store.find(SOURCE)]
        kinds = Counter(
            "manifests" if "manifests/0" in path else path.split("/")[0] for path in paths
        )
        self.kept.append(len(paths))
        for kind, count in kinds.items():
            self.most[kind] = max(self.most[kind], count)

    def settle(self) -> None:
        """Let all lakes catch up, and the grace period pass: nothing old is left."""
        for lake in self.lakes:
            lake.target.interrupt = lambda: None
        is_settled = False
        while not is_settled:
            self.clock.now += STEP
            self.write()
            self.stage()
            for lake in self.lakes:
                lake.merge()
                lake.compare()
            waits = any(lake.waits(self.clock.now) for lake in self.lakes)
            is_settled = not waits and not self.reading
        self.clock.now += GRACE + STEP
        self.stage()
        for lake in self.lakes:
            lake.merge()
        self.checkpoint = newest = self.source.sequence
        plan = self.clean()
        paths = {each.key.removeprefix(f"{SOURCE}/") for each in self.store.find(SOURCE)}
        left = {path for path in paths if not path.startswith(("_merged/", "schemas/"))}
        stem = f"{newest:016d}"
        old = {path for path in left if stem not in path}
        assert old == set(), (self.seed, old, plan.needs)
        records = [path for path in paths if path.startswith("_merged/")]
        assert len(records) == 2 * len(self.lakes), (self.seed, records)


def main() -> int:
    """Run the years; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for seed in range(given.seed, given.seed + given.seeds):
        began, years = time.monotonic(), Years(seed)
        counted = years.run(given.days)
        seconds = time.monotonic() - began
        print(f"seed {seed}: {given.days} days in {seconds:.0f} s: {dict(counted)}")
        print(f"    the most files after a cleanup: {dict(years.most)}")
        size = len(years.kept) // 4
        means = (
            [sum(years.kept[n * size : (n + 1) * size]) // size for n in range(4)] if size else []
        )
        print(f"    files after a cleanup, on average in each quarter: {means}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
