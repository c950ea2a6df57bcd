"""The binary log of a server."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.sources.gtids import find_gtids
from airflow_provider_binlog.sources.start import find_gtid_text, resolve_position
from airflow_provider_binlog.sources.state import read_server_state
from airflow_provider_binlog.transport.server import foreign_keys, queries
from airflow_provider_binlog.transport.server import version as server
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.stream.live import ServerBlockStream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.checkpoint import CheckpointStore
    from airflow_provider_binlog.position import Flavor, Position
    from airflow_provider_binlog.sources.choices import Failover
    from airflow_provider_binlog.sources.settings import ConnectionSettings
    from airflow_provider_binlog.sources.start import Start
    from airflow_provider_binlog.sources.state import SourceState
    from airflow_provider_binlog.transport.server.foreign_keys import ForeignKeys
    from airflow_provider_binlog.transport.server.information_schema import ServerTables


class ServerLog:
    """The log of a server, read as a replica reads it; see `Log` for the methods."""

    def __init__(self, settings: ConnectionSettings, *, failover: Failover = "refuse") -> None:
        self.settings = settings
        self._failover = failover
        self._flavor: Flavor | None = None

    @property
    def server(self) -> ServerLog:
        """The server itself."""
        return self

    def describe(self) -> str:
        """Return where the server is."""
        return f"the server at {self.settings.address}"

    def flavor(self) -> Flavor:
        """Query the server, once."""
        if self._flavor is None:
            with closing(self.settings.connect()) as connection:
                self._flavor = queries.identify(connection).flavor
        return self._flavor

    def first(self) -> Position:
        """Return where the oldest file that the server still has starts."""
        with closing(self.settings.connect()) as connection:
            return queries.first_position(connection)

    def end(self) -> Position:
        """Query the server."""
        with closing(self.settings.connect()) as connection:
            return queries.log_end(connection)

    def number(self, file: str) -> int:
        """Return the number in the file's name."""
        return split_file_name(file)[1]

    def after(self, file: str) -> Position | None:  # noqa: ARG002  of Log
        """Return None: what a server fails to send, it fails to send again."""
        return None

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what a replica would be sent."""
        return self._stream.blocks(start, stop)

    def close(self) -> None:
        """Close the connections of iterators that are not exhausted."""
        if "_stream" in vars(self):
            self._stream.close()

    def check(self) -> None:
        """Query the server's settings and the account's privileges."""
        with closing(self.settings.connect()) as connection:
            queries.check_setup(connection)

    def read_state(self, store: CheckpointStore, key: str, *, start: Start | None) -> SourceState:
        """Compare the checkpoint with the server's log."""
        state = read_server_state(self.settings, store, key, start=start, failover=self._failover)
        self._flavor = state.identity.flavor
        return state

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means on the server now; see `Log`.

        A GTID set names the transactions that have been applied already: the position is where the
        first transaction starts that is not in it.

        Raises:
            ConfigurationError: It is none of the ways to name a position.
            PositionPurgedError: The server has purged transactions that are not in the GTID set.
            ForeignPositionError: The GTID set is not of this server's history.
        """
        if (gtids := find_gtid_text(start)) is None:
            return resolve_position(self.settings, start)
        return find_gtids(self.settings, gtids)

    def bytes_between(self, start: Position, stop: Position) -> int | None:
        """Query the server for the sizes of its files."""
        with closing(self.settings.connect()) as connection:
            return queries.bytes_between(connection, start, stop)

    def read_server_tables(self, wanted: Callable[[str, str], bool]) -> ServerTables:
        """Query information_schema over a connection of its own; a `ServerTablesReader`."""
        with closing(self.settings.connect()) as connection:
            return read_server_tables(connection, wanted)

    def logs_partial_images(self) -> bool:
        """Query the server for its `binlog_row_image`."""
        with closing(self.settings.connect()) as connection:
            return server.global_variables(connection).get("binlog_row_image", "FULL") != "FULL"

    def unlogged_foreign_keys(
        self, captured: Callable[[str, str], bool], logged: Collection[tuple[str, str]]
    ) -> ForeignKeys:
        """Query the server for its foreign keys."""
        return foreign_keys.unlogged_foreign_keys(self.settings.connect, captured, logged)

    @cached_property
    def _stream(self) -> ServerBlockStream:
        """One for all iterators, since it gives no two of them the same server id at a time."""
        settings = self.settings
        return ServerBlockStream(
            settings.connect,
            flavor=self.flavor(),
            server_id=settings.server_id,
            silence_seconds_max=settings.read_timeout,
        )
