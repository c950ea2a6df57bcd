"""`tables` prints the state of each table, as the page shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_provider_binlog.cli.commands import main
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

    import pytest

    from airflow_provider_binlog.schema import TableName


def publish(staging: str, lake: str, tables: dict[TableName, TableProgress]) -> None:
    """Note what a merge into a lake left of its tables."""
    save_progress(
        StoredFiles(open_store(staging), "shop"),
        progress_folder("delta", lake, TableRules()),
        Progress(lake=f"delta {lake}", tables=tables),
        loaded=None,
        merged=(),
    )


def test_each_table_is_printed_with_its_state_and_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    staging = f"file://{tmp_path}"
    stale = Hold("stale", "a partition was truncated", "binlog.000007:5120", since="2026-11-22")
    tables = {
        ("shop", "orders"): TableProgress(Mark(42), chosen=True),
        ("shop", "items"): TableProgress(Mark(40, 2), 41, pending=True, hold=stale, chosen=True),
        ("shop", "late"): TableProgress(Mark(41), 42, pending=True, chosen=True),
        ("shop", "written"): TableProgress(
            Mark(42), foreign_write=ForeignWrite(7, "DELETE", "ann", "2026-11-22"), chosen=True
        ),
        ("shop", "elsewhere"): TableProgress(Mark(42)),
    }
    publish(staging, "s3://lake", tables)

    assert main(["tables", "shop", staging, "-o", "json"]) == 0

    shown = {each.pop("table"): each for each in json.loads(capsys.readouterr().out)}
    reload = f"airflow binlog reload shop {staging} --conn CONN --table shop.items, then merge"
    assert shown["shop.items"] == {
        "lake": "delta s3://lake",
        "state": "stale",
        "through": 40,
        "waits": True,
        "since": "2026-11-22T00:00:00+00:00",
        "position": "binlog.000007:5120",
        "reason": "a partition was truncated",
        "repair": reload,
    }
    assert {
        name: (each["state"], each["waits"], each["repair"]) for name, each in shown.items()
    } == {
        "shop.items": ("stale", True, reload),
        "shop.written": ("suspect", False, reload.replace("items", "written")),
        "shop.late": ("live", True, ""),
        "shop.orders": ("live", False, ""),
    }
    assert [*shown][:2] == ["shop.items", "shop.written"]
    assert "version 7 of the lake table changed rows" in shown["shop.written"]["reason"]


def test_every_lake_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    staging = f"file://{tmp_path}"
    lakes = [f"s3://lake-{number}" for number in range(25)]
    for lake in lakes:
        publish(staging, lake, {("shop", "orders"): TableProgress(Mark(42), chosen=True)})

    assert main(["tables", "shop", staging, "-o", "json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert {record["lake"] for record in shown} == {f"delta {lake}" for lake in lakes}


def test_before_the_first_merge_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", "shop", f"file://{tmp_path}", "-o", "json"]) == 0

    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err.count("\n")) == ([], 1)
