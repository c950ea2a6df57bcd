"""The request of a snapshot: what is read, and how the server is spared."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.transport.server.status import replica_lag, threads_running

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    from airflow_provider_binlog.schema import TableName

    Connect = Callable[[], pymysql.Connection[Any]]

CHUNK_BYTES = 64 << 20
_POLL_SECONDS = 5.0
_POLLS_PER_MESSAGE = 12


@dataclass(frozen=True)
class Throttle:
    """Limits of the load that a snapshot may cause or meet; None for no limit.

    Attributes:
        rows_per_second_max: Rows that are read in a second, on average over a chunk.
        threads_running_max: The next chunk waits while `Threads_running` of the server is greater.
        replica_lag_max: Seconds; the next chunk waits while a replica lags more, or its replication
            is stopped. The server itself counts if it is a replica.
        replicas: Open connections to the other replicas whose lag counts.
    """

    rows_per_second_max: float | None = None
    threads_running_max: int | None = None
    replica_lag_max: float | None = None
    replicas: tuple[Connect, ...] = ()

    def find_reason(self, connect: Connect) -> str:
        """Return why the next chunk has to wait; empty if it need not.

        Raises:
            AccessDeniedError: The account may not read the state of a replica.
            ConfigurationError: The lag of no replica is known.
        """
        if self.threads_running_max is not None:
            with closing(connect()) as connection:
                running = threads_running(connection)
            if running > self.threads_running_max:
                return f"{running} threads are running, more than {self.threads_running_max}"
        if self.replica_lag_max is not None:
            lag = self._find_lag(connect)
            if lag > self.replica_lag_max:
                return f"a replica lags {lag:.0f} s, more than {self.replica_lag_max:g} s"
        return ""

    def _find_lag(self, connect: Connect) -> float:
        lags: list[float | None] = []
        for connect_replica in (connect, *self.replicas):
            with closing(connect_replica()) as connection:
                lags.append(replica_lag(connection))
        measured = [lag for lag in lags if lag is not None]
        if not measured:
            raise ConfigurationError(
                "max_replica_lag takes a replica: the server is none, and replica_conn_ids names "
                "none; name the connection of a replica there"
            )
        return max(measured)


@dataclass
class RowPace:
    """Delays a reading to a number of rows per second; None for no limit."""

    rows_per_second_max: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _rows: int = 0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def count(self, rows: int) -> None:
        """Count rows that were read; return when the next rows may be read."""
        self._rows += rows
        if self.rows_per_second_max is not None:
            early = self._rows / self.rows_per_second_max - (self.clock() - self._started)
            if early > 0:
                self.sleep(early)


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """One snapshot of one table.

    Attributes:
        source_name: Names the source's folder.
        name: Database and table.
        created_by: The run that takes it: a later try of the same run continues it.
        where: The condition on the rows to read, in SQL; None for all.
        exact: Whether all rows are read at one position, in one transaction, if need be by a lock
            that writers wait for, for moments. A table without a key is always read so.
        chunk_bytes: Bytes of the table that one transaction reads, about.
        policies: How values are staged that no lake type holds.
        limits: Of the parts' sizes.
        throttle: Of the load on the server.
    """

    source_name: str
    name: TableName
    created_by: str
    where: str | None = None
    exact: bool = False
    chunk_bytes: int = CHUNK_BYTES
    policies: Policies = DEFAULT_POLICIES
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle = field(default_factory=Throttle)


def wait_until_idle(
    throttle: Throttle,
    connect: Connect,
    *,
    on_wait: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the next chunk may be read.

    Args:
        throttle: The limits.
        connect: Opens a connection to the server.
        on_wait: Called with the reason as the wait begins, and every minute.
        sleep: Waits for so many seconds.

    Raises:
        AccessDeniedError, ConfigurationError: As `Throttle.find_reason`.
    """
    polls = 0
    while reason := throttle.find_reason(connect):
        if polls % _POLLS_PER_MESSAGE == 0:
            on_wait(reason)
        polls += 1
        sleep(_POLL_SECONDS)
