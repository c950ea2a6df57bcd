"""BinlogMaintenanceOperator submits its job with its arguments, and refuses what would hurt."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogMaintenanceOperator
from airflow_provider_binlog.operators.spark_job import report_key
from airflow_provider_binlog.spark.maintenance.options import MaintenanceReport, parse_arguments
from tests.support.stores import open_store
from tests.unit.operators.test_merge import Instance, a_context


def maintenance(**given: Any) -> BinlogMaintenanceOperator:
    known = {
        "staged": {"source": "shop", "staging_path": "memory://maintained"},
        "format": "delta",
        "lake": "s3://lake/tables",
    }
    return BinlogMaintenanceOperator(task_id="maintain", **(known | given))


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(conn_id="spark_default", conn_type="spark", host="local[2]")
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)


def test_the_job_gets_its_options_and_its_report_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = MaintenanceReport("shop").to_json().encode()
    context, store = a_context(Instance()), open_store("memory://maintained")
    monkeypatch.setattr(
        SparkSubmitOperator,
        "execute",
        lambda *_: store.write(report_key("shop", context), report),
    )
    task = maintenance(tables=["shop.*"], exclude=["*.tmp"], keep=2 * 86400, compact=False)

    assert task.execute(context) == json.loads(report)

    options, location = parse_arguments(task.application_args)
    assert location == f"memory://maintained/{report_key('shop', context)}"
    assert (options.source, options.lake) == ("shop", "s3a://lake/tables")
    assert (list(options.tables), list(options.exclude)) == (["shop.*"], ["*.tmp"])
    assert (options.keep, options.compact) == (timedelta(days=2), False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": timedelta(hours=23)}, "a merge may run for a day"),
        ({"format": "postgresql", "lake": "warehouse"}, "autovacuum"),
    ],
)
def test_what_would_hurt_is_refused_before_spark_is_started(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        maintenance(**given).execute(a_context(Instance()))
