"""The snapshots of a source, by table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.snapshot_manifest import new_snapshot_id, snapshot_path
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles
from tests.support.stores import open_store

_ORDERS, _VISITS, _OTHERS = (("shop", name) for name in ("orders", "visits", "others"))


def test_snapshots_are_found_by_their_table_the_newest_last() -> None:
    store = open_store("memory://snapshots-by-table")
    files = StoredFiles(store, "shop")
    first, second, third = (
        new_snapshot_id(datetime(2026, 11, day, tzinfo=UTC), name)
        for day, name in ((21, _ORDERS), (22, _VISITS), (23, _ORDERS))
    )
    for id_ in (third, first, second):
        store.write(files.locate(snapshot_path(id_)), b"cut")
    store.write(files.locate("snapshots/note.json"), b"")
    store.write(files.locate(snapshot_path(f"{third}.tmp")), b"")
    store.write(files.locate(f"snapshots/{new_snapshot_id(datetime.now(UTC), _OTHERS)}/x"), b"")

    snapshots = Snapshots(files)

    assert snapshots.ids_of(_ORDERS) == [first, third]
    assert snapshots.since(_ORDERS, first) == [third]
    assert (snapshots.newest_id(_VISITS), snapshots.newest_id(_OTHERS)) == (second, None)
    assert snapshots.ids() == [second, third]
    with pytest.raises(ManifestError, match=f"shop/snapshots/{first}"):
        snapshots.read(first)
