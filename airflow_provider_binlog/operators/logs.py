"""What a task stages from: a server's log, or files of one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.hooks.standing import REFUSE, look
from airflow_provider_binlog.hooks.start import resolve_start
from airflow_provider_binlog.operators.gtids import find_gtids
from airflow_provider_binlog.transport.server import foreign_keys
from airflow_provider_binlog.transport.server import queries as questions
from airflow_provider_binlog.transport.server import version as server

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.checkpoint import CheckpointStore
    from airflow_provider_binlog.hooks.settings import ConnectionSettings
    from airflow_provider_binlog.hooks.standing import Standing
    from airflow_provider_binlog.hooks.start import Start
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema_history.schemas import CatalogReader
    from airflow_provider_binlog.transport.block_stream import BlockStream
    from airflow_provider_binlog.transport.server.foreign_keys import ForeignKeys
    from airflow_provider_binlog.transport.server.information_schema import ServerTables


class Log(Protocol):
    """A log that ranges are staged from."""

    def check(self) -> None:
        """Refuse a log that capture cannot work with, naming all that is wrong.

        Raises:
            ServerSetupError, AccessDeniedError, ConfigurationError: Says what to change.
        """

    def look(self, store: CheckpointStore, key: str, *, start: Start | None) -> Standing:
        """Return where capture stands; changes nothing.

        Raises:
            CheckpointMissingError: There is no checkpoint, and `start` is None.
            ForeignPositionError: The position belongs to another log.
            PositionPurgedError: The log begins behind the position.
        """

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means in this log now.

        Raises:
            ConfigurationError: It is none of the ways to name a position.
        """

    def bytes_between(self, start: Position, stop: Position) -> int | None:
        """Return how many bytes of log lie between two positions; None where it is not known."""

    def source(self, standing: Standing, start: Position) -> BlockStream:
        """Open the log to be read from `start` on; the caller closes it."""

    @property
    def read_server_tables(self) -> CatalogReader | None:
        """What asks for the catalogue of the server behind the log; None where there is none."""

    def lacks_columns(self) -> bool:
        """Whether the server is set to log rows without all of their columns."""

    def unlogged_foreign_keys(
        self, captured: Callable[[str, str], bool], logged: Collection[tuple[str, str]]
    ) -> ForeignKeys:
        """Return the foreign keys that change captured rows without a word in the log.

        Raises no `BinlogError`. `logged` are tables that there are, by the log.
        """


class ServerLog:
    """The log of a server."""

    def __init__(self, settings: ConnectionSettings, *, failover: str = REFUSE) -> None:
        self._settings = settings
        self._failover = failover

    def check(self) -> None:
        """Ask the server for its settings and the account's privileges; see `Log`."""
        with closing(self._settings.connect()) as connection:
            questions.check_setup(connection)

    def look(self, store: CheckpointStore, key: str, *, start: Start | None) -> Standing:
        """Ask the server where its log ends; see `Log`."""
        return look(self._settings, store, key, start=start, failover=self._failover)

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means on the server now; see `Log`."""
        return resolve_start(self._settings, start, find_gtids)

    def bytes_between(self, start: Position, stop: Position) -> int | None:
        """Ask the server for the sizes of its files; see `Log`."""
        with closing(self._settings.connect()) as connection:
            return questions.bytes_between(connection, start, stop)

    def source(self, standing: Standing, start: Position) -> BlockStream:  # noqa: ARG002  of Log
        """Read as a replica does; see `Log`."""
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.transport.stream.live import ServerBlockStream

        settings, flavor = self._settings, standing.identity.flavor
        return ServerBlockStream(
            settings.connect,
            flavor=flavor,
            server_id=settings.server_id,
            silence_seconds_max=settings.read_timeout,
        )

    @property
    def read_server_tables(self) -> CatalogReader | None:
        """Ask the server over a connection of its own; see `Log`."""
        return self._read_catalog

    def lacks_columns(self) -> bool:
        """Ask the server for its `binlog_row_image`; see `Log`."""
        with closing(self._settings.connect()) as connection:
            return server.global_variables(connection).get("binlog_row_image", "FULL") != "FULL"

    def unlogged_foreign_keys(
        self, captured: Callable[[str, str], bool], logged: Collection[tuple[str, str]]
    ) -> ForeignKeys:
        """Ask the server for its foreign keys; see `Log`."""
        return foreign_keys.unlogged_foreign_keys(self._settings.connect, captured, logged)

    def _read_catalog(self, wanted: Callable[[str, str], bool]) -> ServerTables:
        from airflow_provider_binlog.transport.server.information_schema import read_server_tables

        with closing(self._settings.connect()) as connection:
            return read_server_tables(connection, wanted)
