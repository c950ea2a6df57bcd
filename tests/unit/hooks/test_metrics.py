"""Metrics: each one arrives, whatever the values of its tags are."""

from __future__ import annotations

import pytest
from airflow.sdk.observability import stats

from airflow_provider_binlog.hooks import metrics


class Client:
    """A StatsD client that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}

    def gauge(self, name: str, value: float, *_: object) -> None:
        self.sent[name] = value

    incr = gauge


def test_the_name_of_a_lake_that_is_a_url_is_a_tag_of_statsd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    logger = "airflow.sdk._shared.observability.metrics.statsd_logger"
    # Airflow 3.4 has it with its extra statsd alone.
    module = pytest.importorskip(logger, exc_type=ImportError)
    statsd = module.SafeStatsdLogger(
        client, influxdb_tags_enabled=True, statsd_influxdb_enabled=True
    )
    for name in ("gauge", "incr"):
        monkeypatch.setattr(stats, name, getattr(statsd, name))
    report = {"source": "shop", "tables": [], "versions": {"shop.orders": 3}}

    metrics.send_merged(report, "delta", "s3://lake/tables")

    tags = "source=shop,format=delta,lake=s3___lake_tables"
    assert client.sent[f"binlog.tables,{tags},state=live"] == 1
    assert client.sent[f"binlog.merged_rows,{tags}"] == 0
