"""Merges that follow what is staged: of all manifests, in one job, reported as one merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.spark.job.options import MergeOptions, Report
from airflow_provider_binlog.spark.merge.follow import follow
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
        self.pace = 0.0

    def table(self, name: str) -> Table:
        return self.source.create("shop", name, {"id": INT, "note": TEXT}, ("id",))

    def commit(self) -> None:
        manifest = self.source.make_manifest()
        self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())

    def merge(self, finished: Finished) -> Report:
        self.merges += 1
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        options = MergeOptions("", "shop", "delta", "lake", threads=1)
        return merge_into(lambda: lake, self.files, options, finished=finished)

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
        return sorted(self.target.tables[name].read(), key=lambda row: str(row["id"]))


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


def test_a_table_that_fails_is_named_at_once_and_merged_by_the_next_merge() -> None:
    job = Job()
    table, other = job.table("t"), job.table("u")
    for each in (table, other):
        each.insert(id=1, note="new")
    job.commit()
    job.follow(seconds=0)
    failing = {job.target.locate(table.name)}
    commit = job.target.commit

    def refuse(change: object) -> object:
        if change.table in failing:  # type: ignore[attr-defined]
            raise StagingError("a part is not there")
        return commit(change)  # type: ignore[arg-type]

    job.target.commit = refuse  # type: ignore[assignment,method-assign]
    for each in (table, other):
        each.insert(id=2, note="new")
    job.commit()

    def mend() -> None:
        failing.clear()
        other.insert(id=3, note="new")
        job.commit()

    job.events = [mend]
    report = job.follow(seconds=10)

    assert [line for line in job.lines if "a part is not there" in line]
    assert not report.failed
    assert job.rows(table) == table.values
    assert job.rows(other) == other.values


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
