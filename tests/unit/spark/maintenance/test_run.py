"""Versions of lake tables that maintenance keeps, by the publish records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_provider_binlog.spark.maintenance.run import find_versions
from airflow_provider_binlog.spark.merge.progress import (
    Progress,
    TableProgress,
    load_progress,
    save_progress,
)
from tests.unit.spark.memory_files import Files

NOW = datetime(2026, 1, 9, tzinfo=UTC)
DAY, WEEK = timedelta(days=1), timedelta(days=7)
T, U = ("shop", "t"), ("shop", "u")


def test_lakes_of_two_templates_of_names_keep_the_versions_that_either_names() -> None:
    files = Files()

    def publish(folder: str, days_ago: int, **versions: tuple[str, int]) -> None:
        tables = {
            ("shop", name): TableProgress(version=version, target=target, chosen=True)
            for name, (target, version) in versions.items()
        }
        loaded, at = load_progress(files, folder), NOW - days_ago * DAY
        save_progress(files, folder, Progress(tables=tables), loaded=loaded, merged=(), now=at)

    publish("old", 8, t=("lake.t", 1), u=("lake.u", 1))
    publish("new", 8, t=("lake.t", 2), u=("lake.other.u", 5))
    publish("new", 6, t=("lake.t", 3), u=("lake.other.u", 6))
    publish("new", 1, t=("lake.t", 4), u=("lake.other.u", 7))
    publish("new", 0, t=("lake.t", 5), u=("lake.other.u", 7))

    assert find_versions(files, ["old", "new"], NOW - WEEK) == {
        (T, "lake.t"): {1, 3, 5},
        (U, "lake.u"): {1},
        (U, "lake.other.u"): {6, 7},
    }
