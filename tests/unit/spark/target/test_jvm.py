"""Whether Spark has what a merge needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.target import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_session_without_the_jars_of_the_lake_format_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for format_ in ("delta", "iceberg"):
        jvm.check_jars(spark, format_)
    monkeypatch.setattr(jvm, "_CLASSES", {"delta": "org.example.NotThere"})

    with pytest.raises(ConfigurationError, match=r"jars of delta: .*spark.jars.packages") as raised:
        jvm.check_jars(spark, "delta")

    assert raised.value.context == {"missing": "org.example.NotThere", "spark": spark.version}


def test_a_catalog_that_spark_does_not_have_is_named(spark: SparkSession) -> None:
    jvm.check_catalog(spark, "lake")

    with pytest.raises(ConfigurationError, match="no catalog of this name") as raised:
        jvm.check_catalog(spark, "file:///lake")

    assert raised.value.context["missing"] == "spark.sql.catalog.file:///lake"
