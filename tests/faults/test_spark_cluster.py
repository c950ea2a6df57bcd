"""The one-call DAG on a standalone cluster, which loses an executor and a worker in mid-merge."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.fixtures.airflow import Airflow
from tests.fixtures.mysql import Database
from tests.fixtures.spark import SparkEnvironment
from tests.services.s3 import S3Server
from tests.services.servers import Server
from tests.services.spark_cluster import SparkCluster
from tests.support.lake import Lake
from tests.support.shop_dag import create_shop_airflow, submit_to

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


class Killer(threading.Thread):
    """Kills the executor of the first worker, and then the second worker, each at its tasks."""

    def __init__(self, cluster: SparkCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self.ending = threading.Event()
        self.killed: list[str] = []

    def run(self) -> None:
        """Kill both."""
        executor = self._await_tasks(worker=0)
        if executor is not None:
            os.kill(executor, signal.SIGKILL)
            self.killed.append("executor")
        if self._await_tasks(worker=1) is not None:
            self._cluster.kill_worker(1)
            self.killed.append("worker")

    def _await_tasks(self, *, worker: int) -> int | None:
        while not self.ending.is_set():
            for executor, of in self._cluster.executors().items():
                if of == worker and self._cluster.has_run_tasks(executor):
                    return executor
            time.sleep(0.05)
        return None


@pytest.fixture
def lake(format_: str, s3_server: S3Server) -> Lake:
    return Lake.on_s3(format_, s3_server)


@pytest.fixture
def database(create_database: Callable[[Server], Database], mysql97: Server) -> Database:
    return create_database(mysql97)


@pytest.mark.fault("cluster-mode", lakes="delta", stores="s3")
def test_cluster_mode_is_refused_by_spark_submit(
    create_airflow: Callable[..., Airflow],
    database: Database,
    lake: Lake,
    spark_environment: SparkEnvironment,
) -> None:
    """For Python on a standalone cluster; the next run, in client mode, makes it good."""
    airflow = create_shop_airflow(create_airflow, database, lake, spark_environment)
    client = airflow.variables["AIRFLOW_CONN_SPARK_DEFAULT"]
    extra = {"deploy-mode": "cluster"}
    cluster = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 7077, "extra": extra}
    airflow.variables["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(cluster)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")

    states = airflow.run_dag("binlog_shop")

    assert (states["stage"], states["merge"]) == ("success", "failed"), states
    printed = "".join(path.read_text() for path in airflow.home.rglob("*.log") if path.is_file())
    assert "Cluster deploy mode is currently not supported for python" in printed
    airflow.stop()
    airflow.variables["AIRFLOW_CONN_SPARK_DEFAULT"] = client
    states = airflow.run_dag("binlog_shop")
    assert states["merge"] == states["checkpoint"] == "success", states
    assert lake.differences(spark_environment, database) == []


@pytest.mark.fault("executor-killed", lakes="delta iceberg", stores="s3")
@pytest.mark.fault("worker-killed", lakes="delta iceberg", stores="s3")
def test_an_executor_and_a_worker_that_are_killed(
    spark_cluster: SparkCluster,
    create_airflow: Callable[..., Airflow],
    database: Database,
    lake: Lake,
    spark_environment: SparkEnvironment,
) -> None:
    airflow = create_shop_airflow(create_airflow, database, lake, spark_environment)
    submit_to(spark_cluster, airflow)
    for number in range(4):
        database.execute(
            f"CREATE TABLE t{number} (id INT PRIMARY KEY, note VARCHAR(40), a DECIMAL(12, 2))",
            f"INSERT INTO t{number} VALUES (1, '漢😀', 1.5), (2, NULL, -20), (3, '', 0)",
        )
    killer = Killer(spark_cluster)

    killer.start()
    states = airflow.run_dag("binlog_shop")
    killer.ending.set()
    killer.join()

    assert set(states.values()) == {"success"}, states
    assert killer.killed == ["executor", "worker"]
    assert lake.differences(spark_environment, database) == []

    database.execute("UPDATE t0 SET note = 'changed'", "DELETE FROM t1 WHERE id = 2")
    states = airflow.run_dag("binlog_shop")

    assert states["merge"] == states["checkpoint"] == "success", states
    assert lake.differences(spark_environment, database) == []
    assert spark_cluster.alive_workers() == 1
