"""Random DDL on real servers, captured and merged: each table is right, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.random_ddl.run import run
from tests.unit.spark.session import shared_session
from tests.unit.spark.workplace import local_workplace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.servers import Server

pytestmark = [
    pytest.mark.server,
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
    ),
]


FORMATS = {"mysql97": "iceberg", "mariadb118": "delta"}


@pytest.fixture(params=FORMATS)
def database(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Database:
    return create_database(request.getfixturevalue(request.param))


def test_each_table_equals_select_or_is_refused(
    database: Database, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    format_ = FORMATS[database.server.name]
    workplace = local_workplace(shared_session(spark_environment), format_, tmp_path)

    outcome = run(database, workplace, "1", ranges=3, tables=3)

    assert outcome.equal > 0
