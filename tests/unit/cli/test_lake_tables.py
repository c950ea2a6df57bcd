"""`tables` prints what the last merge of each lake noted."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.cli.lake_tables import show
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.spark.merge.progress import (
    Progress,
    TableProgress,
    progress_folder,
    save_progress,
)
from airflow_provider_binlog.spark.target.state import ForeignWrite, Hold, Mark
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.table_options import TableRules
from tests.support.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path


class Files(StoredFiles):
    """The staged files, to be written as a merge does."""

    def size(self, path: str) -> int | None:
        raise NotImplementedError(path)

    def write(self, path: str, data: bytes) -> None:
        self._store.write(self.locate(path), data)

    def delete(self, path: str) -> None:
        raise NotImplementedError(path)


def test_each_table_is_printed_with_its_state_and_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    staging = f"file://{tmp_path}"
    stale = Hold("stale", "a partition was truncated", "binlog.000007:5120", since="2026-11-22")
    progress = Progress(
        lake="delta s3://lake",
        tables={
            ("shop", "orders"): TableProgress(Mark(42)),
            ("shop", "items"): TableProgress(Mark(40, 2), 41, pending=True, hold=stale),
            ("shop", "late"): TableProgress(Mark(41), 42, pending=True),
            ("shop", "written"): TableProgress(
                Mark(42), foreign_write=ForeignWrite(7, "DELETE", "ann", "2026-11-22")
            ),
        },
    )
    files = Files(open_store(staging), "shop")
    save_progress(
        files, progress_folder("delta", "s3://lake", TableRules()), progress, loaded=None, merged=()
    )

    show(Namespace(name="shop", staging_path=staging))

    assert capsys.readouterr().out == (
        "delta s3://lake: merged up to manifest 0\n"
        "shop.items  stale  40.2\n"
        "    a partition was truncated (at binlog.000007:5120)\n"
        "    since 2026-11-22\n"
        f"    to reload it: airflow binlog reload shop {staging} --conn CONN --table shop.items, "
        "then merge\n"
        "shop.late  live  41  waits for a merge\n"
        "shop.orders  live  42\n"
        "shop.written  live  suspect  42\n"
        "    version 7 of the lake table changed rows, and is no merge's (DELETE by ann at "
        "2026-11-22): they may differ from the source's until it is reloaded\n"
        f"    to reload it: airflow binlog reload shop {staging} --conn CONN --table shop.written, "
        "then merge\n"
    )


def test_a_source_that_was_never_merged_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StagingError, match="no merge"):
        show(Namespace(name="shop", staging_path=f"file://{tmp_path}"))
