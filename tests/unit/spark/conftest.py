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


def pytest_configure(config: pytest.Config) -> None:
    # PySpark leaves the sockets over which it hands rows to the JVM to the garbage collector.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning",
    )
