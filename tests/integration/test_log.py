"""The contract of `Log`, on a server and on the files that the server wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.sources.binlog_files import find_files, reach_plainly
from airflow_provider_binlog.sources.file_log import FileLog
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from tests.contract.log import LogCases, OpenLog, Write
from tests.fixtures import mysql

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database
    from tests.services.servers import Server

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=["mysql97", "mariadb1011", "mariadb118"])
def flushed(request: pytest.FixtureRequest) -> Server:
    """A server with a log of more than one file, which grows by what clients write alone."""
    server: Server = request.getfixturevalue(request.param)
    mysql.flush_log(server)
    return server


@pytest.fixture
def logged(flushed: Server, create_database: Callable[..., Database]) -> Database:
    """A database with some changes."""
    database = create_database(flushed)
    database.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES ()")
    return database


@pytest.fixture
def write(logged: Database) -> Write:
    """Insert a row."""
    return lambda: logged.execute("INSERT INTO t VALUES ()")


class TestServerLog(LogCases):
    """A server."""

    @pytest.fixture
    def log(self, logged: Database) -> OpenLog:
        """Connect to the server."""
        return lambda: ServerLog(ConnectionSettings.from_dsn(logged.server.dsn))


class TestFileLog(LogCases):
    """Its files, where they lie."""

    @pytest.fixture
    def log(self, logged: Database) -> OpenLog:
        """List the files of the server's data folder."""
        pattern = f"{logged.server.data}/binlog.0*"
        return lambda: FileLog(find_files(pattern, reach_plainly))
