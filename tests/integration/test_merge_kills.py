"""Merges that are killed before one write after the other: what follows finishes their work."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_binlog.spark.merge import run as merge_run
from airflow_provider_binlog.spark.merge.progress import save_progress
from tests.support.killed_writes import Killed, Writes
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import Workplace, sorted_rows

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.job.options import Report


def merge_killed_later_each_time(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, writes: Writes, **options: Any
) -> tuple[Report, int]:
    """Merge until no write is left to be killed at; return the report, and how many there were."""
    monkeypatch.setattr(SparkSession, "sql", writes.statements(SparkSession.sql))
    for more in count():
        writes.left = more
        try:
            report = workplace.try_merge(**options)
        except Killed:
            continue
        break
    monkeypatch.undo()
    return report, more


@pytest.mark.fault("merge-killed", lakes="delta iceberg", stores="file")
@pytest.mark.slow
def test_merges_that_are_killed_one_write_later_each_time(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = workplace.new_source()
    types = {"id": INT, "a": BIGINT, "b": BIGINT}
    changed = source.create(workplace.database, "changed", types, ("id",))
    truncated = source.create(workplace.database, "truncated", {"id": INT, "note": TEXT}, ("id",))
    lost = source.create(workplace.database, "lost", {"id": INT}, ("id",))
    for id_ in range(1, 4):
        changed.insert(id=id_, a=10 * id_, b=id_)
        truncated.insert(id=id_, note="old")
        lost.insert(id=id_)
    source.commit()
    workplace.merge()
    changed.update(1, a=11)
    renamed = {"a": "b", "b": "a"}
    changed.alter("...", types | {"n": BIGINT}, renamed=renamed, n=7)
    changed.update(2, a=5, n=None)
    changed.insert(id=4, b=99)
    truncated.truncate()
    truncated.insert(id=9, note="new")
    lost.delete(1)
    kept = sorted_rows(lost.values)
    lost.rewrite("dropped a partition")
    made = source.create(workplace.database, "made", {"id": INT}, ("id",))
    made.insert(id=1)
    source.commit()
    writes = Writes()
    lake = type(workplace.lake)
    monkeypatch.setattr(merge_run, "save_progress", writes.before(save_progress))
    if workplace.format == "iceberg":
        # It is no statement there.
        monkeypatch.setattr(lake, "overwrite", writes.before(lake.overwrite))

    report, more = merge_killed_later_each_time(workplace, monkeypatch, writes, threads=1)

    assert more > 4
    assert not report.failed
    (held,) = workplace.try_merge().held
    assert "dropped a partition" in held.reason
    assert sorted_rows(workplace.found(lost)) == kept
    workplace.check(changed, truncated, made, in_order=False)
    changed.update(1, n=8)
    truncated.delete(9)
    source.commit()
    workplace.try_merge()
    workplace.check(changed, truncated, made, in_order=False)
