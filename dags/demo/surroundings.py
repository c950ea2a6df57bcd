"""Where the demo's files are, and how Airflow and Spark are configured."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf
from dags.demo.choice import Choice
from dags.demo.lake_worker import CONF, DATABASE
from tests.services.jars import postgresql_jars, spark_jars
from tests.services.java import java_home
from tests.services.postgresql import PostgresServer
from tests.services.processes import ROOT, RUN_FOLDER, end_all
from tests.services.progress import ServiceError
from tests.services.s3 import S3Server
from tests.support.spark_conf import join_confs, s3a_conf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = RUN_FOLDER / "demo"
SOURCE = "shop"
"""The source's name, as the DAG has it."""

BUCKET = "lake"
CATALOG = "lake"

_LAST = FOLDER / "demo.json"
_S3_CONNECTION = "lake_s3"
_POSTGRESQL_CONNECTION = "warehouse"
_QUIET = " ".join(
    f"{name}=INFO"
    for name in (
        "airflow.task.operators.airflow_provider_binlog",
        "airflow.task.hooks.airflow_provider_binlog",
        "airflow_provider_binlog",
    )
)


def remember(choice: Choice) -> None:
    """Write down what this demo runs on, for the UI and for queries."""
    # An address may hold a password.
    value = asdict(choice) | {"dsn": choice.dsn and "mysql://user@server"}
    _LAST.write_text(json.dumps(value))


def maybe_last() -> Choice | None:
    """Return what the last demo ran on; None where there was none."""
    return Choice(**json.loads(_LAST.read_text())) if _LAST.exists() else None


@contextmanager
def hold() -> Iterator[None]:
    """Be the only one who uses the folder.

    Raises:
        ServiceError: Somebody else does.
    """
    FOLDER.parent.mkdir(exist_ok=True)
    with (FOLDER.parent / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "a demo, or its UI, is running in this folder: end it first"
            raise ServiceError(message) from None
        yield


def clear() -> None:
    """Begin from nothing."""
    if FOLDER.exists():
        end_all(FOLDER)
        shutil.rmtree(FOLDER)
    for name in ("airflow", "server", "staging", "lake", "logs"):
        (FOLDER / name).mkdir(parents=True)


def open_database(choice: Choice) -> PostgresServer | None:
    """Return the PostgreSQL server, running; None where tables are files."""
    if choice.target != "postgresql":
        return None
    server = PostgresServer.create("postgresql18", FOLDER / "postgresql")
    server.start()
    return server


def open_store(choice: Choice) -> S3Server | None:
    """Return the S3 server, running; None where files are files."""
    if choice.store != "s3":
        return None
    server = S3Server.create(FOLDER / "s3")
    server.start()
    server.create_bucket(BUCKET)
    return server


@dataclass(frozen=True)
class Surroundings:
    """What a demo runs in.

    Attributes:
        s3: The store's server; None where files are files.
        postgresql: The tables' server; None where tables are files.
    """

    choice: Choice
    dsn: str
    s3: S3Server | None = None
    postgresql: PostgresServer | None = None

    @property
    def files(self) -> Path:
        """The folder with everything that is stored: an object of our S3 server is a file too."""
        return FOLDER / "s3" / "buckets" / BUCKET if self.choice.store == "s3" else FOLDER

    @property
    def staging(self) -> Path:
        """The folder of what is staged."""
        return self.files / "staging" / SOURCE

    @property
    def manifests(self) -> list[Path]:
        """The manifests, oldest first."""
        return sorted((self.staging / "manifests").glob("*.json"))

    @property
    def parts(self) -> list[Path]:
        """The staged Parquet files."""
        return sorted(self.staging.rglob("*.parquet"))

    def lake(self, scheme: str = "s3a") -> str:
        """Return the URI of the lake's tables."""
        return f"{self._store(scheme)}/lake"

    @property
    def location(self) -> str:
        """Return what the DAG has as its `lake`."""
        if self.postgresql is not None:
            return _POSTGRESQL_CONNECTION
        return CATALOG if self.choice.target == "iceberg" else self.lake("s3")

    def relation(self, table: str) -> str:
        """Return a lake table's name for FROM."""
        if self.postgresql is not None:
            return f"{self.choice.database}.{table}"
        if self.choice.target == "iceberg":
            return f"{CATALOG}.`{self.choice.database}`.`{table}`"
        return f"delta.`{self.lake('s3a')}/{self.choice.database}/{table}`"

    def spark_conf(self) -> dict[str, str]:
        """Return Spark's settings: jars, format, store, and what makes small jobs quick."""
        conf = {
            "spark.jars": ",".join(str(jar) for jar in spark_jars() + postgresql_jars()),
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.driver.bindAddress": "127.0.0.1",
            # Two minutes of work on few rows: compiling well costs more than it saves.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(FOLDER / "spark"),
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
            "spark.sql.warehouse.dir": str(FOLDER / "spark" / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        if self.choice.target == "iceberg":
            conf = join_confs(conf, iceberg_conf(CATALOG, self.lake("s3a")))
        else:
            conf = join_confs(conf, delta_conf())
        if self.s3 is not None:
            store = s3a_conf(
                endpoint=self.s3.endpoint,
                access_key=self.s3.access_key,
                secret_key=self.s3.secret_key,
            )
            conf = join_confs(conf, store)
        return conf

    def spark_environment(self) -> dict[str, str]:
        """Return the environment of the session that compares."""
        own = {
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            CONF: json.dumps(self.spark_conf()),
        }
        if self.postgresql is not None:
            own[DATABASE] = json.dumps(self.postgresql.connection)
        # A Spark of the machine's would be another version.
        return {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | own

    def airflow_environment(self, **more: str) -> dict[str, str]:
        """Return the environment of Airflow: its home, its connections, the DAG's settings."""
        store = self._store("s3", f"{_S3_CONNECTION}@")
        own = {
            "AIRFLOW_HOME": str(FOLDER / "airflow"),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "AIRFLOW__LOGGING__NAMESPACE_LEVELS": _QUIET,
            "AIRFLOW_CONN_BINLOG_DEFAULT": "binlog" + self.dsn[self.dsn.index(":") :],
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
            "BINLOG_SHOP_FORMAT": self.choice.target,
            "BINLOG_SHOP_LAKE": self.location,
            "BINLOG_SHOP_SPARK": json.dumps({"conf": self.spark_conf()}),
            "BINLOG_SHOP_STAGING": f"{store}/staging",
            "BINLOG_SHOP_TABLES": f"{self.choice.database}.*",
        }
        if self.postgresql is not None:
            own[f"AIRFLOW_CONN_{_POSTGRESQL_CONNECTION.upper()}"] = json.dumps(
                self.postgresql.connection
            )
        if self.s3 is not None:
            own[f"AIRFLOW_CONN_{_S3_CONNECTION.upper()}"] = json.dumps(
                {
                    "conn_type": "aws",
                    "login": self.s3.access_key,
                    "password": self.s3.secret_key,
                    "extra": {"endpoint_url": self.s3.endpoint, "region_name": self.s3.region},
                }
            )
        return self.spark_environment() | own | more

    def _store(self, scheme: str, connection: str = "") -> str:
        """Return the URI of everything that is stored."""
        if self.choice.store == "s3":
            return f"{scheme}://{connection}{BUCKET}"
        return f"file://{FOLDER}"
