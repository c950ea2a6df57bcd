"""The spark-submit of a connection, and its environment."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from airflow_provider_binlog.hooks.binlog import find_connection


@dataclass(frozen=True)
class SubmitEnvironment:
    """The program and the variables that submit a job; for a cluster both are Airflow's own.

    Attributes:
        spark_binary: The program; None for the first one on the PATH.
        env_vars: Variables of its environment.
    """

    spark_binary: str | None = None
    env_vars: dict[str, str] = field(default_factory=dict)


def find_environment(conn_id: str) -> SubmitEnvironment:
    """Return what submits to a Spark connection.

    Raises:
        ConnectionNotFoundError: There is no such connection.
    """
    # The hook does not check: without a connection it submits to YARN.
    connection = find_connection(
        conn_id,
        "the Spark connection does not exist, or its URI cannot be read (a master such as "
        'local[2] takes the JSON form {"conn_type": "spark", "host": "local[2]"})',
    )
    if not re.match(r"local(-cluster)?(\[|$)", connection.host or ""):
        return SubmitEnvironment()
    # A local master: use the Spark and Python of Airflow's environment, not the first on the PATH.
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return SubmitEnvironment(find_own_spark_submit(), python)


def find_own_spark_submit() -> str | None:
    """Return spark-submit of the PySpark installed in this environment; None without one.

    None as well if SPARK_HOME is set, which names another Spark.
    """
    spec = None if os.environ.get("SPARK_HOME") else find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "spark-submit"
    return str(path) if path.exists() else None
