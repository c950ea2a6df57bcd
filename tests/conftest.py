"""Wiring alone: where fixtures come from, where a run keeps its files, which test needs what."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.services.processes import RUN_FOLDER

# The cases of a contract assert, too: a failure prints the values.
pytest.register_assert_rewrite("tests.contract")

pytest_plugins = [
    "tests.fixtures.airflow",
    "tests.fixtures.extract_worker",
    "tests.fixtures.mysql",
    "tests.fixtures.postgresql",
    "tests.fixtures.proxy",
    "tests.fixtures.spark",
    "tests.fixtures.store",
]

_FOLDER = RUN_FOLDER / "tests" / str(os.getpid())

# Airflow reads these when it is first imported, and otherwise settles in ~/airflow.
os.environ["AIRFLOW_HOME"] = str(_FOLDER / "airflow")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

# A busy machine is slow, not wrong. Other examples are drawn each time, and more by `make fuzz`.
settings.register_profile("any machine", deadline=None, max_examples=50)
settings.load_profile("any machine")

_NEEDS = {
    "mysql97": "server",
    "mariadb1011": "server",
    "mariadb118": "server",
    "postgresql15": "server",
    "postgresql18": "server",
    "server": "server",
    "s3_server": "s3",
    "spark_environment": "spark",
    "create_database": "server",
}


@pytest.fixture(scope="session", autouse=True)
def run_folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of this run: data and logs of servers; kept when a test failed."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    yield _FOLDER
    if not request.session.testsfailed:
        shutil.rmtree(_FOLDER, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark every test with what its fixtures start, for ``-m "not spark"`` and the like."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in _NEEDS:
                item.add_marker(_NEEDS[fixture])
    yield
    # What is left by now is what runs.
    items[:] = _in_order(items)


def _in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put the tests with Spark first, and those with servers at the second half.

    Two processes begin with a half each: so one starts the only Spark, and what the other steals
    from it, once it has done its own, are quick tests from the end.
    """
    spark = [item for item in items if _has(item, "spark")]
    others = [item for item in items if not _has(item, "spark")]
    served = [item for item in others if _has(item, "server", "s3")]
    plain = [item for item in others if not _has(item, "server", "s3")]
    until = max(len(items) // 2 - len(spark), 0)
    return [*spark, *plain[:until], *served, *plain[until:]]


def _has(item: pytest.Item, *marks: str) -> bool:
    return any(mark.name in marks for mark in item.iter_markers())
