"""Lag of a position: how much is logged after it, and how long the server keeps it there.

A server deletes a file of its log once the file was last written longer ago than its settings say;
it checks that when it begins another file, or starts. The newest file is never deleted. MariaDB
also keeps files until as many replicas are connected as `slave_connections_needed_for_purge` says.
What else deletes files is not known here: `PURGE BINARY LOGS`, a limit of the log's size, a service
that keeps it for less time than the server's own settings say.

Source: mysql-server, sql/binlog.cc, purge_logs_before_date; mariadb, sql/log.cc, purge_logs.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_provider_binlog.binlog.gtid_set import count_missing
from airflow_provider_binlog.errors import ConfigurationError, ForeignPositionError
from airflow_provider_binlog.position import FIRST_OFFSET, Position, SourceIdentity, split_file_name
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.server.driver import Connect
from airflow_provider_binlog.transport.stream.commands import file_created, next_event_time


@dataclass(frozen=True, kw_only=True)
class Lag:
    """The lag of a position, as a server had it at one time.

    Attributes:
        read_at: When the server was queried.
        position: The position, of the server's log.
        log_end: Where the log ended.
        executed: The GTIDs that the server has executed; empty where it has none.
        bytes: Bytes of log between the two.
        transactions: How many transactions have been executed since; None without GTIDs.
        waits_since: When the first statement after the position began; None if none is logged.
        oldest: The first position that the server still has.
        bytes_before: Bytes of log that the server still has before the position.
        file_closed: When the file of the position was written last; None if it is the newest.
        expires_after: How long after that the server may delete it; None for never.
    """

    read_at: datetime
    position: Position
    log_end: Position
    executed: str
    bytes: int
    transactions: int | None
    waits_since: datetime | None
    oldest: Position
    bytes_before: int
    file_closed: datetime | None
    expires_after: timedelta | None

    @property
    def seconds(self) -> float:
        """Seconds that the first statement after the position has waited; 0 if there is none."""
        if self.waits_since is None:
            return 0.0
        # The clock of the server may be ahead.
        return max(0.0, (self.read_at - self.waits_since).total_seconds())

    @property
    def head_room(self) -> timedelta | None:
        """Seconds that the server keeps the log at the position at least; None for ever.

        It is negative where the server may delete it at any time.
        """
        if self.expires_after is None:
            return None
        closed = self.read_at if self.file_closed is None else self.file_closed
        return closed + self.expires_after - self.read_at

    @property
    def head_room_seconds(self) -> int | None:
        """The head-room in whole seconds; None for ever."""
        return None if self.head_room is None else round(self.head_room.total_seconds())


def read_lag(connect: Connect, position: Position, identity: SourceIdentity) -> Lag:
    """Query a server for the lag of a position that was issued by a server.

    Args:
        connect: Opens connections to one server.
        position: The end of what is staged.
        identity: The server that issued it.

    Raises:
        ForeignPositionError: It is another server, or its log was reset.
        PositionPurgedError: The server has deleted the log at the position.
        AccessDeniedError: The account lacks REPLICATION CLIENT or REPLICATION SLAVE.
        ConnectionLostError: The server was not reached.
    """
    with closing(connect()) as connection:
        here = queries.identify(connection)
        if here != identity:
            raise ForeignPositionError(
                "the position belongs to another server, or to a log of another name",
                position=position,
                issued_by=identity,
                this_is=here.server,
                log_name=here.log_name,
            )
        values = queries.global_variables(connection)
        logs = queries.binary_logs(connection)
        queries.check_file(logs, position)
        # Afterwards, so that it is not before the files that were listed.
        end = queries.log_end(connection)
        executed = queries.gtid_executed(connection)
        expires_after = queries.read_expiry(connection, values)
    oldest = Position(logs[0].file, FIRST_OFFSET)
    time = None
    if end.coordinates > position.coordinates:
        time = next_event_time(connect, here.flavor, position)
    following = [log.file for log in logs if split_file_name(log.file)[1] > position.file_number]
    closed = None
    if following:
        closed = file_created(connect, here.flavor, Position(following[0], FIRST_OFFSET))
    transactions = None
    if executed and position.gtid is not None:
        transactions = count_missing(here.flavor, executed, position.gtid)
    return Lag(
        read_at=datetime.now(UTC),
        position=position,
        log_end=end,
        executed=executed,
        bytes=max(0, queries.bytes_of(logs, position, end)),
        transactions=transactions,
        waits_since=_utc(time),
        oldest=oldest,
        bytes_before=queries.bytes_of(logs, oldest, position),
        file_closed=_utc(closed),
        expires_after=expires_after,
    )


def _utc(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


@dataclass(frozen=True)
class Thresholds:
    """How much has to wait in the log before it is staged; without any, whatever waits.

    Attributes:
        min_bytes: So many bytes of log.
        min_transactions: Or so many transactions.
        max_lag: Or something, for so many seconds.
    """

    min_bytes: int | None = None
    min_transactions: int | None = None
    max_lag: float | None = None

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self != Thresholds()

    def find_reason(self, lag: Lag) -> str:
        """Return which threshold a lag has reached; empty for none.

        Raises:
            ConfigurationError: Transactions are to be counted, and have no GTIDs.
        """
        if self.min_bytes is not None and lag.bytes >= self.min_bytes:
            return f"{lag.bytes:,} bytes of log wait"
        if self.min_transactions is not None:
            if lag.transactions is None:
                raise ConfigurationError(
                    "min_transactions counts GTIDs, and the server, or the checkpoint, has none: "
                    "give min_bytes"
                )
            if lag.transactions >= self.min_transactions:
                return f"{lag.transactions:,} transactions wait"
        if self.max_lag is not None and lag.waits_since and lag.seconds >= self.max_lag:
            return f"a change has waited for {lag.seconds:.0f} s"
        return ""
