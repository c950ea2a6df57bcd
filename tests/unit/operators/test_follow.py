"""BinlogFollowOperator counts every range that it stages."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.observability import stats

from airflow_provider_binlog import BinlogFollowOperator, BinlogSource
from airflow_provider_binlog.capture.extract import Extracted
from tests.contract.checkpoint import checkpoint
from tests.unit.staging.manifests import manifest

SHOP = BinlogSource("shop", start="now")


def extracted(sequence: int) -> Extracted:
    """Return a range of one manifest."""
    made = manifest(sequence)
    return Extracted((made,), made.start, made.stop)


def test_every_range_that_is_staged_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: Counter[str] = Counter()
    monkeypatch.setattr(stats, "incr", lambda name, count, tags: sent.update({name: count}))
    monkeypatch.setattr(stats, "gauge", lambda name, value, tags: None)
    operator = BinlogFollowOperator(
        task_id="stage",
        source=SHOP,
        staging_path="/s",
        tables=["*.*"],
        follow=timedelta(minutes=1),
    )
    given: dict[str, Any] = {
        "read_settings": (SHOP, None),
        "opened": nullcontext(None),
        "find_range": (checkpoint(0), SimpleNamespace(start="binlog.000001:4")),
        "note_lineage": None,
        "_advance": checkpoint(1),
    }
    for name, value in given.items():
        monkeypatch.setattr(operator, name, lambda *_, value=value, **__: value)
    module = "airflow_provider_binlog.operators.follow"
    monkeypatch.setattr(f"{module}.open_store", lambda _: None)
    monkeypatch.setattr(f"{module}.warn_of_foreign_keys", lambda *_: None)
    capture = "airflow_provider_binlog.capture.follow"
    monkeypatch.setattr(f"{capture}.request_next", lambda *_: None)
    monkeypatch.setattr(f"{capture}.follow", lambda *_, **__: iter([extracted(2), extracted(3)]))
    monkeypatch.setattr("airflow_provider_binlog.sources.next_range.stage", lambda *_: extracted(1))

    staged = operator._follow("a run", until=0)

    assert staged is not None
    assert staged["rows"] == sent["binlog.rows"] == 9
    assert sent["binlog.bytes"] == 3 * 1234
