"""What Spark raises, in our words."""

from __future__ import annotations

from airflow_provider_binlog.errors import ConfigurationError, UnknownMergeError
from airflow_provider_binlog.spark.failures import explain


def test_a_session_without_the_jars_of_the_lake_format_is_named() -> None:
    error = explain(TypeError("'JavaPackage' object is not callable"), table="shop.orders")

    assert isinstance(error, ConfigurationError)
    assert "spark.jars.packages" in str(error)
    assert error.context == {"table": "shop.orders"}


def test_any_other_error_may_pass() -> None:
    error = explain(TypeError("another"), table="shop.orders")

    assert isinstance(error, UnknownMergeError)
    assert error.context["cause"] == "TypeError: another"
