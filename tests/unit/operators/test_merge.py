"""BinlogMergeOperator is a SparkSubmitOperator with its arguments filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.merge import (
    BinlogMergeOperator,
    maybe_own_spark_submit,
    merge_arguments,
)
from airflow_provider_binlog.spark.merge_options import parse_arguments


def test_the_job_understands_its_arguments() -> None:
    arguments = merge_arguments(
        source="shop",
        staging_path="s3://conn@lake/staging",
        through=42,
        format="delta",
        lake="s3://lake/tables",
        tables=["shop.*", "crm.users"],
        exclude=["*.tmp"],
        table_name="{database}_{table}",
        keys={"shop.visits": ["day", "id"]},
    )

    options, report = parse_arguments([*arguments, "--report", "file:///r"])

    assert report == "file:///r"
    assert (options.source, options.through, options.format) == ("shop", 42, "delta")
    assert (options.staging, options.lake) == ("s3a://lake/staging", "s3a://lake/tables")
    assert (options.tables, options.exclude) == (("shop.*", "crm.users"), ("*.tmp",))
    assert options.table_name == "{database}_{table}"
    assert options.keys == {("shop", "visits"): ("day", "id")}


def test_everything_staged_is_merged_where_no_number_is_given() -> None:
    arguments = merge_arguments(
        source="shop", staging_path="/s", through=None, format="iceberg", lake="catalog"
    )

    options, _ = parse_arguments(arguments)

    assert (options.through, options.lake, options.tables) == (None, "catalog", ())


def test_another_format_is_refused() -> None:
    other: Any = "hudi"

    with pytest.raises(ConfigurationError, match="delta, iceberg"):
        merge_arguments(source="s", staging_path="/s", through=1, format=other, lake="/l")


def merge(**arguments: Any) -> BinlogMergeOperator:
    staged = {"source": "shop", "staging_path": "file:///tmp/s", "last_sequence": 1}
    given = {"staged": staged, "format": "delta", "lake": "/l", **arguments}
    return BinlogMergeOperator(task_id="merge", **given)


def test_what_a_spark_submit_operator_takes_it_takes() -> None:
    operator = merge(conn_id="cluster", conf={"a": "b"}, packages="x:y:1", executor_memory="2g")

    assert operator.conf == {"a": "b"}
    assert operator.packages == "x:y:1"
    assert all(hasattr(operator, name) for name in operator.template_fields)


def test_a_spark_connection_that_does_not_exist_is_not_taken_for_yarn() -> None:
    with pytest.raises(AirflowFailException, match="no_such_spark"):
        merge(conn_id="no_such_spark").execute({})


@pytest.mark.parametrize("staged", [None, "shop", {"source": "shop"}])
def test_what_no_extract_returned_is_refused(staged: Any) -> None:
    with pytest.raises(AirflowFailException, match="extract operator returned"):
        merge(staged=staged).execute({})


def test_it_can_be_mapped_over_lakes() -> None:
    with DAG("many", schedule=None) as dag:
        BinlogMergeOperator.partial(task_id="merge", staged={}).expand_kwargs(
            [{"format": "delta", "lake": "/l"}, {"format": "iceberg", "lake": "catalog"}]
        )

    assert dag.get_task("merge").is_mapped


def test_spark_submit_of_this_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = maybe_own_spark_submit()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")

    assert found is not None
    assert Path(found).name == "spark-submit"
    assert maybe_own_spark_submit() is None
