"""Random histories of tables, cut into merges anywhere: each lake table is as at its mark.

The story of a merge, its plans and its progress are the real ones; a lake of dictionaries stands in
for Spark, and row images are whole.
"""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_binlog.spark.job import sessions
from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.merge import renamed_rows, table_merge
from airflow_provider_binlog.spark.merge import run as merge_run
from airflow_provider_binlog.spark.merge import start as merge_start
from airflow_provider_binlog.spark.merge.run import merge_all
from airflow_provider_binlog.spark.target.state import KEY, TABLE_ID, UNSEEN
from tests.unit.spark.lake_in_memory import LakeInMemory, SnapshotInMemory, StagedInMemory
from tests.unit.spark.memory_files import Files
from tests.unit.spark.random_owners import Owner, rename


def run_history(seed: int, monkeypatch: pytest.MonkeyPatch, *, quiet: bool = False) -> Counter[str]:
    """Return how many times the lake was compared."""
    chance = random.Random(seed)
    source, files = StagedInMemory(), Files()
    lake = LakeInMemory(source, chance)
    monkeypatch.setattr(merge_run, "HadoopFiles", lambda *_: files)
    monkeypatch.setattr(merge_run, "_lake", lambda _: lake)
    monkeypatch.setattr(renamed_rows, "copy_rows", lake.copy_rows)
    monkeypatch.setattr(table_merge, "_merge_segment", lake.merge_segment)
    monkeypatch.setattr(table_merge, "prepare_collapse", lambda *_: None)
    monkeypatch.setattr(merge_run, "check_sizes", lambda *_: None)
    monkeypatch.setattr(merge_run, "_note_held", lake.note_held)
    monkeypatch.setattr(merge_start, "list_manifests", lambda _: [*range(1, source.sequence + 1)])
    monkeypatch.setattr(sessions, "configure", lambda *_, few: None)
    monkeypatch.setattr(merge_run, "check_jars", lambda *_: None)
    spark: Any = SimpleNamespace(newSession=lambda: None)
    options = MergeOptions("", "shop", "delta", "lake", threads=1)
    owners = [Owner(source, chance, name, quiet=quiet) for name in ("t", "u")]
    snapshots: dict[int, SnapshotInMemory] = {}
    compared = Counter[str]()
    for _ in range(chance.randint(1, 12)):
        for _ in range(chance.randint(0, 4)):
            if chance.random() < 0.04:
                rename(source, chance, owners)
            elif chance.random() < 0.3:
                read_on(files, chance.choice(owners), snapshots)
            else:
                chance.choice(owners).step()
        manifest = source.make_manifest()
        files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())
        if chance.random() < 0.5:
            continue
        lake.meddle()
        if chance.random() < 0.1:
            # Whoever deletes the progress has every manifest read again.
            files.data = {path: data for path, data in files.data.items() if "_merged" not in path}
        report = merge_all(spark, options)
        for table in report.tables:
            lake.unfinished.discard(table.table)
            if table.error:
                assert "a defect of the merge" not in table.error, (seed, table)
                # Nobody adds columns to the lake.
                assert "columns that the table does not have" not in table.error, (seed, table)
                lake.unfinished.add(table.table)
        compared += _compare(seed, source, lake)
    compared["reloads"] += lake.reloads
    return compared


def read_on(files: Files, owner: Owner, snapshots: dict[int, SnapshotInMemory]) -> None:
    """Begin a snapshot of a table, or continue the one that is being taken."""
    if owner.exists and id(owner) not in snapshots and owner.table.key:
        snapshots[id(owner)] = SnapshotInMemory(owner.table)
        snapshots[id(owner)].files = files
    snapshot = snapshots.get(id(owner))
    if snapshot is not None and snapshot.step(owner):
        del snapshots[id(owner)]


def _compare(seed: int, source: StagedInMemory, lake: LakeInMemory) -> Counter[str]:
    """Compare every lake table with what its table held at the applied mark."""
    compared = Counter[str]()
    for name, target in lake.tables.items():
        if name in lake.unfinished:
            # Its columns may have changed already, and its rows not yet.
            continue
        contents = source.contents.get(target.applied, {})
        table = target.contents.table or target.properties.get(TABLE_ID, "")
        at = contents.get(table)
        if table == UNSEEN:
            at = next((each for each in contents.values() if each.name == name), None)
        if at is None or at.name != name or target.properties[KEY] == "[]":
            # It keeps what a table had that has another name now, or none.
            continue
        names = set(target.columns)
        # While it is empty, it may have the columns of the one before it.
        assert not target.rows or names == at.columns, (seed, name, names, at.columns)
        found = sorted(repr(sorted(row.items())) for row in target.read())
        rows = [{each: row[each] for each in names} for row in at.rows]
        assert found == sorted(repr(sorted(row.items())) for row in rows), (seed, name)
        compared["within a manifest" if target.applied.statements else "whole"] += 1
    return compared


def test_a_lake_table_is_what_select_returned_at_its_mark() -> None:
    compared = Counter[str]()
    # 1297: what an older rename of a name says is not where its table was lost.
    for seed in (*range(400), 1297):
        with pytest.MonkeyPatch.context() as patch:
            compared += run_history(seed, patch)
    for seed in range(100):
        with pytest.MonkeyPatch.context() as patch:
            compared += run_history(seed, patch, quiet=True)
    assert compared["whole"] > 400
    assert compared["within a manifest"] > 20
    assert compared["reloads"] > 20
