"""What is known of tables before a range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_binlog.capture.extract import known_tables
from airflow_provider_binlog.changes import InvalidText
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import Schema
from airflow_provider_binlog.snapshot_manifest import snapshot_path
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import part_key
from tests.unit.capture.staging import new_store
from tests.unit.spark.history import IDENTITY, Source
from tests.unit.spark.plan.snapshots import HIGH, ID, snapshot
from tests.unit.spark.plans import NAME, schema
from tests.unit.spark.staged_changes import LOG


def find_schema(data: bytes, **manifest: Any) -> Schema | None:
    """Return what is known from a snapshot's manifest after one of the log."""
    store = new_store()
    log = ManifestLog(store, "shop")
    reached = {"start": Position(LOG, 4), "stop": HIGH}
    before = replace(Source(store, "shop").make_manifest(), **(reached | manifest))
    log.commit(before)
    store.create(part_key("shop", snapshot_path(ID)), data)
    return known_tables(store, "shop", log, before).find_schema(NAME)


@pytest.mark.parametrize(
    "manifest",
    [
        {"stop": Position(LOG, 2400)},
        {"start": Position(LOG, 2501), "stop": Position(LOG, 2600)},
        {"identity": replace(IDENTITY, server="another")},
        {"exclude": (f"{NAME[0]}.*",)},
        {"invalid_text": InvalidText.BINARY},
    ],
    ids=str,
)
def test_a_snapshot_shows_the_columns_of_a_table_that_the_log_follows_from_there(
    manifest: dict[str, Any],
) -> None:
    shown = snapshot()

    assert find_schema(shown.encode()) == shown.schema
    assert find_schema(shown.encode(), **manifest) is None


def test_an_adopted_table_shows_no_columns_of_its_position() -> None:
    assert find_schema(snapshot(adopts=True).encode()) is None


def test_an_unreadable_snapshot_stops_no_capture() -> None:
    assert find_schema(b"cut") is None


def test_a_later_snapshot_changes_nothing_of_what_is_known_of_a_range() -> None:
    store = new_store()
    log = ManifestLog(store, "shop")
    before = replace(Source(store, "shop").make_manifest(), start=Position(LOG, 4), stop=HIGH)
    log.commit(before)
    earlier = snapshot()
    later = snapshot(
        id=f"20261123{ID[8:]}", schema=schema("id"), low=HIGH, high=Position(LOG, 2600)
    )
    for each in (earlier, later):
        store.create(part_key("shop", snapshot_path(each.id)), each.encode())

    assert known_tables(store, "shop", log, before).find_schema(NAME) == earlier.schema
