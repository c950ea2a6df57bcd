"""The merge as it runs many rows: compiled, adapted, and kept where Spark computes them."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from airflow_provider_binlog.spark.collapse import source_rows
from airflow_provider_binlog.spark.target import spark_target
from tests.integration.test_merge_images import COLUMNS, Owner
from tests.unit.spark.history import RowImage
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format

# As a session of Spark's own has it; that of the tests compiles nothing.
COMPILED = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one row be many."""
    monkeypatch.setattr(source_rows, "_FEW_ROWS", 0)
    new_session = SparkSession.newSession

    def compiling(session: SparkSession) -> SparkSession:
        made = new_session(session)
        for name, value in COMPILED.items():
            made.conf.set(name, value)
        return made

    monkeypatch.setattr(SparkSession, "newSession", compiling)


@in_either_format
def test_whole_and_partial_rows_and_a_changelog(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(20261122)
    source = workplace.new_source()
    whole = source.create(workplace.database, "whole", {"id": INT, "note": TEXT}, ("id",))
    partial = source.create(workplace.database, "partial", COLUMNS, ("history", "id"))
    log = source.create(workplace.database, "log", {"text": TEXT})
    owners = [Owner(partial, history, chance) for history in range(9)]
    whole.insert(id=9, note="new")
    source.commit()
    workplace.merge(tables=["*.whole"])
    for id_ in range(9):
        whole.insert(id=id_, note="new")
        log.insert(text=str(id_))
    for owner in owners * 9:
        owner.step()
    workplace.follow(whole, partial)
    assert sorted(row["text"] for row in workplace.found(log)) == [*map(str, range(9))]

    # From here on the last change is found by the keys alone, where rows are whole, and most rows
    # of the target that no key has are left out.
    monkeypatch.setattr(source_rows, "_MANY_ROWS", 0)
    for name in ("SMALL_TARGET_BYTES", "_FILTERED_BYTES", "_FILTERED_FACTOR"):
        monkeypatch.setattr(spark_target, name, 0)
    source.row_image = RowImage.FULL
    other = source.create(workplace.database, "other", {"id": INT, "note": TEXT}, ("id",))
    for id_ in range(5):
        other.insert(id=id_, note="new")
    other.delete(2)
    whole.swap(1, 2, 99)
    whole.update(3, note="changed")
    whole.update(4, note="changed")
    source.commit()
    whole.delete(3)
    whole.update(4, note="changed again")
    for owner in owners * 9:
        owner.step()
    other.update(4, note="changed")
    workplace.follow(whole, partial, other)
