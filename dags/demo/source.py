"""The server whose changes are captured: one of our own, or the user's."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server import setup
from tests.services.progress import ServiceError, say, step
from tests.services.servers import RELEASES, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from dags.demo.choice import Choice


class OwnServer:
    """A server in the demo's folder; its data is kept for you and for the UI."""

    def __init__(self, release: str, folder: Path) -> None:
        """Describe it; unpack it first if need be."""
        self._server = Server.create(release, folder)
        self.dsn = self._server.dsn

    def start(self) -> None:
        with step(f"{RELEASES[self._server.name].title}: start"):
            # The id stays: where a server has no other identity, positions go by it.
            self._server.start({"server_id": 4701})

    def stop(self) -> None:
        self._server.stop()


class UserServer:
    """A server of the user's, on which one database is made and dropped again."""

    def __init__(self, dsn: str, database: str) -> None:
        """Describe it; nothing is asked yet."""
        self.dsn = dsn
        self._database = database
        self._made = False

    def start(self) -> None:
        with step("your server: its settings and privileges"), connect(self.dsn) as connection:
            setup.check_setup(connection)
            with connection.cursor() as cursor:
                schemata = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
                if cursor.execute(schemata, (self._database,)):
                    message = (
                        f"your server has a database {self._database} already; if an earlier demo"
                        f" left it there: DROP DATABASE {self._database};"
                    )
                    raise ServiceError(message)
        self._made = True
        say(f"the database {self._database} will be made on it, and dropped at the end")

    def stop(self) -> None:
        if not self._made:
            return
        with connect(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {self._database}")
        say(f"your server: the database {self._database} is dropped")


Source: TypeAlias = OwnServer | UserServer


def make_source(choice: Choice, folder: Path) -> Source:
    """Return the server that was chosen."""
    if choice.dsn:
        return UserServer(choice.dsn, choice.database)
    return OwnServer(choice.release, folder)


@contextmanager
def connect(dsn: str) -> Iterator[pymysql.Connection[Any]]:
    """Open a connection whose times are in UTC; it is closed at the end."""
    with closing(ConnectionSettings.from_dsn(dsn).connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("SET NAMES utf8mb4")
        yield connection
