"""Merges of which something fails: the next one merges what they left, and nothing is passed by.

All of the merge is the real one but for Spark: files, rows and lake tables are in memory.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import StoreUnavailableError
from airflow_provider_binlog.spark.job.options import MergeOptions, TableReport
from airflow_provider_binlog.spark.merge import run
from airflow_provider_binlog.spark.merge.table_merge import Lake
from airflow_provider_binlog.spark.target.state import NOTHING, Contents, TargetState
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.support.memory_target import MemoryTarget
from tests.unit.spark.lake_in_memory import MemoryRows, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.staged_changes import INT

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.protocol import Commit


class Shop:
    """A source with one table, and a lake."""

    def __init__(self) -> None:
        self.files = Files()
        self.source = StagedInMemory(self.files)
        self.target = MemoryTarget(lambda: None)
        self.table = self.source.create("shop", "t", {"id": INT}, ("id",))

    def stage(self, *ids: int) -> None:
        """Stage a manifest with these rows."""
        for id_ in ids:
            self.table.insert(id=id_)
        manifest = self.source.make_manifest()
        self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())

    def merge(self, **options: Any) -> TableReport:
        """Merge what is new; return the table's report."""
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        chosen = MergeOptions("", "shop", "delta", "lake", threads=1, **options)
        (report,) = run.merge_into(lambda: lake, self.files, chosen).tables
        return report

    def check(self) -> None:
        """Compare the lake table with the source's."""
        rows = self.target.tables[self.target.locate(self.table.name)].read()
        assert sorted(row["id"] for row in rows) == [row["id"] for row in self.table.values]


@pytest.fixture
def shop() -> Shop:
    """A source whose first row is merged, and whose second one is staged."""
    shop = Shop()
    shop.stage(1)
    shop.merge()
    shop.stage(2)
    return shop


def fail(*_: object, **__: object) -> Any:
    raise StoreUnavailableError("the store failed")


@pytest.mark.parametrize("again", [False, True])
def test_what_a_table_misses_that_could_not_be_planned_is_merged_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run, "find_reload", fail)
        for _ in range(1 + again):
            assert shop.merge().retryable
            shop.stage(*[row["id"] + 10 for row in shop.table.values][-1:])
    shop.stage(90)

    assert shop.merge().status == "merged"
    shop.check()


def test_what_wrong_options_kept_is_merged_once_they_are_right(shop: Shop) -> None:
    wrong = TableRules({"*": TableOptions(mode="history"), "shop.t": TableOptions(deletes="soft")})

    assert shop.merge(table_options=wrong).error is not None
    shop.stage(3)
    shop.merge()

    shop.check()


def test_a_restored_table_misses_nothing_after_its_records_were_unreadable(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = deepcopy(shop.target.tables)
    shop.merge()
    shop.stage(3)
    shop.merge()
    shop.target.tables.update(restored)
    shop.stage(4)
    with monkeypatch.context() as patch:
        patch.setattr(run, "read_records", fail)
        assert shop.merge().retryable

    shop.merge()

    shop.check()


def test_a_table_to_which_another_merge_commits_meanwhile_is_left_there(shop: Shop) -> None:
    """The second commit of a range with a TRUNCATE would be built on what nobody knows."""
    options = {"table_options": TableRules({"*": TableOptions(mode="history")})}
    other = Shop()
    other.stage(1)
    other.merge(**options)
    other.table.insert(id=2)
    other.table.truncate()
    other.stage(3)
    read, commit = other.target.read_state, other.target.commit
    committed: list[object] = []

    def read_state(table: str) -> TargetState | None:
        state = read(table)
        if state is None or not committed:
            return state
        return replace(state, contents=Contents(NOTHING), unknown="two merges committed to it")

    def commit_first(change: Any) -> Commit | None:
        done = commit(change)
        committed.append(change)
        return done

    other.target.read_state = read_state  # type: ignore[method-assign]
    other.target.commit = commit_first  # type: ignore[method-assign]

    report = other.merge(**options)

    assert len(committed) == 1
    assert "two merges committed to it" in report.reason
