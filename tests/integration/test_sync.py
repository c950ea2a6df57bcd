"""`sync` brings a server's tables into a folder, continues there, and survives its own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

FOLDER = "my 1% läke"


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.timeout(1200)
def test_a_folder_holds_what_select_returns_after_each_call(
    format_: str,
    mysql97: Server,
    create_database: Callable[[Server], Database],
    spark_environment: SparkEnvironment,
    tmp_path: Path,
) -> None:
    database = create_database(mysql97)
    lake = replace(Lake.in_folder(format_, tmp_path), folder=FOLDER)

    def start(form: str = format_) -> subprocess.Popen[str]:
        options = [
            "--to",
            f"{tmp_path}/{FOLDER}",
            "--format",
            form,
            "--tables",
            f"{database.name}.*",
        ]
        for name in ("spark.jars", "spark.local.dir"):
            options += ["--conf", f"{name}={spark_environment.conf[name]}"]
        return subprocess.Popen(
            [sys.executable, "-m", "airflow_provider_binlog", "sync", mysql97.dsn, *options],
            env=os.environ | spark_environment.variables,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def sync() -> str:
        printed, errors = start().communicate()
        assert "not live" not in errors, errors
        return printed + errors

    database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, `from` VARCHAR(20), at DATETIME(6))",
        "INSERT INTO orders VALUES (1, 'é漢😀', NOW(6)), (2, NULL, NULL)",
        "CREATE TABLE other (id BIGINT UNSIGNED PRIMARY KEY)",
        "INSERT INTO other VALUES (18446744073709551615)",
    )
    killed = start()
    assert killed.stderr is not None
    # Rows are staged, and Spark merges them.
    assert any("Spark starts" in line for line in killed.stderr)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    database.execute("UPDATE orders SET `from` = 'new' WHERE id = 2", "DELETE FROM other")

    sync()

    assert lake.differences(spark_environment, database) == []
    assert "Spark starts" not in sync()

    database.execute(
        "ALTER TABLE orders ADD COLUMN n INT DEFAULT 7",
        "INSERT INTO orders VALUES (3, 'x', NULL, 1)",
        "CREATE TABLE late (id INT PRIMARY KEY)",
        "INSERT INTO late VALUES (1)",
    )
    sync()
    assert lake.differences(spark_environment, database) == []

    refused = start({"delta": "iceberg", "iceberg": "delta"}[format_])
    assert "has tables of another format" in refused.communicate()[1]
    assert refused.returncode == 1
