"""The manifests that the tables of a merge need."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.spark.merge.survey import StagedLog
from airflow_provider_binlog.spark.plan.table_log import TableLog
from tests.unit.spark.memory_files import Files
from tests.unit.spark.plans import manifest


class CountingFiles(Files):
    """Files in memory, and what was read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.reads.append(path)
        return super().read(path)


def stage(*numbers: int) -> CountingFiles:
    files = CountingFiles()
    for each in numbers:
        files.write(f"manifests/{each:016d}.json", manifest(each).encode())
    return files


def test_an_older_manifest_is_read_once_for_all_tables() -> None:
    files = stage(1, 2, 3)
    log = StagedLog(files, TableLog([manifest(4), manifest(5)]), 3)

    for _ in range(3):
        numbers = [each.sequence for each in log.newest_first({2, 3, 4, 5})]
        assert numbers == [5, 4, 3, 2]
        assert [each.sequence for each in log.since(1).manifests] == [1, 2, 3, 4, 5]
        assert log.since(2).first == 2
        assert log.since(4) is log.newest

    assert sorted(files.reads) == [f"manifests/{each:016d}.json" for each in (1, 2, 3)]


def test_a_missing_manifest_is_refused_for_each_table_that_needs_it() -> None:
    log = StagedLog(stage(2), TableLog([]), 2)

    for _ in range(2):
        with pytest.raises(ManifestError, match="a manifest is missing"):
            log.since(1)
    assert log.since(2).last == 2
