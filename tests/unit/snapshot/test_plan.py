"""Plans and records of snapshots: found again by the run that wrote them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError, ManifestError
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import Field, Schema
from airflow_provider_binlog.snapshot.plan import (
    ChunkRecord,
    SnapshotFiles,
    SnapshotPlan,
    SnapshotRequest,
)
from airflow_provider_binlog.snapshot_manifest import Chunk, new_snapshot_id, snapshot_path
from tests.support.stores import open_store

_numbers = count()
NAME = ("shop", "orders")
LOW = Position("binlog.000007", 4, gtid="uuid:1-9")
REQUEST = SnapshotRequest(source_name="shop", name=NAME, created_by="a run")
AT = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def files() -> SnapshotFiles:
    return SnapshotFiles(open_store(f"memory://plans{next(_numbers)}"), "shop")


def plan(*, hours: int = 0, run: str = "a run") -> SnapshotPlan:
    return SnapshotPlan(
        id=new_snapshot_id(AT + timedelta(hours=hours), NAME),
        identity=SourceIdentity(Flavor.MYSQL, "uuid", "binlog"),
        database="shop",
        table="orders",
        schema=Schema(1, (Field(1, "id", "int", "int32", nullable=False),), (1,)),
        low=LOW,
        exact=False,
        asked_exact=False,
        chunk_bytes=REQUEST.chunk_bytes,
        where=None,
        order=("`id`", "`text` utf8mb4_bin"),
        bounds=(("1", "00"), ("2", "C3A9")),
        zero_dates=ZeroDates.NULL,
        invalid_text=InvalidText.FAIL,
        created_at="2026-11-22T00:00:00+00:00",
        created_by=run,
    )


def test_a_run_finds_its_newest_plan(files: SnapshotFiles) -> None:
    for each in (plan(), plan(hours=2), plan(hours=3, run="another run"), plan(hours=1)):
        files.write_plan(each)

    assert files.find_plan(REQUEST) == plan(hours=2)
    assert files.find_plan(replace(REQUEST, created_by="a third run")) is None
    assert files.find_plan(replace(REQUEST, name=("shop", "others"))) is None
    assert plan().chunk_count == 3


def test_a_new_id_follows_those_of_a_clock_that_was_ahead(files: SnapshotFiles) -> None:
    assert files.new_id(NAME, AT) == new_snapshot_id(AT, NAME)
    files.write_plan(plan(hours=2))
    files = SnapshotFiles(files.store, "shop")

    ahead = {files.new_id(NAME, AT) for _ in range(3)}
    later = AT + timedelta(hours=3)

    assert len(ahead) == 3
    assert min(ahead) > plan(hours=2).id
    assert files.new_id(NAME, later) == new_snapshot_id(later, NAME)
    assert files.new_id(("shop", "others"), AT) == new_snapshot_id(AT, ("shop", "others"))

    adopted = new_snapshot_id(AT + timedelta(hours=4), NAME)
    files.store.write(files.key(snapshot_path(adopted)), b"a manifest without a plan")
    assert SnapshotFiles(files.store, "shop").new_id(NAME, later) > adopted


def test_for_many_tables_the_ids_are_listed_once(files: SnapshotFiles) -> None:
    files.write_plan(plan())
    once = SnapshotFiles(files.store, "shop")
    with patch.object(files.store, "_names", wraps=files.store._names) as listed:
        found = [once.find_plan(replace(REQUEST, name=name)) for name in (NAME, ("shop", "n"))]
        once.new_id(NAME, AT)
        once.delete_unfinished(NAME, before=AT)

    assert found == [plan(), None]
    # Of snapshots, with and without a manifest, and of those whose parts were removed.
    assert listed.call_count <= 3


@pytest.mark.parametrize(
    "corrected",
    [
        {"where": "id > 5"},
        {"exact": True},
        {"chunk_bytes": 5},
        {"policies": Policies(zero_dates=ZeroDates.FAIL)},
        {"policies": Policies(invalid_text=InvalidText.BINARY)},
    ],
)
def test_a_corrected_request_has_a_plan_of_its_own(
    files: SnapshotFiles, corrected: dict[str, Any]
) -> None:
    files.write_plan(plan())
    request = replace(REQUEST, **corrected)

    assert files.find_plan(REQUEST) == plan()
    assert files.find_plan(request) is None


def test_a_chunk_without_a_record_is_not_read_yet(files: SnapshotFiles) -> None:
    record = ChunkRecord(Chunk(1, LOW, LOW, 5), is_exact=False, parts=())
    files.write_record(plan().id, record)

    assert files.find_record(plan().id, 1) == record
    assert files.find_record(plan().id, 0) is None
    assert files.find_manifest(plan().id) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-5],
        lambda data: data.replace(b"orders", b"0rders"),
        lambda data: b"{}",
    ],
)
def test_a_damaged_plan_is_refused(files: SnapshotFiles, spoil: object) -> None:
    files.write_plan(plan())
    key = files.key(f"snapshots/{plan().id}/plan.json")
    assert callable(spoil)
    files.store.write(key, spoil(files.store.read(key)))

    with pytest.raises(ManifestError, match="not the plan of a snapshot"):
        files.find_plan(REQUEST)


def test_a_record_is_no_plan(files: SnapshotFiles) -> None:
    record = ChunkRecord(Chunk(1, LOW, LOW, 5), is_exact=False, parts=())
    files.write_record(plan().id, record)
    data = files.store.read(files.key(f"snapshots/{plan().id}/chunk-000001.json"))
    files.store.write(files.key(f"snapshots/{plan().id}/plan.json"), data)

    with pytest.raises(ManifestError, match="not the plan of a snapshot"):
        files.find_plan(REQUEST)
    assert replace(plan(), created_by="x").name == NAME


def test_the_plan_of_another_table_is_refused(files: SnapshotFiles) -> None:
    files.write_plan(plan())

    assert files.read_plan(plan().id, NAME, None) == plan()
    with pytest.raises(ConfigurationError, match="another condition"):
        files.read_plan(plan().id, NAME, "id > 5")
    for id_, name in ((plan().id, ("shop", "others")), (plan(hours=1).id, NAME)):
        with pytest.raises(ManifestError, match="begin the snapshot again"):
            files.read_plan(id_, name, None)


def test_what_was_never_completed_is_deleted_once_it_is_old(files: SnapshotFiles) -> None:
    complete, old, new = (plan(hours=hours) for hours in (0, 1, 3))
    for each in (complete, old, new):
        files.write_plan(each)
    files.store.write(files.key(f"snapshots/{complete.id}.json"), b"a manifest")

    deleted = files.delete_unfinished(NAME, before=AT + timedelta(hours=2))

    assert deleted == [old.id]
    assert files.store.folders("shop/snapshots") == [complete.id, new.id]
    assert files.delete_unfinished(("shop", "others"), before=AT + timedelta(days=9)) == []
