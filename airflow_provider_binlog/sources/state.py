"""The protocol of binary logs, and the state of a source: checkpoint or start, and the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_binlog import errors
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.position import (
    Flavor,
    Position,
    SourceIdentity,
    parse_position,
    split_file_name,
)
from airflow_provider_binlog.sources.binlog_source import Failover, check_choice
from airflow_provider_binlog.transport.block_stream import BlockStream, check_created
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.server.driver import Connect
from airflow_provider_binlog.transport.server.tables import ForeignKeys
from airflow_provider_binlog.transport.stream.commands import file_created

if TYPE_CHECKING:
    from airflow_provider_binlog.sources.lag import Lag
    from airflow_provider_binlog.transport.server.information_schema import ServerTables

NO_START = (
    'there is no checkpoint: choose where to begin, start="now", "earliest", '
    '"file:offset" or a GTID set'
)


@dataclass(frozen=True)
class SourceState:
    """The state of a source, as it was read.

    Attributes:
        identity: The server that was queried, or that files are of.
        checkpoint: None on the first run.
        start: The checkpoint's position, or on the first run the chosen start. None if that is a
            GTID set, which is resolved when it is needed: on a first run, and after a failover.
        log_end: Where the log ended.
        has_new_gtids: After a failover, whether the promoted replica has executed more than the
            checkpoint covers.
    """

    identity: SourceIdentity
    checkpoint: Checkpoint | None
    start: Position | None
    log_end: Position
    has_new_gtids: bool = False

    @property
    def has_work(self) -> bool:
        """Whether the log has grown, or the first checkpoint is to be made."""
        if self.checkpoint is None:
            return True
        if self.start is None:
            return self.has_new_gtids
        return self.log_end.coordinates > self.checkpoint.position.coordinates


def read_server_state(
    connect: Connect,
    saved: Checkpoint | None,
    *,
    start: Start | None,
    failover: Failover = "refuse",
) -> SourceState:
    """Return the state of a source that is a server; changes nothing.

    Without a saved checkpoint, the first run begins at `start`. All connections are to one server.

    Raises:
        CheckpointMissingError: There is no checkpoint, and `start` is None.
        ConfigurationError: `failover` is none of its choices.
        ForeignPositionError: The position was issued by another server, and `failover` is not to
            follow, or this server's log lacks transactions that the checkpoint covers; or the log
            has been reset since.
        PositionPurgedError: The server no longer has the log at the position.
    """
    check_choice(Failover, failover, "failover")
    if saved is not None:
        position: Position | None = saved.position
    elif start is None:
        raise errors.CheckpointMissingError(NO_START)
    else:
        position = None if find_gtid_text(start) else resolve_position(connect, start)
    with closing(connect()) as connection:
        here = queries.identify(connection)
        if saved is not None and saved.identity != here:
            gtids = _covered_gtids(saved, here, failover)
            queries.check_gtids(connection, gtids)
            has_new_gtids = queries.gtid_executed(connection) != gtids
            return SourceState(here, saved, None, queries.log_end(connection), has_new_gtids)
        if saved is None:
            _check_issuer(start, here)
        if position is None:
            return SourceState(here, saved, None, queries.log_end(connection))
        queries.check_position(connection, position)
        created = file_created(connect, here.flavor, position)
        check_created(position.file, created, position)
        # After the file's creation time: a log that is reset between the two is found out when
        # the range is read.
        end = queries.log_end(connection)
        if saved is None and start == "now" and end.file == position.file:
            position = end
        return SourceState(here, saved, replace(position, file_created=created), end)


def _covered_gtids(saved: Checkpoint, here: SourceIdentity, failover: Failover) -> str:
    """Return the GTIDs that the checkpoint of another server covers, if it can be followed."""
    context = {"position": saved.position, "issued_by": saved.identity, "this_is": here.server}
    if failover != "follow":
        raise errors.ForeignPositionError(
            "the checkpoint belongs to another server, or to a log of another name: if this server "
            'is its promoted replica, failover="follow" finds the position by GTID',
            log_name=here.log_name,
            **context,
        )
    if here.flavor is not saved.identity.flavor:
        raise errors.ForeignPositionError("a failover to a server of another family", **context)
    if not saved.position.gtid:
        raise errors.ForeignPositionError(
            "the checkpoint has no GTIDs by which its position could be found on another server: "
            "take a new snapshot there",
            **context,
        )
    return saved.position.gtid


def _check_issuer(start: Start | None, here: SourceIdentity) -> None:
    issued_by = start.get("identity") if isinstance(start, Mapping) else None
    if issued_by is not None and SourceIdentity.from_json(issued_by) != here:
        raise errors.ForeignPositionError(
            "the sensor found the start on another server than the connection leads to now: does "
            "a proxy balance over several servers? Connect to one, and clear the sensor's task",
            start=start,
            this_is=here,
        )


Start = str | Mapping[str, Any]
"""`"now"`, `"earliest"`, `file:offset`, a GTID set, or what the sensor returned."""

_SHOWN_SIZE_MAX = 200
# A UUID followed by numbers, or MariaDB's domain-server-sequence; the rest is parsed by its user.
_GTIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}:|\d+-\d+-\d+", re.ASCII | re.IGNORECASE)


def find_gtid_text(start: Start) -> str | None:
    """Return the GTID set that a start is; None if it is another kind of start."""
    text = start.get("start") if isinstance(start, Mapping) else start
    return text.strip() if isinstance(text, str) and _GTIDS.match(text.strip()) else None


def resolve_position(connect: Connect, start: Start) -> Position:
    """Return the position that `start`, which is no GTID set, means on this server now."""
    text = start.strip() if isinstance(start, str) else ""
    query = {"now": queries.log_end, "earliest": queries.first_position}.get(text)
    if query is None:
        return read_position(start)
    with closing(connect()) as connection:
        return query(connection)


def read_position(start: Start) -> Position:
    """Return a position in words or in JSON, or the one in what the sensor returned."""
    if isinstance(start, Mapping):
        try:
            return Position.from_json(dict(start.get("start", start)))
        except (errors.FormatError, TypeError, ValueError) as error:
            raise errors.ConfigurationError(
                "not a position, nor what the sensor returned", given=start
            ) from error
    try:
        position = parse_position(start)
        split_file_name(position.file)
    except errors.FormatError as error:
        raise errors.ConfigurationError(
            'a start is "now", "earliest", a position such as "binlog.000042:4" or a GTID set: '
            f"{error.args[0]}",
            given=repr(start)[:_SHOWN_SIZE_MAX],
        ) from error
    return position


class Log(BlockStream, Protocol):
    """A binary log: a stream of its blocks, and what else is known of it.

    What only a server knows has the answer of files here.
    """

    @property
    def read_server_tables(self) -> Callable[..., ServerTables] | None:
        """Reads the server's information_schema; None for files. See `ServerLog`."""
        return None

    @property
    def address(self) -> str | None:
        """The server's, `host:port` or a socket's path; None for files."""
        return None

    def describe(self) -> str:
        """Return in a few words what is read."""

    def flavor(self) -> Flavor:
        """Return the family of the server that wrote the log."""

    def first(self) -> Position:
        """Return where the oldest event starts."""

    def end(self) -> Position:
        """Return where the log ends now: between two transactions."""

    def after(self, file: str) -> Position | None:  # noqa: ARG002
        """Return where to continue after a file that cannot be read; None if that is nowhere.

        What a server fails to send, it fails to send again.
        """
        return None

    def check(self) -> None:
        """Refuse a log that capture cannot work with, naming all that is wrong.

        Raises:
            ServerSetupError, AccessDeniedError: Says what to change.
        """
        return

    def check_databases(self, captures: Callable[[str], bool], databases: Collection[str]) -> None:
        """Refuse a log that lacks the changes of databases that are captured.

        `databases` are looked at besides those that the server shows.

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
        """Return the position that `start` means in this log now, or raise ConfigurationError."""

    def bytes_between(self, start: Position, stop: Position) -> int | None:  # noqa: ARG002
        """Return how many bytes of log lie between two positions; None if that is not known.

        The size of a compressed file is known only at its end.
        """
        return None

    def logs_partial_images(self) -> bool:
        """Whether the server is set to log row images without all columns."""
        return False

    def read_lag(self, position: Position, identity: SourceIdentity) -> Lag | None:  # noqa: ARG002
        """Return the lag of a position that a server issued; None where the log is files."""
        return None

    def table_names(self) -> Collection[tuple[str, str]]:
        """Return database and name of the tables that the server shows; none where it is files."""
        return ()

    def unlogged_foreign_keys(
        self,
        captured: Callable[[str, str], bool],  # noqa: ARG002
        logged: Collection[tuple[str, str]],  # noqa: ARG002
    ) -> ForeignKeys:
        """Return the foreign keys that change captured rows without an event in the log.

        `logged` are tables that exist, according to the log. Raises no `BinlogError`.
        """
        return ForeignKeys()
