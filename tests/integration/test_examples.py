"""The example DAGs, run as they are: one way of staging, three ways of merging."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import airflow_provider_binlog.example_dags
from tests.fixtures import mysql
from tests.fixtures.mysql import Database
from tests.services.servers import Server
from tests.support.lake import Lake, aws_connection, store_conf
from tests.support.protected import find_planted
from tests.support.spark_conf import join_confs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.s3 import S3Server


SECRET = "pepper and salt"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Database]:
    """The database `shop` on a server that has logged nothing else: the DAGs begin at its start."""
    server = Server.create("mysql97", tmp_path / "server")
    server.start()
    mysql.execute(server, "CREATE DATABASE shop")
    yield Database(server, "shop")
    server.stop()


@pytest.fixture
def airflow(
    create_airflow: Callable[..., Airflow],
    shop: Database,
    s3_server: S3Server,
    spark_environment: SparkEnvironment,
    tmp_path: Path,
) -> Airflow:
    """An Airflow with the connections that the examples name, and a Spark that is set up."""
    server = shop.server
    binlog = {"conn_type": "binlog", "host": server.host, "port": server.port, "login": "root"}
    binlog["extra"] = json.dumps({"hash_secret": SECRET})
    conf = join_confs(spark_environment.conf, store_conf(s3_server))
    lines = [f"{name} {value}\n" for name, value in conf.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(lines))
    folder = Path(airflow_provider_binlog.example_dags.__file__).parent
    return create_airflow(
        **spark_environment.variables,
        AIRFLOW__CORE__DAGS_FOLDER=str(folder),
        AIRFLOW_CONN_BINLOG_DEFAULT=json.dumps(binlog),
        AIRFLOW_CONN_LAKE_S3=json.dumps(aws_connection(s3_server)),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
        # A plain SparkSubmitOperator takes the first spark-submit there is.
        PATH=f"{spark_environment.submit.parent}{os.pathsep}{os.environ['PATH']}",
        SPARK_CONF_DIR=str(tmp_path),
        TMPDIR=str(tmp_path),
    )


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_of_options_keeps_each_table_in_its_way(
    airflow: Airflow, shop: Database, s3_server: S3Server, spark_environment: SparkEnvironment
) -> None:
    files = s3_server.folder / "buckets" / "lake"
    lake = Lake("delta", "s3://lake", files, s3_server, "as_wanted")
    shop.execute(
        "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(40), password VARCHAR(40))",
        "CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT)",
        "CREATE TABLE prices (sku VARCHAR(20) PRIMARY KEY, cents INT)",
        "CREATE TABLE visits (page VARCHAR(20))",
        "INSERT INTO customers VALUES (1, 'zoe@example.com', 'planted')",
        "INSERT INTO orders VALUES (1, 1), (2, 1)",
        "INSERT INTO prices VALUES ('tea', 250), ('coffee', 300)",
        "INSERT INTO visits VALUES ('/'), ('/'), ('/tea')",
    )
    states = airflow.run_dag("binlog_options")
    assert set(states.values()) == {"success"}, states

    shop.execute(
        "INSERT INTO customers VALUES (2, 'bo@example.com', 'planted')",
        "DELETE FROM orders WHERE id = 1",
        "UPDATE prices SET cents = 275 WHERE sku = 'tea'",
        "DELETE FROM visits WHERE page = '/' LIMIT 1",
    )
    states = airflow.run_dag("binlog_options")
    assert states["merge"] == "success", states

    def rows(table: str, *columns: str) -> list[tuple[Any, ...]]:
        read = lake.read(lake.session(spark_environment), "shop", table)
        assert {*columns} <= {*read.column_names}
        assert "password" not in read.column_names
        return sorted(zip(*(read[name].to_pylist() for name in columns), strict=True))

    mails = {1: "zoe@example.com", 2: "bo@example.com"}
    assert rows("customers", "id", "email") == [
        (id_, hmac.new(SECRET.encode(), mail.encode(), "sha256").hexdigest())
        for id_, mail in mails.items()
    ]
    kept = rows("orders", "id", "_binlog_change_type", "_binlog_file")
    assert [row[:2] for row in kept] == [(1, "delete"), (2, "snapshot")]
    assert [row[1] is None for row in rows("orders", "id", "_deleted_at")] == [False, True]
    versions = rows("prices", "sku", "cents", "__START_AT", "__END_AT")
    assert [(*row[:2], row[3] is None) for row in versions] == [
        ("coffee", 300, True),
        ("tea", 250, False),
        ("tea", 275, True),
    ]
    assert [row[0] for row in rows("visits", "page")] == ["/", "/tea"]
    assert find_planted(files, ["planted", *mails.values()]) == []


@pytest.mark.slow  # seven Spark jobs; the main job's twin runs in test_surface_dag.py
@pytest.mark.spark
def test_the_examples_run(
    airflow: Airflow, shop: Database, s3_server: S3Server, spark_environment: SparkEnvironment
) -> None:
    files = s3_server.folder / "buckets" / "lake"
    delta = Lake("delta", "s3://lake", files, s3_server, "tables")
    iceberg = Lake("iceberg", "s3://lake", files, s3_server, "warehouse")
    shop.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))",
        "CREATE TABLE order_items (id INT PRIMARY KEY, sku VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO order_items VALUES (1, 'a')",
    )

    states = airflow.run_dag("binlog_plain_spark_submit")

    assert set(states.values()) == {"success"}, states
    assert airflow.checkpoint()["sequence"] == 1
    assert delta.differences(spark_environment, shop) == []

    shop.execute("UPDATE orders SET id = 3 WHERE id = 1", "DELETE FROM order_items")

    for dag_id in ("binlog_stage", "binlog_merge_delta", "binlog_merge_iceberg"):
        states = airflow.run_dag(dag_id)
        assert set(states.values()) == {"success"}, states

    assert airflow.checkpoint()["sequence"] == 2
    assert delta.differences(spark_environment, shop) == []
    assert iceberg.differences(spark_environment, shop) == []
