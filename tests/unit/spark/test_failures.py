"""What Spark raises, in our words."""

from __future__ import annotations

from airflow_provider_binlog.errors import UnknownMergeError
from airflow_provider_binlog.spark.failures import explain


def test_any_other_error_may_pass() -> None:
    error = explain(TypeError("another"), table="shop.orders")

    assert isinstance(error, UnknownMergeError)
    assert error.context["cause"] == "TypeError: another"
