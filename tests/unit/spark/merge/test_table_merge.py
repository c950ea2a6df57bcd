"""The manifests that the tables of a merge need, and the rows that a renamed one takes along."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ManifestError, TargetConflictError
from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.merge.lake_table import StagedLog
from airflow_provider_binlog.spark.merge.progress import Progress
from airflow_provider_binlog.spark.merge.table_merge import (
    Lake,
    copy_rows,
    find_old_table,
)
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.modes import CURRENT
from airflow_provider_binlog.spark.target.properties import Owner
from airflow_provider_binlog.spark.target.protocol import TableChange, WholeRows
from airflow_provider_binlog.spark.target.state import (
    CHANGES_ONLY,
    FIELDS,
    TABLE_ID,
    UNSEEN,
    Contents,
    Mark,
    TargetState,
)
from airflow_provider_binlog.table_options import TableOptions
from tests.support.memory_target import MemoryTarget, SourceRow
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.memory_files import Files
from tests.unit.spark.plan.table_plans import ID_N, lake
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName


NEW: TableName = ("shop", "new")
RENAMED = manifest(4, table(name=NEW), statements=[statement(10, RenameTable(ORDERS, NAME, NEW))])


class CountingFiles(Files):
    """Files in memory, and what was read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.reads.append(path)
        return super().read(path)


def stage(*numbers: int) -> CountingFiles:
    files = CountingFiles()
    for each in numbers:
        files.write(f"manifests/{each:016d}.json", manifest(each).encode())
    return files


def test_an_older_manifest_is_read_once_for_all_tables() -> None:
    files = stage(1, 2, 3)
    log = StagedLog(files, TableLog([manifest(4), manifest(5)]), Progress(since=4), {2, 3, 4, 5})

    for _ in range(3):
        numbers = [each.sequence for each in log.newest_first()]
        assert numbers == [5, 4, 3, 2]
        assert [each.sequence for each in log.since(1).manifests] == [1, 2, 3, 4, 5]
        assert log.since(2).first == 2
        assert log.since(4) is log.newest

    assert sorted(files.reads) == [f"manifests/{each:016d}.json" for each in (1, 2, 3)]


def test_a_missing_manifest_is_refused_for_each_table_that_needs_it() -> None:
    log = StagedLog(stage(2), TableLog([]), Progress(since=3), {2})

    for _ in range(2):
        with pytest.raises(ManifestError, match="a manifest is missing"):
            log.since(1)
    assert log.since(2).last == 2


def find(state: TargetState, **options: Any) -> tuple[TableName, TargetState] | None:
    tables: Any = SimpleNamespace(locate=".".join, read_state={"shop.orders": state}.get)
    return find_old_table(tables, NEW, None, TableLog([RENAMED]), TableOptions(**options))


def test_a_table_that_was_loaded_and_never_logged_takes_its_rows_along() -> None:
    unseen = lake(ID_N).properties | {TABLE_ID: UNSEEN, FIELDS: "{}"}
    found = find(replace(lake(ID_N), properties=unseen, contents=Contents(Mark(3), UNSEEN)))

    assert found is not None
    assert found[1].table == ORDERS
    assert find(replace(lake(ID_N), contents=Contents(Mark(3), "another"))) is None


def test_a_table_whose_new_name_has_another_mode_is_not_copied() -> None:
    whole = lake(ID_N)

    assert find(whole, deletes="hard") is not None
    assert find(whole, mode="history") is None
    assert find(whole, deletes="soft") is None


def test_a_table_that_lost_a_column_is_not_copied() -> None:
    whole = lake(ID_N)
    without = {"id": "c1"}

    assert find(whole) is not None
    assert find(replace(whole, columns={"id": "int"}, column_ids=without)) is None


@pytest.fixture
def target() -> MemoryTarget:
    return MemoryTarget()


def load(target: MemoryTarget, lacks: str = "") -> TargetState:
    """Load the lake table of the old name."""
    rows = WholeRows([SourceRow({"id": 1, "n": 10}), SourceRow({"id": 2, "n": 20})])
    change = TableChange(
        table="shop.orders",
        owner=Owner("shop", IDENTITY, NAME),
        before=None,
        mark=Mark(3),
        stop="",
        columns={"id": "int", "n": "int"},
        key=("id",),
        evolution=Evolution(fields={1: "id", 2: "n"}),
        mode=CURRENT,
        rows=rows,
        follows=ORDERS,
        lacks=lacks,
    )
    target.commit(change)
    old = target.read_state("shop.orders")
    assert old is not None
    return old


def copy(target: MemoryTarget, old: TargetState, before: TargetState | None = None) -> TargetState:
    made: Any = SimpleNamespace(
        copy=lambda name, *_, **__: [SourceRow(row) for row in target.tables[name].read()]
    )
    owner = Owner("shop", IDENTITY, NEW)
    return copy_rows(Lake(target, made), "shop.orders", old, owner, "shop.new", before=before)


@pytest.mark.parametrize("lacks", ["", CHANGES_ONLY])
def test_the_new_table_has_what_the_old_one_has_and_lacks_what_that_lacks(
    target: MemoryTarget, lacks: str
) -> None:
    old = load(target, lacks)

    copied = copy(target, old)

    assert target.tables["shop.new"].read() == target.tables["shop.orders"].read()
    assert (copied.applied, copied.table, copied.key) == (Mark(3), ORDERS, ("id",))
    assert (copied.fields, copied.lacks_rows) == (old.fields, bool(lacks))


def test_a_copy_that_was_killed_before_its_rows_is_repeated(target: MemoryTarget) -> None:
    old = load(target)

    def die() -> None:
        raise RuntimeError("killed")

    target.interrupt = die
    with pytest.raises(RuntimeError):
        copy(target, old)
    target.interrupt = lambda: None
    before = target.read_state("shop.new")
    assert before is not None
    assert before.is_empty

    assert copy(target, old, before).applied == Mark(3)
    assert len(target.tables["shop.new"].rows) == 2


def test_an_old_table_that_changed_meanwhile_is_a_conflict(target: MemoryTarget) -> None:
    old = load(target)
    target.tables["shop.orders"].contents = Contents(Mark(4), ORDERS)

    with pytest.raises(TargetConflictError):
        copy(target, old)
