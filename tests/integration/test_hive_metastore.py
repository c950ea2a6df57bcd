"""Delta tables of a Hive metastore, merged by one application and another, and read by a third."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet
import pytest

from airflow_provider_binlog.spark.job.options import APPLICATION, build_py_files
from airflow_provider_binlog.spark.job.session import delta_conf
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.fixtures.spark import SparkEnvironment
from tests.services.hive_metastore import HiveMetastore
from tests.support import read_tables
from tests.support.compare import compare, select
from tests.support.compare import read_tables as tables_of
from tests.support.pipeline import Pipeline
from tests.support.spark_conf import join_confs

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.slow,  # three Spark jobs
    pytest.mark.timeout(900),
]

RULES = TableRules({"*": TableOptions(target="{database}.{table}")})


@pytest.fixture
def metastore(run_folder: Path) -> Iterator[HiveMetastore]:
    """A metastore that outlives the applications."""
    made = HiveMetastore(run_folder / "hive")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def submit(
    metastore: HiveMetastore, spark_environment: SparkEnvironment, tmp_path: Path
) -> Callable[..., None]:
    """Run an application that has the metastore's catalog."""
    conf = join_confs(spark_environment.conf, delta_conf(), metastore.conf)

    def run(application: str, *arguments: str) -> None:
        command = [*spark_environment.command(conf), "--driver-memory", "512m"]
        command += ["--py-files", str(build_py_files(tmp_path)), application, *arguments]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | spark_environment.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]

    return run


@pytest.mark.fault("catalogs", servers="mysql97", lakes="delta", stores="file")
def test_tables_of_a_hive_metastore(
    create_pipeline: Callable[..., Pipeline], submit: Callable[..., None], tmp_path: Path
) -> None:
    pipeline = create_pipeline("mysql97", "delta")
    options = pipeline.workplace.options()
    merge = ["--staging", options.staging, "--source", options.source, "--format", "delta"]
    merge += ["--lake", "spark_catalog", "--options", RULES.to_text()]
    pipeline.database.execute(
        "CREATE TABLE Orders (id INT PRIMARY KEY, total DECIMAL(12, 2), `a, b` VARCHAR(40), n INT)",
        "INSERT INTO Orders VALUES (1, 1.50, '漢😀', 1), (2, -20, NULL, 2), (3, 0, 'last', 3)",
        "CREATE TABLE cleared (id BIGINT UNSIGNED PRIMARY KEY, at DATETIME(6))",
        "INSERT INTO cleared VALUES (1, NULL)",
    )
    pipeline.capture()
    submit(str(APPLICATION), *merge)

    pipeline.database.execute(
        "UPDATE Orders SET `a, b` = 'changed' WHERE id = 2",
        "DELETE FROM Orders WHERE id = 3",
        "ALTER TABLE Orders RENAME COLUMN `a, b` TO remark, MODIFY n BIGINT, ADD due DATE",
        "INSERT INTO Orders VALUES (4, 4, 'new', 1 << 40, '9999-12-31')",
        "TRUNCATE cleared",
        "INSERT INTO cleared VALUES (18446744073709551615, '1000-01-01 00:00:00.5')",
        "CREATE TABLE late (id INT PRIMARY KEY, b BLOB)",
        "INSERT INTO late VALUES (1, X'00FF')",
    )
    pipeline.capture()
    submit(str(APPLICATION), *merge)

    with closing(pipeline.database.connect()) as connection:
        tables = list(tables_of(connection, pipeline.database.name))
        assert [table.name for table in tables] == ["Orders", "cleared", "late"]
        files = {table.name: tmp_path / f"{table.name}.parquet" for table in tables}
        named = [(f"{pipeline.database.name}.{name}", str(files[name])) for name in files]
        submit(str(read_tables.__file__), *(part for each in named for part in each))
        for table in tables:
            lake = pyarrow.parquet.read_table(files[table.name]).to_pydict()
            assert list(compare(table, select(connection, table), lake)) == []
