"""The status of a source, beside what was staged and merged."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_binlog.errors import StoreUnavailableError
from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotPlan
from airflow_provider_binlog.snapshot_manifest import (
    new_snapshot_id,
    snapshot_folder,
    snapshot_path,
)
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.status.ranges import Memory
from airflow_provider_binlog.status.source import SourceStatus, read_status
from airflow_provider_binlog.status.tables import State
from tests.support.stores import open_store
from tests.unit.operators.test_idle_merge import FOLDER
from tests.unit.spark.history import Source
from tests.unit.spark.made_snapshots import SnapshotMaker, take_snapshot
from tests.unit.status.staged import LOADING, STALE, WRITE, create, merge


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(open_store(f"file://{tmp_path}"), "shop")


def status_of(source: Source, memory: Memory | None = None, **counts: int) -> SourceStatus:
    counts = {"ranges": 60, "merges": 60} | counts
    return read_status(source.store, source.name, memory or Memory(), "here", **counts)


def states(status: SourceStatus) -> dict[str, State]:
    return {table.text: table.state for table in status.tables}


def test_a_source_of_which_nothing_is_staged_is_empty(source: Source) -> None:
    status = status_of(source)

    assert (status.newest, status.tables, status.lakes, status.loads) == (None, (), (), ())
    assert status.problem == ""


def test_ranges_are_the_newest_first_and_count_what_the_manifests_hold(source: Source) -> None:
    orders, items = create(source, "orders", "items")
    first = source.commit()
    orders.insert(id=2)
    orders.delete(1)
    second = source.commit()

    status = status_of(source)

    assert [each.sequence for each in status.ranges] == [2, 1]
    newest, oldest = status.ranges
    assert (newest.start, newest.stop) == (second.start, second.stop)
    assert newest.changes == {"insert": 1, "delete": 1}
    assert [(table.name, table.rows) for table in newest.tables] == [(orders.name, 2)]
    assert {table.name for table in oldest.tables} == {orders.name, items.name}
    parts = [part for table in first.tables for part in table.parts]
    assert oldest.rows == sum(part.rows for part in parts)
    assert oldest.first_commit == datetime.fromtimestamp(
        min(part.first_commit for part in parts) / 1e6, UTC
    )
    counted = {table.text: table.rows for table in status.tables}
    assert counted == {"shop.orders": 3, "shop.items": 1}


def test_only_as_many_manifests_are_decoded_as_the_budget_allows(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders,) = create(source, "orders")
    for number in range(2, 40):
        source.commit()
        orders.insert(id=number)
    source.commit()
    monkeypatch.setattr("airflow_provider_binlog.status.source.BYTES_PER_READ", 1)
    memory = Memory()

    first = status_of(source, memory)
    second = status_of(source, memory)

    # One at least, and each time one more of what is not known yet.
    assert [each.sequence for each in first.ranges] == [39]
    assert [each.sequence for each in second.ranges] == [39, 38]
    monkeypatch.undo()
    assert [each.sequence for each in status_of(source, memory).ranges] == [*range(39, 0, -1)]
    assert len(status_of(source, memory, ranges=5).ranges) == 5


def test_a_manifest_is_read_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    create(source, "orders")
    source.commit()
    memory = Memory()
    expected = status_of(source, memory).ranges
    read: list[str] = []
    original = ObjectStore.read

    def note(self: ObjectStore, key: str) -> bytes:
        read.append(key)
        return original(self, key)

    monkeypatch.setattr(ObjectStore, "read", note)

    assert status_of(source, memory).ranges == expected
    assert not [key for key in read if "manifests" in key]


def test_an_unreadable_manifest_is_named_and_hides_only_what_is_older(source: Source) -> None:
    (orders,) = create(source, "orders")
    for number in (2, 3):
        source.commit()
        orders.insert(id=number)
    source.commit()
    source.store.write(source.log.key(2), b"{}")

    status = status_of(source)

    assert [each.sequence for each in status.ranges] == [3]
    assert "manifest" in status.problem


def test_a_store_that_does_not_answer_is_an_error(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(source, "orders")
    source.commit()

    def fail(*_: Any) -> bytes:
        raise StoreUnavailableError("the store failed")

    monkeypatch.setattr(ObjectStore, "read", fail)
    with pytest.raises(StoreUnavailableError):
        status_of(source)


# ------------------------------------------------------------------- tables


def test_each_table_has_the_state_that_the_merge_noted_those_in_need_first(
    source: Source,
) -> None:
    live, stale, suspect, loading = create(source, "live", "stale", "suspect", "loading")
    source.commit()
    merge(
        source,
        1,
        {live.name: None, stale.name: STALE, suspect.name: WRITE, loading.name: LOADING},
    )

    status = status_of(source)

    assert [(table.text, table.state) for table in status.tables] == [
        ("shop.stale", State.STALE),
        ("shop.suspect", State.SUSPECT),
        ("shop.loading", State.LOADING),
        ("shop.live", State.LIVE),
    ]
    assert [table.needs_reload for table in status.tables] == [True, True, True, False]
    first, second, *_ = status.tables
    assert (first.reason, first.position) == (STALE.reason, STALE.position)
    assert first.since == datetime(2026, 11, 24, 10, tzinfo=UTC)
    assert "version 7" in second.reason
    assert second.since == datetime(2026, 11, 24, 11, tzinfo=UTC)
    assert status.states == {
        State.STALE: 1, State.SUSPECT: 1, State.LOADING: 1, State.LIVE: 1
    }  # fmt: skip


def test_a_table_waits_for_the_merge_of_what_is_staged(source: Source) -> None:
    orders, items = create(source, "orders", "items")
    source.commit()
    merge(source, 1, {orders.name: None, items.name: None})
    orders.insert(id=2)
    source.commit()

    waits = {table.text: (table.waits, table.through) for table in status_of(source).tables}

    assert waits == {"shop.orders": (True, 1), "shop.items": (False, 1)}


def test_a_quarantine_counts_until_a_merge_has_read_it(source: Source) -> None:
    orders, items = create(source, "orders", "items")
    source.commit()
    merge(source, 1, {orders.name: None, items.name: None})
    orders.quarantine("a column has a type that is not decoded")
    source.commit()
    items.insert(id=2)
    source.commit()

    quarantined, _ = status_of(source).tables
    assert (quarantined.text, quarantined.state) == ("shop.orders", State.QUARANTINED)
    assert quarantined.reason == "a column has a type that is not decoded"
    assert quarantined.position.startswith("binlog.")
    merge(source, 3, {orders.name: STALE, items.name: None})
    assert states(status_of(source)) == {"shop.orders": State.STALE, "shop.items": State.LIVE}


def test_what_only_leaving_out_ends_is_not_to_be_reloaded(source: Source) -> None:
    (orders,) = create(source, "orders")
    source.commit()
    orders.quarantine("it is WITH SYSTEM VERSIONING: leave the table out")
    source.commit()

    assert [table.needs_reload for table in status_of(source).tables] == [False]


def test_merges_that_are_published_are_read_once(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders,) = create(source, "orders")
    source.commit()
    merge(source, 1, {orders.name: None})
    orders.insert(id=2)
    source.commit()
    merge(source, 2, {orders.name: None})
    memory = Memory()

    status = status_of(source, memory)

    assert [(each.through, each.after) for each in status.published] == [(1, 0), (2, 0)]
    first, second = (each.time for each in status.published)
    assert status.ranges[-1].created_at <= first < second <= datetime.now(UTC)
    monkeypatch.setattr("airflow_provider_binlog.status.merges.read_record", None)
    assert status_of(source, memory).published == status.published
    # A list shows no chart.
    assert status_of(source, merges=0).published == ()


def test_of_many_merges_the_newest_are_read_and_those_before_are_not_guessed(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders,) = create(source, "orders")
    for number in range(1, 7):
        orders.insert(id=10 + number)
        source.commit()
        merge(source, number, {orders.name: None})

    few = status_of(source, merges=3).published
    monkeypatch.setattr("airflow_provider_binlog.status.merges._TABLES_READ", 4)
    fewer = status_of(source).published

    # When manifest 4 was merged, nothing that was read says.
    assert [(each.through, each.after) for each in few] == [(5, 4), (6, 4)]
    assert [(each.through, each.after) for each in fewer] == [(4, 3), (5, 3), (6, 3)]


def test_a_table_before_its_first_merge_is_staged(source: Source) -> None:
    create(source, "orders")
    source.commit()
    (other,) = create(source, "other")
    take_snapshot(other)

    assert states(status_of(source)) == {"shop.orders": State.STAGED, "shop.other": State.STAGED}


def test_lakes_are_listed_beside_each_other(source: Source) -> None:
    (orders,) = create(source, "orders")
    source.commit()
    merge(source, 1, {orders.name: None})
    merge(source, 1, {orders.name: STALE}, lake="iceberg lake", folder=f"{FOLDER}2")

    assert [(table.lake, table.state) for table in status_of(source).tables] == [
        ("iceberg lake", State.STALE),
        ("delta file:///lake", State.LIVE),
    ]
    assert not status_of(source).has_more_lakes
    one = read_status(source.store, source.name, Memory(), "here", ranges=60, lakes_max=1)
    assert (len(one.lakes), one.has_more_lakes) == (1, True)


def test_a_lake_has_only_the_tables_that_are_merged_into_it(source: Source) -> None:
    orders, items, logs = create(source, "orders", "items", "logs")
    source.commit()
    merge(source, 1, {orders.name: None}, others=[items.name, logs.name])
    merge(
        source,
        1,
        {items.name: None},
        others=[orders.name, logs.name],
        lake="iceberg lake",
        folder=f"{FOLDER}2",
    )

    assert [(table.text, table.lake, table.state) for table in status_of(source).tables] == [
        ("shop.logs", "", State.STAGED),
        ("shop.items", "iceberg lake", State.LIVE),
        ("shop.orders", "delta file:///lake", State.LIVE),
    ]


# ------------------------------------------------------------------- snapshots


def plan(source: Source, name: tuple[str, str], chunks: int) -> SnapshotPlan:
    maker = SnapshotMaker(source.create(*name, {}, logged=False))
    return SnapshotPlan(
        id=new_snapshot_id(datetime(2026, 11, 24, tzinfo=UTC), name),
        identity=source.identity,
        database=name[0],
        table=name[1],
        schema=maker.schema,
        low=source.position(),
        exact=False,
        asked_exact=False,
        chunk_bytes=1,
        where=None,
        order=(),
        bounds=(("1",),) * (chunks - 1),
        zero_dates=source.make_manifest().zero_dates,
        invalid_text=source.make_manifest().invalid_text,
        created_at="2026-11-24T00:00:00+00:00",
        created_by="dag run task",
    )


def test_a_snapshot_that_is_read_has_a_progress_and_a_rest(source: Source, tmp_path: Path) -> None:
    files = SnapshotFiles(source.store, "shop")
    begun = plan(source, ("shop", "orders"), 4)
    files.write_plan(begun)

    (load,) = status_of(source).loads
    assert (load.name, load.chunks, load.chunks_read) == (("shop", "orders"), 4, 0)
    first = load.planned_at + timedelta(hours=1)
    assert load.remaining(first) is None

    folder = files.key(snapshot_folder(begun.id))
    for number in range(3):
        # One that was planned waits for a worker: its pace is that of the chunks after the first.
        source.store.write(f"{folder}/chunk-{number:06}.json", b"{}")
        read_at = (first + timedelta(minutes=number)).timestamp()
        os.utime(tmp_path / folder / f"chunk-{number:06}.json", (read_at, read_at))
        (load,) = status_of(source).loads
        assert (load.chunks_read, load.completed_at) == (number + 1, None)
        assert load.remaining(first) == (timedelta() if number else None)
    assert load.remaining(first + timedelta(minutes=3)) == timedelta(minutes=1.5)


def test_a_complete_snapshot_has_its_rows(source: Source) -> None:
    (orders,) = create(source, "orders")
    taken = take_snapshot(orders)

    (load,) = status_of(source).loads

    assert (load.id, load.rows, load.name) == (taken.id, 1, orders.name)
    assert load.completed_at is not None
    # One that is processed says nothing about the state of its table any more.
    source.commit()
    merge(source, 1, {}, snapshots=frozenset({taken.id}))
    assert states(status_of(source)) == {"shop.orders": State.STAGED}


def test_unreadable_snapshots_are_left_out(source: Source) -> None:
    (orders,) = create(source, "orders")
    taken = take_snapshot(orders)
    source.store.write(f"shop/{snapshot_path(taken.id)}", b"{}")
    begun = plan(source, ("shop", "items"), 4)
    files = SnapshotFiles(source.store, "shop")
    files.write_plan(begun)
    source.store.write(files.key(f"snapshots/{begun.id}/plan.json"), b"{}")

    assert status_of(source).loads == ()


# ------------------------------------------------------------------- memory


def test_memory_forgets_what_was_not_used_for_the_longest() -> None:
    memory = Memory(cost_max=10)
    memory.keep("a", 1, 4)
    memory.keep("b", 2, 4)
    assert memory.find("a") == 1
    memory.keep("c", 3, 4)

    assert (memory.find("a"), memory.find("b"), memory.find("c")) == (1, None, 3)
    memory.keep("a", 4, 10)
    assert (memory.find("a"), memory.find("c")) == (4, None)
