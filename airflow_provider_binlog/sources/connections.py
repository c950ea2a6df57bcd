"""The connections of one task: all of them lead to the same server.

A proxy or a DNS name may lead to another server each time. Positions of the one are then compared
with the other's log, and rows of both would be committed under one identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ServerChangedError
from airflow_provider_binlog.transport.server import queries

if TYPE_CHECKING:
    import pymysql

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.sources.settings import ConnectionSettings

    Connection = pymysql.Connection[Any]


class Connections:
    """Opens connections to one server, the one that the first of them leads to."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self._server: SourceIdentity | None = None

    def open(self) -> Connection:
        """Return a new connection; the caller closes it.

        Raises:
            ServerChangedError: It leads to another server than the ones before.
            ServerSetupError: The server writes no binary log.
            BinlogError: As `ConnectionSettings.connect`.
        """
        connection = self.settings.connect()
        try:
            self.check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self, connection: Connection) -> None:
        """Refuse a connection that leads to another server than the ones before.

        Raises:
            ServerChangedError, ServerSetupError: As `open`.
        """
        here = queries.identify(connection)
        if self._server is None:
            self._server = here
        elif here != self._server:
            raise ServerChangedError(
                "the address leads to another server than it did a moment ago: after a failover "
                "the next try reads from that one alone, but a proxy that balances over several "
                "servers cannot be read through; connect to one server",
                address=self.settings.address,
                before=self._server,
                now=here,
            )
