"""The binary log of a server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from functools import cached_property
from typing import TypeVar

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.capture.gtids import position_with_gtids
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ConfigurationError, ConnectionLostError, FormatError
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sources import lag, state
from airflow_provider_binlog.sources.binlog_source import Failover
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.server import information_schema, queries, setup, tables
from airflow_provider_binlog.transport.server.driver import Connection
from airflow_provider_binlog.transport.stream.followed import FollowedBlockStream
from airflow_provider_binlog.transport.stream.live import ServerBlockStream

_T = TypeVar("_T")


class ServerLog(state.Log):
    """The log of a server, read as a replica reads it; see `Log` for the methods."""

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        failover: Failover = "refuse",
        follows: bool = False,
    ) -> None:
        """Connect to nothing yet.

        One that `follows` keeps the stream of its last range, and a session for its queries.
        """
        self.settings = settings
        self._connections = Connections(settings)
        self._failover = failover
        self._follows = follows
        self._session: Connection | None = None
        self._flavor: Flavor | None = None

    def connect(self) -> Connection:
        """Return a new connection to the server of the previous ones; the caller closes it."""
        return self._connections.open()

    @property
    def address(self) -> str:
        """See `Log`."""
        return self.settings.address

    def describe(self) -> str:
        """Return where the server is."""
        return f"the server at {self.address}"

    def flavor(self) -> Flavor:
        """Query the server, once."""
        if self._flavor is None:
            with closing(self.connect()) as connection:
                self._flavor = queries.identify(connection).flavor
        return self._flavor

    def first(self) -> Position:
        """Return where the oldest file that the server still has starts."""
        with closing(self.connect()) as connection:
            return queries.first_position(connection)

    def end(self) -> Position:
        """Query the server."""
        return self._query(queries.log_end)

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what a replica would be sent."""
        return self._blocks.blocks(start, stop)

    def close(self) -> None:
        """Close the connections that are open."""
        if self._session is not None:
            self._session.close()
            self._session = None
        if "_stream" in vars(self):
            self._stream.close()

    def check(self) -> None:
        """Query the server's settings and the account's privileges."""
        # First what is wrong: a server without a log has no identity.
        with closing(self.settings.connect()) as connection:
            setup.check_setup(connection)
            self._connections.check(connection)

    def check_databases(self, captures: Callable[[str], bool], databases: Collection[str]) -> None:
        """Query the server for the databases that it logs."""
        with closing(self.connect()) as connection:
            setup.check_databases(connection, captures, databases)

    def read_state(
        self, saved: Checkpoint | None, *, start: state.Start | None
    ) -> state.SourceState:
        """Compare the checkpoint with the server's log."""
        read = state.read_server_state(self.connect, saved, start=start, failover=self._failover)
        self._flavor = read.identity.flavor
        return read

    def resolve(self, start: state.Start) -> Position:
        """Return the position that `start` means on the server now; raises as `find_gtids`, too."""
        if (gtids := state.find_gtid_text(start)) is None:
            return state.resolve_position(self.connect, start)
        return self.find_gtids(gtids)

    def locate(self, start: state.Start) -> tuple[SourceIdentity, Position]:
        """Return the server, and the position that `start` means, checked like a checkpoint's."""
        position = self.resolve(start)
        read = self.read_state(None, start=position.to_json())
        return read.identity, read.start or position

    def find_gtids(self, gtids: str) -> Position:
        """Return where the first transaction begins that is not in the set.

        Some transactions of the set may be logged after that position; its `logged` then names
        those that are logged before it.

        Raises:
            ConfigurationError: The text is no GTID set of the server's family.
            PositionPurgedError: The server has purged transactions that are not in the set.
            ForeignPositionError: The server's log lacks some of the set.
        """
        with closing(self.connect()) as connection:
            identity = queries.identify(connection)
            self._flavor = identity.flavor
            try:
                known = missing_gtids(identity.flavor, gtids, "")  # in the server's own form
            except FormatError as error:
                raise ConfigurationError(
                    f"not a GTID set of a {identity.flavor.value} server: {error}"
                ) from error
            queries.check_gtids(connection, known)
        position = self._stream.position_after(known)
        logged = executed_at(self._stream, identity, position)
        if logged is None:
            return position
        return position_with_gtids(identity.flavor, position, staged=known, logged=logged)

    def bytes_between(self, start: Position, stop: Position) -> int | None:
        """Query the server for the sizes of its files."""
        with closing(self.connect()) as connection:
            return queries.bytes_between(connection, start, stop)

    def read_server_tables(
        self,
        names: Collection[TableName],
        excluded: Callable[[TableName], Collection[str]] = lambda _: (),
    ) -> information_schema.ServerTables:
        """Query information_schema over a connection of its own; a `ServerTablesReader`.

        The columns of a table that are `excluded` are not selected.
        """
        with closing(self.connect()) as connection:
            return information_schema.read_server_tables(connection, names, excluded)

    def logs_partial_images(self) -> bool:
        """Query the server for its `binlog_row_image`."""
        return self._query(queries.global_variables).get("binlog_row_image", "FULL") != "FULL"

    def read_lag(self, position: Position, identity: SourceIdentity) -> lag.Lag:
        """Query the server over connections of their own; raises as `lag.read_lag`."""
        return lag.read_lag(self.connect, position, identity)

    def table_names(self) -> Collection[tuple[str, str]]:
        """Query the server for the tables that the account may see."""
        with closing(self.connect()) as connection:
            return information_schema.list_tables(connection).keys()

    def unlogged_foreign_keys(
        self, captured: Callable[[str, str], bool], logged: Collection[tuple[str, str]]
    ) -> tables.ForeignKeys:
        """Query the server for its foreign keys."""
        return tables.unlogged_foreign_keys(self.connect, captured, logged)

    def _query(self, query: Callable[[Connection], _T]) -> _T:
        """Return what a query returns that following repeats every second."""
        if not self._follows:
            with closing(self.connect()) as connection:
                return query(connection)
        if self._session is not None:
            # While a long range was read, the server may have ended it for its wait_timeout.
            with suppress(ConnectionLostError):
                return query(self._session)
            self._session.close()
        self._session = self.connect()
        return query(self._session)

    @cached_property
    def _blocks(self) -> BlockStream:
        return FollowedBlockStream(self._stream) if self._follows else self._stream

    @cached_property
    def _stream(self) -> ServerBlockStream:
        """One for all iterators, since it gives no two of them the same server id at a time."""
        settings = self.settings
        return ServerBlockStream(
            self.connect,
            flavor=self.flavor(),
            server_id=settings.server_id,
            silence_seconds_max=settings.read_timeout,
        )
