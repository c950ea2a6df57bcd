"""Where a DAG under test stages and merges, and whether its lake holds what SELECT returns."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf
from tests.support.compare import Difference, compare, read_tables, select
from tests.support.spark_conf import join_confs, s3a_conf
from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.s3 import S3Server

CATALOG = "target"


@dataclass(frozen=True)
class Lake:
    """Staging area and tables of one format below one folder.

    Attributes:
        format: `delta` or `iceberg`.
        root: The folder's URI for Airflow, without a connection.
        files: The same folder as this machine sees it: our S3 server keeps objects as files.
        s3: The server of the store; None where files are files.
        folder: Name of the tables' folder below the root.
    """

    format: str
    root: str
    files: Path
    s3: S3Server | None = None
    folder: str = "lake"

    @classmethod
    def in_folder(cls, format_: str, folder: Path) -> Lake:
        """Return one over `file://`."""
        return cls(format_, f"file://{folder}", folder)

    @classmethod
    def on_s3(cls, format_: str, server: S3Server) -> Lake:
        """Return one over `s3://`."""
        folder = uuid4().hex
        return cls(format_, f"s3://lake/{folder}", server.folder / "buckets/lake" / folder, server)

    @property
    def staging(self) -> str:
        """The staging area, as the operators take it."""
        return f"{self.root}/staging".replace("s3://", "s3://lake_s3@")

    @property
    def connections(self) -> dict[str, str]:
        """How Airflow and its Spark jobs reach the store, as environment variables."""
        if self.s3 is None:
            return {}
        connection = {"AIRFLOW_CONN_LAKE_S3": json.dumps(aws_connection(self.s3))}
        return self.s3.environment | connection

    @property
    def location(self) -> str:
        """What the merge operator takes as its `lake`."""
        return CATALOG if self.format == "iceberg" else f"{self.root}/{self.folder}"

    def spark_conf(self, environment: SparkEnvironment) -> dict[str, str]:
        """Return the settings of the Spark that merges; it finds its keys in the environment."""
        conf = join_confs(environment.conf, self.format_conf())
        store = {} if self.s3 is None else store_conf(self.s3)
        return join_confs(conf, {name: store[name] for name in store if "key" not in name})

    def format_conf(self) -> dict[str, str]:
        """Return the settings of the tables' format."""
        return delta_conf() if self.format == "delta" else iceberg_conf(CATALOG, self.tables)

    @property
    def tables(self) -> str:
        """The folder of the tables, as Spark names it."""
        return f"{self.root}/{self.folder}".replace("s3://", "s3a://")

    def staged_files(self) -> set[Path]:
        """Return every file of the staging area."""
        return {each for each in (self.files / "staging").rglob("*") if each.is_file()}

    def read(self, session: SparkSession, database: str, table: str) -> pa.Table:
        """Return a table of the lake."""
        if self.format == "delta":
            return session.sql(f"SELECT * FROM delta.`{self.tables}/{database}/{table}`").toArrow()
        return session.sql(f"SELECT * FROM {CATALOG}.`{database}`.`{table}`").toArrow()

    def differences(self, environment: SparkEnvironment, database: Database) -> list[Difference]:
        """Compare every table of the database with the lake; return what is not equal."""
        session = self.session(environment)
        found: list[Difference] = []
        with database.connect() as connection:
            for table in read_tables(connection, database.name):
                lake = self.read(session, database.name, table.name).to_pydict()
                source = select(connection, table)
                if table.key:
                    found += compare(table, source, lake)
                else:
                    found += _compare_sorted(source, lake)
        return found

    def session(self, environment: SparkEnvironment) -> SparkSession:
        """Return a session that reads the lake."""
        shared = shared_session(environment)
        if self.s3 is not None:
            hadoop: Any = shared.sparkContext._jsc
            for name, value in store_conf(self.s3).items():
                hadoop.hadoopConfiguration().set(name.removeprefix("spark.hadoop."), value)
        # It logs every connection, also when the stream that it wrote to is closed.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        session = shared.newSession()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        if self.format == "iceberg":
            for name, value in self.format_conf().items():
                if name.startswith("spark.sql.catalog."):
                    session.conf.set(name, value)
        return session


def store_conf(server: S3Server) -> dict[str, str]:
    """Return the settings by which Spark reaches an S3 server."""
    return s3a_conf(
        endpoint=server.endpoint, access_key=server.access_key, secret_key=server.secret_key
    )


def aws_connection(server: S3Server) -> dict[str, Any]:
    """Return the fields of the Airflow connection to an S3 server."""
    return {
        "conn_type": "aws",
        "login": server.access_key,
        "password": server.secret_key,
        "extra": {"endpoint_url": server.endpoint, "region_name": server.region},
    }


def _compare_sorted(source: list[dict[str, Any]], lake: dict[str, list[Any]]) -> list[Difference]:
    """Compare a table without a key: its changes are appended, here only inserts."""
    expected = sorted(repr(tuple(row.values())) for row in source)
    names = source[0].keys()
    found = sorted(map(repr, zip(*(lake[name] for name in names), strict=True)))
    return [] if expected == found else [Difference((), "", expected, found)]
