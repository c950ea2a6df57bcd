"""What is refused before spark-submit is run, and what its end means."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import DAG, BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from airflow_provider_binlog import BinlogSnapshotOperator, BinlogSource, BinlogSubRangeOperator
from airflow_provider_binlog.errors import ConfigurationError, SparkJobError
from airflow_provider_binlog.hooks.object_storage import locate
from airflow_provider_binlog.operators.backlog import read_sub_ranges
from tests.unit.executors.test_job import CHUNKS

SHOP = BinlogSource("shop", start="now")


def snapshot(**arguments: Any) -> BinlogSnapshotOperator:
    defaults: dict[str, Any] = {"source": SHOP, "staging_path": "/s", "table": "shop.orders"}
    return BinlogSnapshotOperator(task_id="a", **{"engine": "spark", **defaults, **arguments})


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"engine": "flink"}, "engine is one of worker, spark"),
        ({"parallelism": 0}, "parallelism is a positive number"),
        ({"parallelism": "4"}, "parallelism is a positive number"),
        ({"engine": "worker", "spark": {"conf": {}}}, "are those of engine"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(
    arguments: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        snapshot(**arguments).check_engine()


@pytest.mark.parametrize(
    ("spark", "refusal"),
    [
        ({"deploy_mode": "cluster"}, "deploy_mode is client"),
        ({"executor_memmory": "1g"}, "arguments of a SparkSubmitOperator"),
        ({"application_args": ["--job", "x"]}, "arguments of a SparkSubmitOperator"),
        ({"conn_id": "no_such_spark"}, "Spark connection does not exist"),
    ],
)
def test_an_argument_of_spark_that_cannot_be_used_is_refused(
    spark: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        snapshot(spark=spark).run_on_spark("shop", CHUNKS)


@pytest.mark.parametrize("failure", [None, AirflowException("exit code 1")])
def test_an_application_that_ends_without_a_report_may_be_tried_again(
    failure: AirflowException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[SparkSubmitHook] = []

    def submit(self: SparkSubmitHook, application: str) -> None:
        submitted.append(self)
        if failure is not None:
            raise failure

    connection = Connection(conn_id="spark_default", conn_type="spark", host="local[2]")
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)
    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    operator = snapshot(spark={"conf": {"a": "b"}, "py_files": "/own.zip", "executor_memory": "2g"})

    with pytest.raises(SparkJobError, match="ended without a report") as raised:
        operator.run_on_spark("shop", CHUNKS)

    assert raised.value.retryable
    (hook,) = submitted
    command = " ".join(hook._build_spark_submit_command("app.py"))
    assert "--conf a=b" in command
    assert ".zip,/own.zip" in command
    assert "--executor-memory 2g" in command
    assert "planted" not in command


def test_a_timeout_ends_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow calls `on_kill` once the exception has left `execute`."""
    killed: list[bool] = []

    def submit(*_: object) -> None:
        raise AirflowTaskTimeout

    def on_kill(*_: object) -> None:
        killed.append(True)

    connection = Connection(conn_id="spark_default", conn_type="spark", host="local[2]")
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)
    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setattr(SparkSubmitHook, "on_kill", on_kill)
    operator = snapshot()

    with pytest.raises(AirflowTaskTimeout):
        operator.run_on_spark("shop", CHUNKS)
    operator.on_kill()

    assert killed == [True]


def test_all_sub_ranges_of_one_plan_are_staged_on_spark() -> None:
    ranges = [{"plan": "1-ab", "number": each} for each in range(2)]

    assert read_sub_ranges(ranges) == ("1-ab", (0, 1))
    others: list[Any] = [ranges[0], [], None, "1-ab"]
    for value in others:
        with pytest.raises(ConfigurationError, match="the list that the plan operator returned"):
            read_sub_ranges(value)
    with pytest.raises(ConfigurationError, match="not those of one plan"):
        read_sub_ranges([*ranges, {"plan": "2-cd", "number": 0}])


def test_every_argument_may_be_templated_as_a_worker_has_it() -> None:
    sub_range = BinlogSubRangeOperator(
        task_id="b", source=SHOP, staging_path="/s", sub_range=[], engine="spark"
    )

    for each in (snapshot(), sub_range):
        assert all(hasattr(each, name) for name in each.template_fields)
        each.on_kill()


def test_tables_that_executors_read_may_be_mapped() -> None:
    with DAG("many", schedule=None) as dag:
        BinlogSnapshotOperator.partial(
            task_id="a", source=SHOP, staging_path="/s", engine="spark", spark={"conf": {}}
        ).expand(table=["shop.a", "shop.b"])

    assert dag.get_task("a").is_mapped


def test_a_location_without_a_connection_is_reached_by_its_scheme() -> None:
    found = locate("file:///staging/binlog")

    system, path = found.open()
    assert path == "/staging/binlog"
    assert "file" in system.protocol


def test_executors_do_not_reach_the_memory_of_this_process() -> None:
    with pytest.raises(ConfigurationError, match="cannot reach this location"):
        locate("memory://staging")
