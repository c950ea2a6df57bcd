"""One Spark session that reads lake tables, kept for all comparisons."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.postgresql.settings import DRIVER
from tests.support.worker import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

CONF = "BINLOG_DEMO_SPARK_CONF"
DATABASE = "BINLOG_DEMO_DATABASE"


def main() -> None:
    """Start Spark, and wait for calls."""
    spark = _start(json.loads(os.environ[CONF]))

    def read(relation: str) -> pa.Table:
        """Return a table, named as in FROM, or the result of a query in parentheses."""
        return spark.sql(f"SELECT * FROM {relation}").toArrow()

    def read_columns(relation: str) -> dict[str, list[Any]]:
        """Return the values of a lake table by column, as Arrow gives them to Python."""
        if DATABASE not in os.environ:
            columns: dict[str, list[Any]] = read(relation).to_pydict()
            return columns
        return _read_database(spark, *relation.split(".", 1))

    def name(view: str, relation: str) -> None:
        """Let queries call a table by a shorter name."""
        if DATABASE not in os.environ:
            spark.sql(f"CREATE OR REPLACE TEMP VIEW `{view}` AS SELECT * FROM {relation}")
            return
        given = json.loads(os.environ[DATABASE])
        url = f"jdbc:postgresql://{given['host']}:{given['port']}/{given['schema']}"
        options = {"user": given["login"], "password": given["password"], "driver": DRIVER}
        spark.read.jdbc(url, relation, properties=options).createOrReplaceTempView(view)

    calls: dict[str, Callable[..., Any]] = {
        "read": read,
        "read_columns": read_columns,
        "name": name,
        "ready": lambda: None,
    }
    serve(calls)


def _read_database(spark: SparkSession, schema: str, table: str) -> dict[str, list[Any]]:
    from contextlib import closing

    from airflow_provider_binlog.spark.target.postgresql.connection import Connection
    from airflow_provider_binlog.spark.target.postgresql.settings import PostgresSettings
    from tests.support.postgresql import read_table

    given = json.loads(os.environ[DATABASE])
    account = given["login"], given["password"]
    settings = PostgresSettings(given["host"], given["port"], given["schema"], *account)
    with closing(Connection(spark, settings)) as connection:
        return read_table(connection, schema, table)


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
