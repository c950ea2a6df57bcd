"""What Spark raises, in our words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException

from airflow_provider_binlog.errors import UnknownMergeError
from airflow_provider_binlog.spark.failures import explain


def test_any_other_error_may_pass() -> None:
    error = explain(TypeError("another"), table="shop.orders")

    assert isinstance(error, UnknownMergeError)
    assert error.context["cause"] == "TypeError: another"


def test_a_file_that_was_vacuumed_meanwhile_is_not_missed_by_the_next_merge() -> None:
    missing = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: "java.io.FileNotFoundException"),
        getMessage=lambda: "No such file: part-00000.parquet",
        getCause=lambda: None,
    )
    raised: Any = PySparkException("a task failed")
    raised._origin = missing

    error = explain(raised, table="shop.orders")

    assert error.retryable
    assert "removed while" in str(error)
