"""System-versioned tables of MariaDB: their historical rows are logged, so they are refused."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.transport.server.information_schema import (
    ServerTables,
    read_server_tables,
)
from tests.fixtures.mysql import Database, connect, execute, query
from tests.support.ranges import end_of, files, happen, live, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from airflow_provider_binlog.schema import TableName
    from tests.services.servers import Server

pytestmark = pytest.mark.server

IMPLICIT = "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING"
EXPLICIT = """CREATE TABLE t (id INT PRIMARY KEY, v INT,
    a TIMESTAMP(6) GENERATED ALWAYS AS ROW START, z TIMESTAMP(6) GENERATED ALWAYS AS ROW END,
    PERIOD FOR SYSTEM_TIME (a, z)) WITH SYSTEM VERSIONING"""
CHANGES = [
    "CREATE TABLE plain (id INT PRIMARY KEY, v INT)",
    "INSERT INTO plain VALUES (1, 1)",
    "INSERT INTO t (id, v) VALUES (1, 1), (2, 2)",
    "UPDATE t SET v = 5 WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
]


@pytest.fixture(params=["mariadb1011", "mariadb118"])
def database(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Database:
    """An empty database."""
    return create_database(request.getfixturevalue(request.param))


@pytest.fixture(params=["FULL", "MINIMAL", "NO_LOG"])
def metadata(request: pytest.FixtureRequest, database: Database) -> Iterator[str]:
    """What the server logs of tables."""
    ((before,),) = query(database.server, "SELECT @@GLOBAL.binlog_row_metadata")
    execute(database.server, f"SET GLOBAL binlog_row_metadata = {request.param}")
    yield request.param
    execute(database.server, f"SET GLOBAL binlog_row_metadata = {before}")


@pytest.mark.parametrize("create", [IMPLICIT, EXPLICIT], ids=["implicit", "explicit"])
def test_it_is_refused_by_name(database: Database, metadata: str, create: str) -> None:
    def read_tables(names: Collection[TableName]) -> ServerTables:
        with closing(connect(database.server)) as connection:
            return read_server_tables(connection, names)

    happened = happen(database, create, *CHANGES)

    with pytest.raises(UnsupportedError, match=rf"system-versioned.*table={database.name}\.t,"):
        stage(live(database.server), happened, read_server_tables=read_tables)
    if metadata == "FULL" and create == IMPLICIT:
        with pytest.raises(UnsupportedError, match="system-versioned"):
            stage(files(database.server), happened)

    # What looks like it and is not, is none.
    database.execute(
        "CREATE TABLE mine (id INT PRIMARY KEY, row_start TIMESTAMP(6), row_end TIMESTAMP(6))",
        "INSERT INTO mine VALUES (1, NOW(6), NOW(6))",
    )
    happened = replace(happened, stop=end_of(database.server))
    captured = TableFilter([f"{database.name}.*"], exclude=["*.t"])
    others = stage(live(database.server), happened, tables=captured, read_server_tables=read_tables)
    assert [table.table for table in others.manifest.tables] == ["mine", "plain"]
