"""How a snapshot spares its server: rows per second, and pauses while the server is busy."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.transport.server.status import replica_lag, threads_running

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    Connect = Callable[[], pymysql.Connection[Any]]

_POLL_SECONDS = 5.0
_POLLS_PER_MESSAGE = 12


@dataclass(frozen=True)
class Throttle:
    """Limits of the load that a snapshot may cause or meet; None where there is none.

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
        lags = []
        for each in (connect, *self.replicas):
            with closing(each()) as connection:
                lags.append(replica_lag(connection))
        known = [lag for lag in lags if lag is not None]
        if not known:
            raise ConfigurationError(
                "max_replica_lag takes a replica: the server is none, and replica_conn_ids names "
                "none; name the connection of a replica there"
            )
        return max(known)


@dataclass
class RowPace:
    """Lets rows pass, so many in a second at most.

    Attributes:
        rows_per_second_max: None for any number.
    """

    rows_per_second_max: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _rows: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def count(self, rows: int) -> None:
        """Count rows that were read; return when the next ones may be."""
        self._rows += rows
        if self.rows_per_second_max is not None:
            early = self._rows / self.rows_per_second_max - (self.clock() - self._began)
            if early > 0:
                self.sleep(early)


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
