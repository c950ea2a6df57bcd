"""Iceberg tables in catalogs that are services: a REST server, on S3, and a database by JDBC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_binlog.spark.job.session import iceberg_conf
from tests.integration.test_object_store import store_at
from tests.services.iceberg_rest import RestCatalogServer
from tests.services.s3 import S3Server
from tests.support.lake import store_conf
from tests.support.pipeline import Pipeline
from tests.unit.spark.session import add_catalog, load_catalog_drivers

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.fixture
def rest(run_folder: Path, s3_server: S3Server) -> Iterator[RestCatalogServer]:
    """A REST server, whose tables are on S3."""
    server = RestCatalogServer(run_folder / "rest", s3_server, f"s3://lake/{uuid4().hex}")
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["rest", "jdbc"])
def pipeline(
    request: pytest.FixtureRequest, create_pipeline: Callable[..., Pipeline], tmp_path: Path
) -> Pipeline:
    """A pipeline into a catalog of each type; that of REST stages on S3, too."""
    made: Pipeline = create_pipeline("mysql97", "iceberg")
    load_catalog_drivers(made.workplace.spark)
    catalog = f"by_{request.param}"
    conf = iceberg_conf(catalog, f"file://{tmp_path}/{request.param}")
    prefix = f"spark.sql.catalog.{catalog}"
    conf[f"{prefix}.type"] = request.param
    if request.param == "rest":
        s3: S3Server = request.getfixturevalue("s3_server")
        stage_on_s3(made, s3)
        conf |= {
            f"{prefix}.client.region": s3.region,
            f"{prefix}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{prefix}.s3.endpoint": s3.endpoint,
            f"{prefix}.s3.path-style-access": "true",
            f"{prefix}.uri": request.getfixturevalue("rest").uri,
        }
        # The server's.
        del conf[f"{prefix}.warehouse"]
    else:
        conf[f"{prefix}.uri"] = f"jdbc:sqlite:{tmp_path}/catalog.db"
        conf[f"{prefix}.jdbc.schema-version"] = "V1"
    add_catalog(made.workplace.spark, conf)
    made.workplace.catalog = catalog
    return made


def stage_on_s3(pipeline: Pipeline, s3: S3Server) -> None:
    """Let a pipeline stage in a folder of its own on S3."""
    folder, workplace = f"lake/{uuid4().hex}", pipeline.workplace
    hadoop: Any = workplace.spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in store_conf(s3).items():
        hadoop.set(name.removeprefix("spark.hadoop."), value)
    workplace.root = f"s3a://{folder}"
    workplace.store = store_at(s3, f"s3://{folder}/staging")


@pytest.mark.fault("catalogs", servers="mysql97", lakes="iceberg", stores="file s3")
def test_what_the_merge_does_to_tables(pipeline: Pipeline) -> None:
    database = pipeline.database
    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(12, 2), note VARCHAR(40), n INT)",
        "CREATE TABLE `große tabelle` (id BIGINT UNSIGNED PRIMARY KEY, at DATETIME(6))",
        "CREATE TABLE cleared (id INT PRIMARY KEY)",
        "INSERT INTO orders VALUES (1, 1.50, '漢😀', 1), (2, -20, NULL, 2), (3, 0, 'last', 3)",
        "INSERT INTO `große tabelle` VALUES (18446744073709551615, '1000-01-01 00:00:00.5')",
        "INSERT INTO cleared VALUES (1), (2)",
    )
    pipeline.run()

    database.execute(
        "UPDATE orders SET note = 'changed' WHERE id = 2",
        "DELETE FROM orders WHERE id = 3",
        "ALTER TABLE orders RENAME COLUMN note TO remark, MODIFY n BIGINT, ADD due DATE",
        "INSERT INTO orders VALUES (4, 4, 'new', 1 << 40, '9999-12-31')",
        "TRUNCATE cleared",
        "INSERT INTO cleared VALUES (3)",
        "CREATE TABLE late (id INT PRIMARY KEY, b BLOB)",
        "INSERT INTO late VALUES (1, X'00FF')",
    )
    pipeline.run()

    assert [row[0] for row in database.query("SELECT id FROM orders")] == [1, 2, 4]
    database.execute("ALTER TABLE orders DROP COLUMN due", "UPDATE orders SET total = 0")
    pipeline.run()
    (path,) = files_of(pipeline, "late")
    # Only S3FileIO reads this scheme; Spark itself has it as s3a.
    assert path.startswith("s3://" if pipeline.workplace.catalog == "by_rest" else "file:")


def files_of(pipeline: Pipeline, table: str) -> list[str]:
    """Return where the rows of a lake table are."""
    workplace = pipeline.workplace
    name = f"{workplace.catalog}.`{pipeline.database.name}`.{table}.files"
    return [row[0] for row in workplace.spark.sql(f"SELECT file_path FROM {name}").collect()]
