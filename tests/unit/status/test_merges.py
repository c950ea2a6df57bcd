"""The report of a merge in short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_binlog.spark.job.options import Report, TableReport
from airflow_provider_binlog.status.merges import MergedTable, read_merge


def test_a_report_is_read_in_short() -> None:
    report = Report(
        "shop",
        7,
        [
            TableReport(
                "shop.orders", "lake", is_merged=True, rows={"inserted": 3, "deleted": None}
            ),
            TableReport("shop.items", "lake"),
            TableReport("shop.visits", "lake", error="no memory"),
        ],
        1.5,
        error="it failed",
    )

    read = read_merge(report.to_json().encode())

    assert read is not None
    assert (read.through, read.seconds, read.error, read.rows) == (7, 1.5, "it failed", 3)
    assert read.tables == (
        MergedTable("shop.orders", "merged", {"inserted": 3}, ""),
        MergedTable("shop.visits", "failed", {}, "no memory"),
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"null", b"[1]", b"\xff", b'{"through": "<b>", "seconds": 1}', b"[" * 100_000],
)
def test_what_is_no_report_is_none(data: bytes) -> None:
    assert read_merge(data) is None


@pytest.mark.parametrize(
    "change",
    [{"tables": None}, {"tables": [1]}, {"through": None}, {"seconds": "x"}, {"tables": [{}]}],
)
def test_a_report_of_another_form_is_none(change: dict[str, Any]) -> None:
    report = json.loads(Report("shop", 1, [], 0.0).to_json())

    assert read_merge(json.dumps(report | change).encode()) is None
