"""Servers that log in and answer as a test says."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server.driver import query
from tests.support.fake_server import OK, FakeServer, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    Script = Callable[[Session], None]

PASSWORD = "geheim-7"


def settings_of(server: FakeServer, **changed: Any) -> ConnectionSettings:
    fields: dict[str, Any] = {
        "user": "replica",
        "password": PASSWORD,
        "ssl_mode": "disabled",
        "read_timeout": 5,
    }
    return ConnectionSettings("127.0.0.1", server.port, **(fields | changed))


def log_in(script: Script, **changed: Any) -> FakeServer:
    """Connect to a server that runs the script from the start; return it afterwards."""
    with FakeServer(script) as server, closing(settings_of(server, **changed).connect()):
        return server


def answer(script: Script, statement: str = "SELECT 1", **options: Any) -> list[dict[str, Any]]:
    """Return the answer to a statement by a server that runs the script for it."""

    def session(client: Session) -> None:
        client.log_in()
        client.read()
        script(client)

    with FakeServer(session) as server:
        connection = settings_of(server, **options).connect()
        with closing(connection):
            return query(connection, statement)


def answering(answers: dict[str, tuple[list[str], list[list[str | None]]]]) -> Script:
    """Return a script that answers statements by their beginning, and all others with OK."""

    def script(client: Session) -> None:
        client.log_in()
        while True:
            statement = client.read()[1:].decode()
            for beginning, (names, rows) in answers.items():
                if statement.startswith(beginning):
                    client.rows(names, *rows)
                    break
            else:
                client.packet(OK)

    return script
