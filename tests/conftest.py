"""Wiring alone: where fixtures come from, where a run keeps its files, which test needs what."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.services.processes import RUN_FOLDER

# The cases of a contract assert, too: a failure prints the values.
pytest.register_assert_rewrite("tests.contract")

pytest_plugins = [
    "tests.fixtures.airflow",
    "tests.fixtures.mysql",
    "tests.fixtures.spark",
    "tests.fixtures.store",
]

_FOLDER = RUN_FOLDER / "tests" / str(os.getpid())

# Airflow reads these when it is first imported, and otherwise settles in ~/airflow.
os.environ["AIRFLOW_HOME"] = str(_FOLDER / "airflow")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

# A busy machine is slow, not wrong.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

_NEEDS = {
    "mysql97": "server",
    "mariadb1011": "server",
    "mariadb118": "server",
    "server": "server",
    "s3_server": "s3",
    "spark_environment": "spark",
}


@pytest.fixture(scope="session", autouse=True)
def run_folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of this run: data and logs of servers; kept when a test failed."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    yield _FOLDER
    if not request.session.testsfailed:
        shutil.rmtree(_FOLDER, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with what its fixtures start, for ``-m "not spark"`` and the like."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in _NEEDS:
                item.add_marker(_NEEDS[fixture])
