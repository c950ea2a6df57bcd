"""The tutorial's blocks, in their order, by a whole Airflow: each table is what SELECT returns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.api_server import AIRFLOW, ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_SECONDS = 600
_DONE = "pip install", "airflow standalone"
"""Commands of the page that the fixtures run."""


class Reader:
    """Who follows the tutorial, on a machine whose home folder is of a test."""

    def __init__(
        self, airflow: Airflow, database: Database, jars: str, environment: dict[str, str]
    ) -> None:
        self.airflow, self.home, self.database = airflow, airflow.home.parent, database
        self.server = ApiServer.start(airflow.home, environment, "standalone")
        self.environment = os.environ | environment | {"AIRFLOW_HOME": str(airflow.home)}
        self.replaced = {
            "shop.parcels": f"{database.name}.parcels",
            "shop.*": f"{database.name}.*",
            "/shop/parcels": f"/{database.name}/parcels",
            "replica": f"replica_{database.name}",
            "3306": str(database.server.port),
            "~/binlog-tutorial/airflow": str(airflow.home),
            "io.delta:delta-spark_4.1_2.13:4.4.0": jars,
            '"packages"': '"jars"',
            "spark.jars.packages": "spark.jars",
        }

    def blocks(self) -> Iterator[tuple[str, str]]:
        """Yield the language and the text of each block, with what is different on this machine."""
        for language, block in re.findall(
            r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
        ):
            text = block
            for of_page, here in self.replaced.items():
                text = text.replace(of_page, here)
            yield language, text

    def run(self, *command: str) -> str:
        """Run a program to its end, and return what it prints."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            cwd=self.home,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def shown(self) -> list[list[str]]:
        """Return the rows that `show.py` prints, its header first."""
        lines = self.run(sys.executable, "show.py").splitlines()
        return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if "|" in line]

    def selected(self) -> list[list[str]]:
        """Return the same rows from the server."""
        with closing(self.database.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.database.name}.parcels ORDER BY id")
            header = [column[0] for column in cursor.description or ()]
            return [header, *([str(cell) for cell in row] for row in cursor.fetchall())]

    def await_task(self, task_id: str, state: str) -> None:
        """Wait until one more task of an id has a state."""
        self.airflow.await_task(task_id, state, seconds=_SECONDS)

    def tables(self) -> str:
        """Return what the page's command says of the tables."""
        path = f"file://{self.home}/binlog-tutorial/lake/staging"
        return self.run("airflow", "binlog", "tables", "shop", path)


@pytest.fixture
def reader(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    create_airflow: Callable[..., Airflow],
    spark_environment: SparkEnvironment,
) -> Iterator[Reader]:
    airflow = create_airflow()
    conf = spark_environment.conf
    environment = spark_environment.variables | {
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "HOME": str(airflow.home.parent),
        "PATH": f"{Path(AIRFLOW).parent}:{os.environ['PATH']}",
    }
    reader = Reader(airflow, create_database(mysql97), conf["spark.jars"], environment)
    try:
        reader.server.await_health("scheduler", "dag_processor", "triggerer")
        yield reader
    finally:
        reader.server.stop()
        reader.database.execute(f"DROP USER IF EXISTS replica_{reader.database.name}")


def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    steps = reader.blocks()

    def follow(language: str) -> str:
        """Do what the next block says."""
        found, text = next(steps)
        assert found == language
        if language == "sql":
            for statement in re.split(r";\n", text):
                if statement.strip():
                    reader.database.execute(statement)
        elif language == "shell" and not any(command in text for command in _DONE):
            return reader.run("bash", "-euc", text)
        return text

    for language in ("sql", "sql", "shell", "shell", "shell"):
        follow(language)
    assert "all of 1 tables have one" in follow("shell")
    folder = Path(reader.environment["AIRFLOW_HOME"]) / "dags"
    folder.mkdir(exist_ok=True)
    (folder / "shop_to_lake.py").write_text(follow("python"))
    follow("shell")
    reader.await_task("tables_live", "success")
    looked = follow("shell")
    assert f"{reader.database.name}.parcels" in looked
    assert "live" in looked
    (reader.home / "show.py").write_text(follow("python"))
    assert reader.shown() == reader.selected()

    follow("sql")
    reader.await_task("tables_live", "success")
    assert len(reader.selected()[0]) == 4
    assert reader.shown() == reader.selected()

    follow("sql")
    reader.await_task("tables_live", "failed")
    assert "DROP PARTITION" in reader.tables()
    reader.await_task("tables_live", "success")
    assert "live" in reader.tables()
    assert len(reader.selected()) == 3
    assert reader.shown() == reader.selected()
    assert next(steps, None) is None
