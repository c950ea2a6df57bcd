"""Which snapshot a table is reloaded from, and what keeps one waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import CreateTable, DropTable, RenameTable
from airflow_provider_binlog.snapshot_manifest import snapshot_path
from airflow_provider_binlog.spark.merge.lake_table import (
    LakeTable,
    StagedLog,
    check_named,
    cover,
    wait_for_snapshot,
)
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.spark.plan.planner import plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.reload.plan import find_reload
from airflow_provider_binlog.spark.target.state import WITHOUT_BEGINNING, Contents, Hold, Mark
from airflow_provider_binlog.staging.paths import Snapshots
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.memory_files import Files
from tests.unit.spark.plan.snapshots import HIGH, ID, snapshot
from tests.unit.spark.plan.table_plans import ID_N, NEW, lake
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Manifest

OTHER = ("shop", "other")
OLDER = ID.replace("20261122", "20261121")


def a_table(loaded: str | None = None) -> LakeTable:
    """Return a table; `loaded` is the snapshot that its lake table has, if there is one."""
    target = LakeTable("shop.orders", "t", name=NAME, is_read=True)
    if loaded is not None:
        target.state = replace(lake(ID_N), contents=Contents(Mark(3), None, loaded))
    return target


def find(
    target: LakeTable,
    *stored: Any,
    old: int = 2,
    before: Progress | None = None,
    manifests: Sequence[Manifest] = (),
    **other: Any,
) -> LakeTable:
    """Look for a reload: of four manifests the first two are old, unless `old` says otherwise."""
    manifests = manifests or [manifest(number, **other) for number in (1, 2, 3, 4)]
    files = Files()
    for each in manifests:
        files.write(f"manifests/{each.sequence:016d}.json", each.encode())
    for each in stored:
        files.write(snapshot_path(each.id), each.encode())
    known = (before or Progress()).read(manifests[:old])
    staged = StagedLog(files, TableLog(manifests[old:]), known, {1, 2, 3, 4})
    find_reload(target, staged, Snapshots(files))
    return target


def staged_log(*manifests: Manifest) -> StagedLog:
    return StagedLog(Files(), TableLog(manifests), Progress(), set())


@pytest.mark.parametrize("old", [0, 2, 4])
def test_the_newest_snapshot_counts_whichever_manifests_are_new(old: int) -> None:
    found = find(a_table(OLDER), snapshot(), snapshot(id=OLDER), old=old)

    assert found.reload is not None
    assert (found.reload.snapshot.id, found.reload.first, found.first_needed) == (ID, 2, 2)


def test_a_snapshot_that_was_loaded_is_processed_snapshot() -> None:
    found = find(a_table(ID), snapshot())

    assert (found.reload, found.processed_snapshot, found.unloaded) == (None, ID, "")
    assert find(a_table(), snapshot(database="shop", table="orders")).reload is not None
    assert find(a_table()).processed_snapshot is None


def test_a_snapshot_that_is_settled_counts_again_for_a_lake_table_that_was_put_back() -> None:
    tables = {NAME: TableProgress(Mark(4))}
    known = Progress(snapshots=frozenset({ID}), tables=tables)

    assert find(a_table(OLDER), snapshot(), before=known).reload is not None
    live = replace(known, tables={NAME: TableProgress(Mark(3))})
    assert find(a_table(OLDER), snapshot(), before=live).reload is None
    assert find(a_table(), snapshot(), before=live).reload is not None


def test_a_restored_table_whose_reload_is_killed_needs_what_it_lacked_without_it() -> None:
    """Its snapshot is not loaded again: by then the merges know that the table was restored."""
    known = Progress(
        snapshots=frozenset({ID}), tables={NAME: TableProgress(Mark(4), loaded=ID, version=8)}
    )
    target = a_table(OLDER)
    target.state = replace(lake(ID_N), contents=Contents(Mark(1), None, OLDER))
    found = find(target, snapshot(low=Position(LOG, 4001)), before=known, old=4)
    assert found.reload is not None
    assert found.reload.first == 4
    found.fail(RuntimeError("killed"))

    progress = found.progress(known.tables[NAME])

    assert (progress.mark, progress.first, progress.pending) == (Mark(1), 2, True)
    again = replace(known, tables={NAME: progress})
    assert again.first_needed(NAME, Mark(1)) == 2


def test_the_log_has_to_reach_the_snapshot() -> None:
    found = find(a_table(), snapshot(high=Position(LOG, 5001)))

    assert found.reload is None
    assert found.unloaded == (
        f"snapshot {ID} is not loaded yet: the staged log has not reached binlog.000001:5001 yet"
    )
    log = staged_log(manifest(4, table([(4010, 4020)], created=4)))
    for state, unloaded, staged, waits in (
        (None, found.unloaded, staged_log(), True),
        (None, found.unloaded, log, False),
        (a_table(OLDER).state, found.unloaded, staged_log(), False),
        (None, "", staged_log(), False),
    ):
        waiting = a_table()
        waiting.state, waiting.unloaded = state, unloaded
        wait_for_snapshot(waiting, staged)
        assert waiting.hold == (Hold("loading", found.unloaded) if waits else None)


def test_a_snapshot_whose_server_was_left_before_its_end_is_refused() -> None:
    """On MariaDB, where a snapshot of the same server has no GTIDs; manifests have them."""
    promoted = replace(IDENTITY, server="promoted")
    servers = {1: IDENTITY, 2: IDENTITY, 3: IDENTITY, 4: promoted}

    def found(high: int) -> LakeTable:
        log = [replace(manifest(number), identity=servers[number]) for number in (1, 2, 3, 4)]
        log[2] = replace(log[2], stop=replace(log[2].stop, gtid="0-1-9"))
        log[3] = replace(log[3], start=replace(log[3].start, gtid="0-1-9"))
        return find(a_table(), snapshot(high=Position(LOG, high)), manifests=log)

    never = found(4500)
    assert (never.reload, "take the snapshot again" in never.unloaded) == (None, True)
    reached = found(2500)
    assert reached.reload is not None
    assert reached.reload.first == 2


@pytest.mark.parametrize("rows", [(), ((2700, 2710),)], ids=["no rows", "rows"])
def test_a_snapshot_of_a_table_that_has_its_name_no_more_is_settled(
    rows: tuple[tuple[int, int], ...],
) -> None:
    """What the name stands for then is merged from its creation on, or waits, and is named."""
    dropped, new = table(dropped=True), table(rows, id_=NEW, created=2)
    created = CreateTable(NEW, NAME)
    swapped = [RenameTable(ORDERS, NAME, OTHER), RenameTable(NEW, OTHER, NAME)]
    for entries, actions in (
        ((dropped, new), [DropTable(ORDERS, NAME), created]),
        ((table(rows, id_=NEW),), swapped),
    ):
        log = [
            manifest(1),
            manifest(2, *entries, statements=[statement(2600, *actions)]),
            *map(manifest, (3, 4)),
        ]
        target = find(a_table(), snapshot(), manifests=log, old=0)
        assert (target.reload, target.processed_snapshot) == (None, ID)
        assert "dropped or renamed after it" in target.snapshot

        staged = staged_log(*log)
        cover(target, staged, initial_load="snapshot")
        if target.is_active:
            options, first = TableOptions(), target.first_needed
            target.take(plan_table(NAME, staged.newest, first=first, state=None, options=options))
        check_named([target], staged)
        assert target.error is None
        is_whole = actions[-1] is created
        assert (target.hold is None) == is_whole
        assert target.progress(TableProgress()).pending != is_whole


def test_a_table_that_exists_is_merged_or_named_at_the_end_of_a_merge() -> None:
    log = [manifest(4, table([(10, 14)]))]
    lost, held, failed = (a_table() for _ in range(3))
    held.hold, merged = WITHOUT_BEGINNING, a_table(OLDER)
    failed.fail(ManifestError("why"))

    check_named([lost, held, failed, merged], staged_log(*log))

    assert "a defect of the merge" in str(lost.error)
    assert (held.error, merged.error) == (None, None)
    dropped, uncaptured = a_table(), a_table()
    ended = [
        manifest(4, table(dropped=True), statements=[statement(4100, DropTable(ORDERS, NAME))])
    ]
    check_named([dropped], staged_log(*ended))
    hidden = staged_log(*log)
    hidden.now = replace(hidden.now, globs=())
    check_named([uncaptured], hidden)
    assert (dropped.error, uncaptured.error) == (None, None)


def test_what_is_missing_after_low_is_named() -> None:
    early = find(a_table(), snapshot(low=Position(LOG, 900)))
    assert "logged from binlog.000001:900 on is not staged" in early.unloaded
    gtids = find(a_table(), snapshot(low=Position(LOG, 2100, "")))
    assert "have no GTIDs yet" in gtids.unloaded
    uncaptured = find(a_table(), snapshot(), exclude=("shop.*",))
    assert "manifest 2 was captured without its table" in uncaptured.unloaded
    live = find(a_table(""), snapshot(low=Position(LOG, 900)))
    assert live.status == "failed"


def test_a_snapshot_under_another_name_is_refused() -> None:
    files = Files()
    files.write(snapshot_path(OLDER), snapshot(high=HIGH).encode())

    with pytest.raises(ManifestError, match="another's name"):
        Snapshots(files).read(OLDER)
    with pytest.raises(ManifestError, match="was deleted"):
        Snapshots(files).read(ID)
