"""The binary log of a server."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.capture.gtids import position_with_gtids
from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.sources.state import (
    Log,
    find_gtid_text,
    read_server_state,
    resolve_position,
)
from airflow_provider_binlog.transport.server import (
    queries,
    setup,
    status,
    tables,
)
from airflow_provider_binlog.transport.server.information_schema import (
    list_tables,
    read_server_tables,
)
from airflow_provider_binlog.transport.stream.commands import MAX_SERVER_ID, derived_server_id
from airflow_provider_binlog.transport.stream.live import ServerBlockStream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import pymysql

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.checkpoint import Checkpoint
    from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
    from airflow_provider_binlog.sources.binlog_source import Failover
    from airflow_provider_binlog.sources.settings import ConnectionSettings
    from airflow_provider_binlog.sources.state import SourceState, Start
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from airflow_provider_binlog.transport.server.tables import ForeignKeys

    Connection = pymysql.Connection[Any]


class ServerLog(Log):
    """The log of a server, read as a replica reads it; see `Log` for the methods."""

    def __init__(self, settings: ConnectionSettings, *, failover: Failover = "refuse") -> None:
        self.settings = settings
        self._connections = Connections(settings)
        self._failover = failover
        self._flavor: Flavor | None = None

    def connect(self) -> Connection:
        """Return a new connection, which leads to the server of the others.

        The caller closes it.

        Raises:
            BinlogError: As `Connections.open`.
        """
        return self._connections.open()

    def describe(self) -> str:
        """Return where the server is."""
        return f"the server at {self.settings.address}"

    def flavor(self) -> Flavor:
        """Query the server, once."""
        if self._flavor is None:
            with closing(self._connections.open()) as connection:
                self._flavor = queries.identify(connection).flavor
        return self._flavor

    def first(self) -> Position:
        """Return where the oldest file that the server still has starts."""
        with closing(self._connections.open()) as connection:
            return queries.first_position(connection)

    def end(self) -> Position:
        """Query the server."""
        with closing(self._connections.open()) as connection:
            return queries.log_end(connection)

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what a replica would be sent."""
        return self._stream.blocks(start, stop)

    def close(self) -> None:
        """Close the connections of iterators that are not exhausted."""
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
        with closing(self._connections.open()) as connection:
            setup.check_databases(connection, captures, databases)

    def read_state(self, saved: Checkpoint | None, *, start: Start | None) -> SourceState:
        """Compare the checkpoint with the server's log."""
        state = read_server_state(
            self._connections.open, saved, start=start, failover=self._failover
        )
        self._flavor = state.identity.flavor
        return state

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means on the server now; see `Log`.

        Raises:
            ConfigurationError: It is none of the ways to name a position.
            PositionPurgedError, ForeignPositionError: As `find_gtids`.
        """
        if (gtids := find_gtid_text(start)) is None:
            return resolve_position(self._connections.open, start)
        return self.find_gtids(gtids)

    def locate(self, start: Start) -> tuple[SourceIdentity, Position]:
        """Return the server, and the position that `start` means, checked like a checkpoint's.

        Raises:
            ConfigurationError, PositionPurgedError, ForeignPositionError: As `resolve`.
        """
        position = self.resolve(start)
        state = self.read_state(None, start=position.to_json())
        return state.identity, state.start or position

    def find_gtids(self, gtids: str) -> Position:
        """Return where the first transaction begins that is not in the set.

        Some transactions of the set may be logged after that position; its `logged` then names
        those that are logged before it.

        Raises:
            ConfigurationError: The text is no GTID set of the server's family.
            PositionPurgedError: The server has purged transactions that are not in the set.
            ForeignPositionError: The server's log lacks some of the set.
        """
        with closing(self._connections.open()) as connection:
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
        with closing(self._connections.open()) as connection:
            return queries.bytes_between(connection, start, stop)

    def read_server_tables(self, wanted: Callable[[str, str], bool]) -> ServerTables:
        """Query information_schema over a connection of its own; a `ServerTablesReader`."""
        with closing(self._connections.open()) as connection:
            return read_server_tables(connection, wanted)

    def logs_partial_images(self) -> bool:
        """Query the server for its `binlog_row_image`."""
        with closing(self._connections.open()) as connection:
            return status.global_variables(connection).get("binlog_row_image", "FULL") != "FULL"

    def table_names(self) -> Collection[tuple[str, str]]:
        """Query the server for the tables that the account may see."""
        with closing(self._connections.open()) as connection:
            return list_tables(connection).keys()

    def server_ids(self, count: int, *, seed: str) -> list[int | None]:
        """Return ids that follow the connection's own, or high ones; no replica has them now.

        An account that may not see the replicas takes the ids unchecked.
        """
        first = self.settings.server_id or derived_server_id(seed)
        with closing(self._connections.open()) as connection:
            taken = queries.server_ids(connection)
        free = (
            server_id for server_id in range(first + 1, MAX_SERVER_ID + 1) if server_id not in taken
        )
        ids = list(islice(free, count))
        if len(ids) < count:
            raise ConfigurationError(
                "there are not so many server ids after the connection's own: give it a lower one, "
                "or raise target_bytes",
                server_id=first,
                wanted=count,
            )
        return [*ids]

    def unlogged_foreign_keys(
        self, captured: Callable[[str, str], bool], logged: Collection[tuple[str, str]]
    ) -> ForeignKeys:
        """Query the server for its foreign keys."""
        return tables.unlogged_foreign_keys(self._connections.open, captured, logged)

    @cached_property
    def _stream(self) -> ServerBlockStream:
        """One for all iterators, since it gives no two of them the same server id at a time."""
        settings = self.settings
        return ServerBlockStream(
            self._connections.open,
            flavor=self.flavor(),
            server_id=settings.server_id,
            silence_seconds_max=settings.read_timeout,
        )
