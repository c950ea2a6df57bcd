"""The DAG of the shop, over a database and a lake of a test."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_binlog.transport.server import queries
from tests.support.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.spark_cluster import SparkCluster

ROOT = Path(__file__).parents[2]
DAG_ID = "binlog_changes"
CHUNK_BYTES = 4096


def create_shop_airflow(
    create_airflow: Callable[..., Airflow],
    database: Database,
    lake: Lake,
    environment: SparkEnvironment,
    **account: str,
) -> Airflow:
    """Return an Airflow whose DAG captures the database from now on into the lake."""
    server = database.server
    address = {"conn_type": "binlog", "host": server.host, "port": server.port}
    binlog = address | (account or {"login": "root"})
    with closing(database.connect()) as connection:
        # The log of a server that tests share holds events that capture refuses.
        start = queries.log_end(connection)
    return create_airflow(
        **environment.variables,
        **lake.connections,
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_CONN_BINLOG_DEFAULT=json.dumps(binlog),
        # A cluster is submitted to by the first on the path.
        PATH=f"{environment.submit.parent}:{os.environ['PATH']}",
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
        BINLOG_SHOP_START=f"{start.file}:{start.offset}",
        BINLOG_SHOP_TABLES=f"{database.name}.*",
        BINLOG_SHOP_STAGING=lake.staging,
        BINLOG_SHOP_FORMAT=lake.format,
        BINLOG_SHOP_LAKE=lake.location,
        BINLOG_SHOP_SNAPSHOT=json.dumps({"chunk_bytes": CHUNK_BYTES}),
        BINLOG_SHOP_SPARK=json.dumps({"conf": lake.spark_conf(environment)}),
    )


def submit_to(cluster: SparkCluster, airflow: Airflow) -> None:
    """Let the DAG's tasks submit to a cluster."""
    connection = {"conn_type": "spark", "host": cluster.master}
    airflow.variables["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(connection)
