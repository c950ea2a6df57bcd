"""How a snapshot spares its server: what it waits for, and how fast it reads."""

from __future__ import annotations

import math
from typing import Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.snapshot import plan as module
from airflow_provider_binlog.snapshot.plan import RowPace, Throttle, wait_until_idle


class Server:
    """A server as a connection to it: what it says of itself, query by query."""

    def __init__(self, *, running: list[int] | None = None, lag: float | None = None) -> None:
        self.running = running or [1]
        self.lag = lag

    def connect(self) -> Any:
        return self

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _say(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads_running(server: Server) -> int:
        return server.running.pop(0) if len(server.running) > 1 else server.running[0]

    monkeypatch.setattr(module, "threads_running", threads_running)
    monkeypatch.setattr(module, "replica_lag", lambda server: server.lag)


def test_the_next_chunk_waits_while_too_many_threads_run() -> None:
    server = Server(running=[30, 21, 20])
    reasons: list[str] = []
    slept: list[float] = []

    wait_until_idle(
        Throttle(threads_running_max=20), server.connect, on_wait=reasons.append, sleep=slept.append
    )

    assert reasons == ["30 threads are running, more than 20"]
    assert slept == [5, 5]


def test_a_long_wait_is_reported_every_minute() -> None:
    server = Server(running=[*[30] * 25, 1])
    reasons: list[str] = []

    wait_until_idle(
        Throttle(threads_running_max=20),
        server.connect,
        on_wait=reasons.append,
        sleep=lambda _: None,
    )

    assert len(reasons) == 3


@pytest.mark.parametrize(
    ("own", "other", "reason"),
    [
        (4, None, ""),
        (None, 5, ""),
        (None, 6, "a replica lags 6 s, more than 5 s"),
        (6, 0, "a replica lags 6 s, more than 5 s"),
        (math.inf, 0, "a replica lags inf s, more than 5 s"),
    ],
)
def test_the_greatest_lag_counts(own: float | None, other: float | None, reason: str) -> None:
    throttle = Throttle(replica_lag_max=5, replicas=(Server(lag=other).connect,))

    assert throttle.find_reason(Server(lag=own).connect) == reason


def test_the_lag_of_no_replica_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="replica_conn_ids names none"):
        Throttle(replica_lag_max=5).find_reason(Server().connect)


def test_a_server_is_not_queried_without_limits() -> None:
    def refuse() -> Any:
        raise AssertionError

    assert Throttle(rows_per_second_max=1).find_reason(refuse) == ""


def test_rows_pass_so_many_in_a_second() -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pace = RowPace(1000, clock=lambda: now[0], sleep=sleep)

    pace.count(500)
    assert now == [100.5]
    now[0] += 3
    pace.count(1500)
    assert now == [103.5]
    pace.count(3000)
    assert now == [105.0]


def test_rows_pass_freely_without_a_limit() -> None:
    RowPace(None, sleep=lambda _: pytest.fail("it waited")).count(10**9)
