"""One Spark session that reads lake tables, kept for all comparisons."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.support.worker import serve

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CONF = "BINLOG_DEMO_SPARK_CONF"


def main() -> None:
    """Start Spark, and wait for calls."""
    spark = _start(json.loads(os.environ[CONF]))

    def read(relation: str) -> pa.Table:
        """Return a table, named as in FROM, or the result of a query in parentheses."""
        return spark.sql(f"SELECT * FROM {relation}").toArrow()

    def name(view: str, relation: str) -> None:
        """Let queries call a table by a shorter name."""
        spark.sql(f"CREATE OR REPLACE TEMP VIEW `{view}` AS SELECT * FROM {relation}")

    serve({"read": read, "name": name, "ready": lambda: None})


def _start(conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("binlog demo: comparison")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # What the first query would pay for.
    spark.sql("SELECT 1").toArrow()
    return spark


if __name__ == "__main__":
    main()
