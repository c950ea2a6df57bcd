"""What a cleanup removes and keeps, file by file; `test_random_merges.py` has the histories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.cleanup.lakes import forget_lake, forget_table
from airflow_provider_binlog.cleanup.removal import Cleanup, Removal, clean_up, plan_cleanup
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.merge.progress import PROGRESS, record_ids
from airflow_provider_binlog.staging.paths import list_manifests, read_manifest
from tests.soak.upkeep import SOURCE, Clock, Consumer, StagedFiles, TimedSnapshot, TimedStore
from tests.unit.spark.lake_in_memory import StagedInMemory
from tests.unit.spark.staged_changes import INT, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.unit.spark.history import Table

DAY, WEEK = timedelta(days=1), timedelta(days=7)


class Shop:
    """A table, of which a manifest is staged every day, and the lakes that merge it."""

    def __init__(self, *lakes: str) -> None:
        self.clock = Clock()
        self.store = TimedStore(self.clock)
        self.files = StagedFiles(self.store)
        self.source = StagedInMemory(self.files)
        self.lakes = [
            Consumer(0, name=name, clock=self.clock, staged=self.source) for name in lakes
        ]
        for lake in self.lakes:
            lake.target.interrupt = lambda: None
        self.table: Table = self.source.create("shop", "a", {"id": INT, "note": TEXT}, ("id",))

    def stage(self, days: int = 1, *, merges: Iterable[Consumer] = ()) -> None:
        """Stage a manifest a day, and merge it."""
        for _ in range(days):
            self.clock.now += DAY
            self.table.insert(id=len(self.table.rows), note="x")
            manifest = self.source.make_manifest()
            self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
            for lake in merges:
                lake.merge()

    def plan(self, *, checkpoint: int | None = None) -> Cleanup:
        return plan_cleanup(
            self.store, SOURCE, checkpoint=checkpoint, grace=WEEK, now=self.clock.now
        )

    def clean(self) -> Cleanup:
        plan = self.plan()
        clean_up(self.store, SOURCE, plan)
        return plan

    def paths(self) -> set[str]:
        return {each.key.removeprefix(f"{SOURCE}/") for each in self.store.find(SOURCE)}

    def manifests(self) -> list[int]:
        return list_manifests(self.files)

    def check(self) -> None:
        """Compare every lake with the source."""
        for lake in self.lakes:
            lake.merge()
            assert [row["id"] for row in lake.target.tables["shop.a"].read()] == [
                row["id"] for row in self.table.values
            ]


def test_what_all_lakes_could_lack_after_a_restore_is_kept() -> None:
    shop = Shop("quick", "slow")
    quick, slow = shop.lakes
    shop.stage(10, merges=[quick, slow])
    shop.stage(10, merges=[quick])

    plan = shop.clean()

    # Up to which the slow one was merged, a week ago as today.
    (need,) = plan.needs
    assert plan.first == 11
    assert need.reason.endswith("(delta slow) was merged up to 10 at 2026-01-11 00:00")
    assert shop.manifests() == list(range(11, 21))
    shop.check()

    # Merged by now, it can still be restored to what it was when the grace period began.
    assert shop.plan().first == 11
    slow.target.tables["shop.a"] = slow.versions["shop.a"][9].table
    shop.stage()
    shop.check()


def test_a_lake_that_keeps_pace_leaves_the_grace_period() -> None:
    shop = Shop("quick")
    shop.stage(20, merges=shop.lakes)

    assert shop.clean().first == 14
    assert shop.manifests() == list(range(14, 21))
    assert {path for path in shop.paths() if path.startswith("shop/")} == {
        f"shop/a/{number:016d}-000000.parquet" for number in range(14, 21)
    }

    # To the oldest version of the grace period: the one that the merge of a week ago left.
    lake = shop.lakes[0]
    lake.target.tables["shop.a"] = lake.versions["shop.a"][12].table
    shop.stage()
    shop.check()


@pytest.mark.parametrize("merged", [False, True])
def test_nothing_is_removed_before_a_merge_has_published(*, merged: bool) -> None:
    shop = Shop("quick")
    shop.stage(20, merges=shop.lakes if merged else ())
    if merged:
        (lake,) = shop.store.folders(f"{SOURCE}/{PROGRESS}")
        for record in record_ids(shop.files, f"{PROGRESS}/{lake}"):
            shop.files.write(f"{PROGRESS}/{lake}/{record}.json", b"{}")

    plan = shop.clean()

    assert [path for path in plan.removals if "manifests/" in path.path] == []
    assert shop.manifests() == list(range(1, 21))
    says = "has no readable record" if merged else "no merge has published"
    assert any(says in need.reason for need in plan.needs)


def test_a_manifest_after_the_checkpoint_is_kept_and_so_is_the_one_that_it_covers() -> None:
    shop = Shop("quick")
    shop.stage(20, merges=shop.lakes)

    assert shop.plan(checkpoint=3).first == 3
    assert shop.plan(checkpoint=20).first == 14


def test_a_lake_or_table_that_is_not_merged_any_more_can_be_forgotten() -> None:
    shop = Shop("quick", "dropped")
    shop.stage(1, merges=shop.lakes)
    shop.stage(20, merges=shop.lakes[:1])
    (reason,) = (need.reason for need in shop.plan().needs)
    assert shop.clean().first == 2
    lake = reason.split()[1]

    with pytest.raises(ConfigurationError, match=f"lakes=.*{lake}"):
        forget_lake(shop.store, SOURCE, "another")
    forget_lake(shop.store, SOURCE, lake)

    assert shop.clean().first == 15
    # Merged again, its table waits for a reload, and says so.
    dropped = shop.lakes[1]
    dropped.lost.add("shop.a")
    dropped.merge()
    assert "shop.a" in dropped.named
    snapshot = TimedSnapshot(shop.table, shop.clock)
    snapshot.read().commit()
    shop.stage(merges=shop.lakes)
    shop.check()


def test_a_table_that_waits_is_needed_until_it_is_forgotten() -> None:
    shop = Shop("quick")
    lake = shop.lakes[0]
    shop.stage(2, merges=[lake])

    def fail() -> None:
        raise RuntimeError("killed")

    lake.target.interrupt = fail
    shop.stage(12, merges=[lake])
    lake.target.interrupt = lambda: None
    assert shop.clean().first == 3
    (id_,) = shop.store.folders(f"{SOURCE}/{PROGRESS}")

    with pytest.raises(ConfigurationError, match=r"shop\.none"):
        forget_table(shop.store, SOURCE, id_, ("shop", "none"))
    forget_table(shop.store, SOURCE, id_, ("shop", "a"))

    # What it lacked within the grace period may still be asked for.
    assert shop.clean().first == 3
    shop.clock.now = datetime.now(UTC) + WEEK
    assert shop.clean().first == 14


def test_a_cleanup_that_is_killed_leaves_whole_manifests_that_follow_each_other() -> None:
    shop = Shop("quick")
    shop.stage(20, merges=shop.lakes)
    plan = shop.plan()

    for removal in plan.removals:
        shop.store.delete([f"{SOURCE}/{removal.path}"])
        present = shop.manifests()
        assert all(after == before + 1 for before, after in pairwise(present))
        for number in present:
            for table in read_manifest(shop.files, number).tables:
                assert all(shop.files.size(part.path) for part in table.parts)

    assert shop.plan().removals == ()


def test_leavings_of_killed_tasks_are_removed_once_they_are_old() -> None:
    shop = Shop("quick")
    shop.stage(2, merges=shop.lakes)
    leavings = {
        "shop/a/0000000000000002-000007-0123456789ab.parquet",
        "shop/a/.0000000000000002.tmp",
        "_reports/dag/run/merge/0.json",
        "backlogs/0000000000000002-0123456789ab/plan.json",
        "snapshots/20260101T000000.000000Z-0123456789ab/plan.json",
    }
    # Of a range that may be committed yet, and what is nobody's of this package.
    others = {
        "shop/a/0000000000000003-000000-0123456789ab.parquet",
        "backlogs/0000000000000003-0123456789ab/plan.json",
        "_notes/mine.txt",
        "shop/notes.txt",
    }
    before = shop.paths()
    for path in leavings | others:
        shop.files.write(path, b"1")

    shop.clean()
    assert shop.paths() == before | leavings | others

    shop.clock.now += WEEK
    shop.clean()
    assert shop.paths() & (leavings | others) == others


def test_the_log_that_a_snapshot_is_replayed_over_is_kept_until_every_lake_has_read_it() -> None:
    shop = Shop("quick")
    shop.stage(3, merges=shop.lakes)
    snapshot = TimedSnapshot(shop.table, shop.clock)
    shop.stage(17, merges=shop.lakes)
    snapshot.read().commit()

    (need,) = shop.plan().needs
    assert (need.first, "may still be loaded" in need.reason) == (4, True)

    # A merge has read it when the grace period begins.
    shop.stage(8, merges=shop.lakes)
    assert shop.clean().first == 22
    assert shop.files.list("snapshots") == []
    shop.check()


def test_of_snapshots_that_are_taken_every_day_those_of_the_grace_period_are_kept() -> None:
    shop = Shop("quick", "slow")
    shop.stage(1, merges=shop.lakes)
    taken = []
    for _ in range(20):
        snapshot = TimedSnapshot(shop.table, shop.clock)
        snapshot.read().commit()
        taken.append(snapshot.id)
        shop.stage(merges=shop.lakes[:1])
    shop.clean()

    # The oldest of them is from before the grace period; the slow lake loads the newest.
    assert shop.files.list("snapshots") == [f"{id_}.json" for id_ in taken[-7:]]
    shop.check()


def test_a_grace_period_shorter_than_a_merge_may_take_is_refused() -> None:
    shop = Shop("quick")

    with pytest.raises(ConfigurationError, match="a day or longer"):
        plan_cleanup(
            shop.store, SOURCE, checkpoint=None, grace=timedelta(hours=23), now=shop.clock.now
        )


def test_it_says_what_is_removed_and_why() -> None:
    shop = Shop("quick")
    shop.stage(9, merges=shop.lakes)
    shop.files.write("_reports/dag/run/merge/0.json", b"12345")
    shop.clock.now += WEEK
    plan = shop.plan()

    assert plan.kept == ["manifest 9 is the first that is kept: it is the newest"]
    assert Removal("_reports/dag/run/merge/0.json", 5, "its task has ended") in plan.removals
    assert ("its task has ended", 1, 5) in plan.totals
    assert sum(size for _, _, size in plan.totals) == plan.bytes
