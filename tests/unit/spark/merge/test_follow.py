"""Merges that follow what is staged: of all manifests, in one job, reported as one merge."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import StagingError, StoreUnavailableError
from airflow_provider_binlog.spark.job.options import MergeOptions, Report, TableReport
from airflow_provider_binlog.spark.merge.follow import follow
from airflow_provider_binlog.spark.merge.progress import Seen
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from tests.support.memory_target import MemoryTarget
from tests.unit.spark.history import Table
from tests.unit.spark.lake_in_memory import MemoryRows, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.staged_changes import INT, TEXT

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.merge.run import Finished


class Job:
    """A merge in memory, whose clock moves while it waits, and a script of what happens then."""

    def __init__(self, *events: Callable[[], None]) -> None:
        self.files = Files()
        self.source = StagedInMemory(self.files)
        self.target = MemoryTarget(lambda: None)
        self.events = list(events)
        self.lines: list[str] = []
        self.now = 0.0
        self.merges = 0
        self.tried: list[list[str]] = []
        self.seen = Seen()
        self.pace = self.merge_seconds = 0.0

    def table(self, name: str) -> Table:
        return self.source.create("shop", name, {"id": INT, "note": TEXT}, ("id",))

    def commit(self) -> None:
        manifest = self.source.make_manifest()
        self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())

    def merge(self, finished: Finished, without: Collection[str] = ()) -> Report:
        self.merges += 1
        self.now += self.merge_seconds
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        options = MergeOptions("", "shop", "delta", "lake", threads=1, without=frozenset(without))
        report = merge_into(lambda: lake, self.files, options, finished=finished, seen=self.seen)
        self.tried.append([table.table for table in report.tables])
        return report

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, self.pace)
        if self.events:
            self.events.pop(0)()

    def follow(self, seconds: float) -> Report:
        return follow(
            self.merge,
            self.files,
            seconds=seconds,
            show=self.lines.append,
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def rows(self, table: Table) -> list[dict[str, object]]:
        name = self.target.locate(table.name)
        return sorted(self.target.tables[name].read(), key=lambda row: int(str(row["id"])))


def test_each_manifest_is_merged_as_it_is_committed() -> None:
    job = Job()
    table = job.table("t")

    def add(number: int) -> Callable[[], None]:
        def event() -> None:
            table.insert(id=number, note="new")
            job.commit()

        return event

    add(1)()
    job.events = [add(2), lambda: None, add(3)]
    report = job.follow(seconds=10)

    assert job.rows(table) == table.values
    assert job.merges == 3
    assert report.through == 3
    (merged,) = report.tables
    assert (merged.status, merged.rows["inserted"]) == ("merged", 3)


def test_what_is_staged_at_the_end_is_merged_too() -> None:
    job = Job()
    table = job.table("t")
    table.insert(id=1, note="new")
    job.commit()

    report = job.follow(seconds=0)

    assert (job.merges, report.through) == (1, 1)
    assert job.rows(table) == table.values


class Broken(Job):
    """A job with two tables, one of which fails until it is mended."""

    def __init__(self) -> None:
        super().__init__()
        self.broken, self.other = self.table("t"), self.table("u")
        self.add(self.broken, self.other)
        self.follow(seconds=0)
        self.tried.clear()
        self.failing = {self.target.locate(self.broken.name)}
        commit = self.target.commit

        def refuse(change: object) -> object:
            if change.table in self.failing:  # type: ignore[attr-defined]
                raise StagingError("a part is not there")
            return commit(change)  # type: ignore[arg-type]

        self.target.commit = refuse  # type: ignore[assignment,method-assign]
        self.add(self.broken, self.other)

    def add(self, *tables: Table) -> None:
        for table in tables:
            table.insert(id=len(table.values) + 1, note="new")
        self.commit()


def test_a_table_that_fails_is_named_at_once_and_tried_again_while_nothing_is_staged() -> None:
    job = Broken()
    job.events = [job.failing.clear]

    report = job.follow(seconds=10)

    assert [line for line in job.lines if "a part is not there" in line]
    assert job.tried == [["shop.t", "shop.u"], ["shop.t"]]
    assert not report.failed
    assert job.rows(job.broken) == job.broken.values
    assert job.rows(job.other) == job.other.values


def test_a_table_that_stays_broken_is_left_out_of_most_merges_and_named_once() -> None:
    job = Broken()
    job.events, job.pace = [lambda: job.add(job.other)] * 200, 1

    report = job.follow(seconds=200)

    tries = [number for number, tables in enumerate(job.tried) if "shop.t" in tables]
    assert len(job.tried) > 200
    # After 5, 15, 35, 75 and 155 seconds, and at the end.
    assert len(tries) == 7
    assert tries[-1] == len(job.tried) - 1
    assert len([line for line in job.lines if line.startswith("shop.t")]) == 1
    assert [table.table for table in report.tables if table.error] == ["shop.t"]
    assert job.rows(job.other) == job.other.values
    job.failing.clear()
    job.follow(seconds=0)
    assert job.rows(job.broken) == job.broken.values


def test_it_ends_in_time_while_more_is_staged_than_is_merged() -> None:
    job = Job()
    table = job.table("t")
    merge = job.merge

    def stage_meanwhile(finished: Finished, without: Collection[str] = ()) -> Report:
        report = merge(finished, without)
        table.insert(id=len(table.values) + 1, note="new")
        job.commit()
        return report

    job.merge, job.merge_seconds = stage_meanwhile, 7  # type: ignore[method-assign]
    job.follow(seconds=30)

    # One that begins after the time merges what was staged until then.
    assert job.merges == 6
    assert len(job.rows(table)) == 5


def test_a_store_that_fails_for_some_seconds_is_tried_again() -> None:
    job = Job()
    table, other = job.table("t"), job.table("u")
    write, until, failures = job.files.write, [0.0], [0]

    def fail(path: str, data: bytes) -> None:
        if job.now < until[0]:
            failures[0] += 1
            raise StoreUnavailableError("the store failed", file=path)
        write(path, data)

    def stage() -> None:
        for changed in (table, other):
            changed.insert(id=len(changed.values) + 1, note="new")
        job.commit()
        until[0] = job.now + 50

    # A merge that took longer than the store may fail is no reason not to wait.
    job.files.write, job.events = fail, [stage, lambda: None]  # type: ignore[method-assign]
    job.pace, job.merge_seconds = 5, 3
    report = job.follow(seconds=100)
    assert failures[0] > 3
    assert not report.failed
    assert job.rows(table) == table.values
    assert job.rows(other) == other.values

    stage()
    until[0] = job.now + 100
    job.events = [lambda: None]
    with pytest.raises(StoreUnavailableError):
        job.follow(seconds=100)


def test_a_failed_table_that_another_merge_has_merged_is_not_tried_again_and_again() -> None:
    job = Broken()

    def mend() -> None:
        job.failing.clear()
        seen, job.seen = job.seen, Seen()
        job.merge(lambda *_: None)
        job.seen = seen

    job.events = [mend]
    report = job.follow(seconds=100)

    assert job.merges < 10
    assert not report.failed
    assert job.rows(job.broken) == job.broken.values


def test_what_an_earlier_merge_reported_stays_in_the_report() -> None:
    job = Job()
    merges = [
        [TableReport("shop.t", "t", missing_rows=2, layout="other", version=7)],
        [TableReport("shop.t", "t", is_merged=True, missing_rows=3)],
        [TableReport("shop.t", "t"), TableReport("snapshot x", "", error="cut")],
        [TableReport("shop.t", "t")],
    ]
    reports = (Report("shop", through, tables, 0) for through, tables in enumerate(merges, 1))
    for number in range(2, 5):
        job.files.write(f"manifests/{number:016d}.json", b"")
    job.merge = lambda *_: next(reports)  # type: ignore[method-assign]

    (table,) = job.follow(seconds=0.1).tables

    assert (table.missing_rows, table.layout, table.version) == (5, "other", 7)
    assert table.status == "merged"


def test_a_line_a_minute_says_how_long_after_their_commit_changes_are_in_the_lake() -> None:
    job = Job()
    table = job.table("t")

    def add() -> None:
        table.insert(id=len(table.values) + 1, note="new")
        job.commit()

    job.events, job.pace = [add] * 13, 10
    job.follow(seconds=130)

    lines = [line for line in job.lines if "after their commit" in line]
    assert len(lines) == 2
    assert "6 rows in 6 merges" in lines[1]
