"""Pace: a stream may be slow, but not without bounds."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import ConnectionLostError
from airflow_provider_binlog.transport.block_stream import (
    BYTES_PER_SECOND_MIN,
    HEARTBEATS_MAX,
    Pace,
)

SECONDS_MAX = 60


def test_a_byte_per_second_is_too_slow() -> None:
    pace = Pace(SECONDS_MAX)
    for _ in range(SECONDS_MAX):
        pace.received(1, 1)
        pace.event()

    with pytest.raises(ConnectionLostError, match="too slowly") as caught:
        pace.received(1, 1)
    assert caught.value.context["bytes"] == 61


def test_a_slow_way_is_not_too_slow() -> None:
    pace = Pace(SECONDS_MAX)

    for _ in range(10_000):
        pace.received(2 * BYTES_PER_SECOND_MIN, 1)


def test_heartbeats_alone_are_too_little() -> None:
    pace = Pace(SECONDS_MAX)
    for _ in range(6):
        pace.received(1 << 20, 10)
        pace.heartbeat(40)

    pace.received(1 << 20, 10)
    with pytest.raises(ConnectionLostError, match="heartbeats"):
        pace.heartbeat(40)


@pytest.mark.parametrize("size", [40, 1 << 20])
def test_a_flood_of_heartbeats_for_which_nobody_waits_is_a_lost_connection(size: int) -> None:
    pace = Pace(SECONDS_MAX)

    def flood() -> None:
        for _ in range(HEARTBEATS_MAX + 1):
            pace.received(size, 0)
            pace.heartbeat(size)

    with pytest.raises(ConnectionLostError, match="heartbeats, but no events"):
        flood()


def test_heartbeats_between_events_are_harmless() -> None:
    pace = Pace(SECONDS_MAX)

    for _ in range(100):
        pace.received(1 << 20, 30)
        pace.heartbeat(40)
        pace.event()


def test_a_server_may_skip_transactions_for_as_long_as_it_takes() -> None:
    pace = Pace(SECONDS_MAX)

    for _ in range(1000):
        pace.received(40, 10)
        pace.skipped(40)


def test_a_flood_that_says_that_the_server_skips_is_a_lost_connection() -> None:
    pace = Pace(SECONDS_MAX)

    def flood() -> None:
        for _ in range(HEARTBEATS_MAX + 1):
            pace.received(40, 0)
            pace.skipped(40)

    with pytest.raises(ConnectionLostError, match="heartbeats, but no events"):
        flood()
