"""The protocol of binary logs, on a server or in files, for tasks and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.server.foreign_keys import ForeignKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.checkpoint import Checkpoint
    from airflow_provider_binlog.position import Flavor, Position
    from airflow_provider_binlog.schema_history.server_schemas import ServerTablesReader
    from airflow_provider_binlog.sources.state import SourceState, Start


class Log(BlockStream, Protocol):
    """A binary log: a stream of its blocks, and what else is known of it.

    What only a server knows has the answer of files here.
    """

    @property
    def read_server_tables(self) -> ServerTablesReader | None:
        """Reads the server's information_schema; None for files."""
        return None

    def describe(self) -> str:
        """Return in a few words what is read."""

    def flavor(self) -> Flavor:
        """Return the family of the server that wrote the log."""

    def first(self) -> Position:
        """Return where the oldest event starts."""

    def end(self) -> Position:
        """Return where the log ends now: between two transactions."""

    def number(self, file: str) -> int:
        """Return a number by which the log's files are ordered.

        Raises:
            ConfigurationError: It is none of the files that were given.
        """
        return split_file_name(file)[1]

    def after(self, file: str) -> Position | None:  # noqa: ARG002
        """Return where to continue after a file that cannot be read; None if that is nowhere.

        What a server fails to send, it fails to send again.
        """
        return None

    def check(self) -> None:
        """Refuse a log that capture cannot work with, naming all that is wrong.

        Raises:
            ServerSetupError, AccessDeniedError, ConfigurationError: Says what to change.
        """
        return

    def check_databases(self, captures: Callable[[str], bool], databases: Collection[str]) -> None:
        """Refuse a log that lacks the changes of databases that are captured.

        Args:
            captures: Whether tables of a database may be captured.
            databases: Names to look at, besides those that are found.

        Raises:
            ServerSetupError: Names the databases.
        """
        del captures, databases

    def read_state(self, saved: Checkpoint | None, *, start: Start | None) -> SourceState:
        """Compare the checkpoint, None on the first run, with the log; changes nothing.

        Raises:
            CheckpointMissingError: There is no checkpoint, and `start` is None.
            ForeignPositionError: The position belongs to another log, or is past the log's end.
            PositionPurgedError: The log starts after the position.
        """

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means in this log now.

        Raises:
            ConfigurationError: It is none of the ways to name a position.
        """

    def bytes_between(self, start: Position, stop: Position) -> int | None:  # noqa: ARG002
        """Return how many bytes of log lie between two positions; None if that is not known.

        The size of a compressed file is known only at its end.
        """
        return None

    def logs_partial_images(self) -> bool:
        """Whether the server is set to log row images without all columns."""
        return False

    def table_names(self) -> Collection[tuple[str, str]]:
        """Return database and name of the tables that the server shows; none where it is files."""
        return ()

    def server_ids(self, count: int, *, seed: str) -> list[int | None]:  # noqa: ARG002
        """Return ids under which so many tasks may read at the same time; None for files.

        Args:
            count: How many.
            seed: Decides which ids, so that a task that is tried again finds the same ones.
        """
        return [None] * count

    def unlogged_foreign_keys(
        self,
        captured: Callable[[str, str], bool],  # noqa: ARG002
        logged: Collection[tuple[str, str]],  # noqa: ARG002
    ) -> ForeignKeys:
        """Return the foreign keys that change captured rows without an event in the log.

        Raises no `BinlogError`.

        Args:
            captured: Whether a table, given by database and name, is captured.
            logged: Tables that exist, according to the log.
        """
        return ForeignKeys()
