"""BinlogCleanupOperator removes what a cleanup plans, or logs it."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogCleanupOperator, BinlogSource
from airflow_provider_binlog.operators import cleanup
from tests.support.stores import open_store
from tests.unit.spark.history import Source
from tests.unit.spark.staged_changes import INT

if TYPE_CHECKING:
    from pathlib import Path

REPORT = "shop/_reports/dag/run/merge/0.json"


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three manifests and a report, all of them a month old, and no checkpoint."""
    monkeypatch.setattr(cleanup, "AirflowVariableStore", dict)
    store = open_store(f"file://{tmp_path}")
    source = Source(store, "shop")
    table = source.create("shop", "t", {"id": INT}, ("id",))
    for number in range(3):
        table.insert(id=number)
        source.commit()
    store.write(REPORT, b"12345")
    month = time.time() - 30 * 86400
    for path in tmp_path.rglob("*"):
        os.utime(path, (month, month))
    return tmp_path


def clean(staging: Path, **arguments: Any) -> dict[str, Any]:
    operator = BinlogCleanupOperator(
        task_id="cleanup",
        source=BinlogSource("shop", start=None),
        staging_path=f"file://{staging}",
        **arguments,
    )
    result: dict[str, Any] = operator.execute({})
    return result


def test_what_is_kept_and_removed_is_returned_and_logged(
    staging: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {
        "source": "shop",
        "first": 1,
        "needed_by": ["no merge has published how much it has read"],
        "files": 1,
        "bytes": 5,
    }

    assert clean(staging, dry_run=True) == expected
    assert (staging / REPORT).exists()
    assert "_reports/dag/run/merge/0.json: 5 bytes: its task has ended" in capsys.readouterr().out

    assert clean(staging) == expected
    assert not (staging / REPORT).exists()
    assert "1 files, 5 bytes: its task has ended" in capsys.readouterr().out
    assert clean(staging, grace=86400.0) == expected | {"files": 0, "bytes": 0}


@pytest.mark.parametrize("grace", [timedelta(hours=1), 3600, "a week", -1])
def test_a_grace_period_that_cannot_be_used_fails_for_good(staging: Path, grace: Any) -> None:
    with pytest.raises(AirflowFailException, match="grace"):
        clean(staging, grace=grace)
