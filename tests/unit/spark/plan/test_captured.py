"""What manifests were captured with: asked once for each change of the globs, not per manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.plan.table_log import (
    Globs,
    TableLog,
    extend_globs,
    find_uncaptured,
)
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table

if TYPE_CHECKING:
    import pytest

    from airflow_provider_binlog.schema import TableName

HIDDEN = ("shop", "hidden")
WITHOUT = ("*.hidden",)


def test_neighbours_with_the_same_globs_are_one() -> None:
    manifests = [manifest(4), manifest(5), manifest(6, exclude=WITHOUT), manifest(7)]

    globs = extend_globs((), manifests)

    assert [each.since for each in globs] == [1, 6, 7]
    assert extend_globs(globs[:1], manifests[1:]) == globs
    assert find_uncaptured(globs, HIDDEN, first=1, last=7) == 6
    assert find_uncaptured(globs, HIDDEN, first=7, last=7) is None
    assert find_uncaptured(globs, HIDDEN, first=1, last=5) is None
    assert find_uncaptured(globs, NAME, first=1, last=7) is None


def test_a_table_was_not_captured_under_one_of_its_names() -> None:
    rename = statement(60, RenameTable(ORDERS, HIDDEN, NAME))
    before, after = table([(10, 20)], name=HIDDEN), table([(70, 80)])
    hidden = manifest(5, exclude=WITHOUT)
    log = TableLog(
        [manifest(4, before), hidden, manifest(6, after, statements=[rename]), manifest(7)]
    )

    assert log.find_uncaptured_name(ORDERS, since=4) == HIDDEN
    assert log.find_uncaptured_name(ORDERS, since=6) is None


def test_globs_are_compared_once_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TableLog([manifest(4, table([(1, 2)])), *(manifest(n) for n in range(5, 200))])
    capture = Globs.capture
    compared: list[TableName] = []

    def count(globs: Globs, name: TableName) -> bool:
        compared.append(name)
        return capture(globs, name)

    monkeypatch.setattr(Globs, "capture", count)

    assert log.find_uncaptured_name(ORDERS, since=4) is None
    assert compared == [NAME]
