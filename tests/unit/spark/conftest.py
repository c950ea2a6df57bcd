"""Spark for the tests of the merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures.spark import SparkEnvironment


@pytest.fixture(scope="session")
def spark(spark_environment: SparkEnvironment) -> SparkSession:
    return shared_session(spark_environment)
