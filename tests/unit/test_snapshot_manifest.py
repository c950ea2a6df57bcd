"""The manifest of a snapshot: read back as written, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_provider_binlog import stored_json
from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import Field, Schema
from airflow_provider_binlog.snapshot_manifest import (
    Chunk,
    SnapshotManifest,
    digest_in,
    new_snapshot_id,
    snapshot_part_path,
    snapshot_path,
    table_digest,
)

NAME = ("shop", "orders")
AT = datetime(2026, 11, 22, 9, 18, 0, 250_000, tzinfo=UTC)
ID = new_snapshot_id(AT, NAME)
LOW, HIGH = Position("binlog.000001", 100, "uuid:1-7"), Position("binlog.000001", 900, "uuid:1-9")
SNAPSHOT = SnapshotManifest(
    id=ID,
    identity=SourceIdentity(Flavor.MYSQL, "uuid", "binlog"),
    database="shop",
    table="orders",
    schema=Schema(1, (Field(1, "id", "int", "int32", nullable=False),), (1,)),
    low=LOW,
    high=HIGH,
    is_exact=False,
    where=None,
    chunks=(Chunk(0, LOW, HIGH, 2),),
    parts=(
        Part(snapshot_part_path(ID, 0, "9f86"), 1, 2, 400, "ab" * 32, 0, 1, 5, 5, {"insert": 2}),
    ),
    created_at="2026-11-22T09:18:02Z",
    created_by="test",
)


def test_what_is_written_is_read_back() -> None:
    assert SnapshotManifest.decode(SNAPSHOT.encode()) == SNAPSHOT
    assert SNAPSHOT.rows == 2
    assert SNAPSHOT.name == NAME


def test_ids_order_the_snapshots_of_a_table_by_time_in_every_zone() -> None:
    later = (AT + timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=-5)))

    assert f"20261122T091800.250000Z-{table_digest(NAME)}" == ID
    assert new_snapshot_id(later, NAME) > ID
    assert digest_in(ID) == table_digest(NAME) != table_digest(("shop", "order"))
    assert digest_in("manifests") is None


def test_paths_lie_in_one_folder() -> None:
    assert snapshot_path(ID) == f"snapshots/{ID}.json"
    assert SNAPSHOT.parts[0].path == f"snapshots/{ID}/{'0' * 16}-000000-9f86.parquet"
    with pytest.raises(ManifestError, match="ordinal"):
        snapshot_part_path(ID, 10**6, "9f86")


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[",
        stored_json.encode(stored_json.decode(SNAPSHOT.encode()) | {"version": 2}),
        stored_json.encode(stored_json.decode(SNAPSHOT.encode()) | {"more": 1}),
        SNAPSHOT.encode().replace(b'"low"', b'"lows"'),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError, match="manifest of a snapshot"):
        SnapshotManifest.decode(data)


def test_an_id_of_another_table_is_refused() -> None:
    wrong = replace(SNAPSHOT, table="order").encode()

    with pytest.raises(ManifestError, match="another table"):
        SnapshotManifest.decode(wrong)
