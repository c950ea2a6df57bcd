"""Manifests of snapshots to plan with: no file is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.snapshot_manifest import (
    SnapshotManifest,
    snapshot_part_path,
    table_digest,
)
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.plans import NAME, schema
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Schema

ID = f"20261122T000000.000000Z-{table_digest(NAME)}"
LOW, HIGH = Position(LOG, 2100), Position(LOG, 2500)


def snapshot(of: Schema | None = None, **other: Any) -> SnapshotManifest:
    """Return a snapshot of `NAME` with two rows, read between 2100 and 2500."""
    path = snapshot_part_path(ID, 0, "9f86d081")
    known: dict[str, Any] = {
        "id": ID,
        "identity": IDENTITY,
        "database": NAME[0],
        "table": NAME[1],
        "schema": of or schema("id", "n"),
        "low": LOW,
        "high": HIGH,
        "is_exact": False,
        "where": None,
        "chunks": (),
        "parts": (Part(path, 1, 2, 100, "", 0, 1, 0, 0, {"insert": 2}),),
        "created_at": "",
        "created_by": "",
    }
    return SnapshotManifest(**(known | other))
