"""`cleanup` prints what it removes and why, or would; `forget` names the lakes that there are."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.cli import staged_files
from airflow_provider_binlog.cli.commands import main
from tests.support.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

REPORT = "shop/_reports/dag/run/merge/0.json"


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A staging path with the report of a task of last month, and no checkpoint."""
    monkeypatch.setattr(staged_files, "MetastoreVariableStore", dict)
    store = open_store(f"file://{tmp_path}")
    store.write(REPORT, b"12345")
    month = time.time() - 30 * 86400
    os.utime(tmp_path / REPORT, (month, month))
    return f"file://{tmp_path}"


def test_a_dry_run_prints_every_file_and_removes_none(
    staging: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cleanup", "shop", staging, "--dry-run", "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out) == [
        {"path": "_reports/dag/run/merge/0.json", "bytes": 5, "reason": "its task has ended"}
    ]
    assert open_store(staging).read(REPORT) == b"12345"


def test_a_cleanup_removes_what_is_older_than_its_grace_period(
    staging: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cleanup", "shop", staging, "--grace-days", "40", "-o", "plain"]) == 0
    assert open_store(staging).find("shop") != []
    assert main(["cleanup", "shop", staging, "-o", "plain"]) == 0
    assert open_store(staging).find("shop") == []

    assert capsys.readouterr().out.splitlines() == [
        "reason              files  bytes",
        "its task has ended  1      5",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cleanup", "--grace-days", "0.5"], "the grace period is a day or longer"),
        (["forget", "--lake", "8d1f"], "given=8d1f, lakes=ab12)"),
        (["forget", "--lake", "ab12", "--table", "shop"], "table is the name of one table"),
        (["forget", "--lake", "ab12", "--table", "shop.t"], "no merge has read this table"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    staging: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(staging).write("shop/_merged/ab12/note", b"")

    assert main([arguments[0], "shop", staging, *arguments[1:]]) == 1

    assert says in capsys.readouterr().err


def test_a_lake_is_forgotten(staging: str, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(staging).write("shop/_merged/ab12/note", b"")

    assert main(["forget", "shop", staging, "--lake", "ab12"]) == 0

    assert open_store(staging).folders("shop/_merged") == []
    assert "cleanups continue without it" in capsys.readouterr().out
