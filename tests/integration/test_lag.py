"""The lag of a position and its head-room, beside what a real server does with its log."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats

from airflow_provider_binlog import BinlogRetentionSensor, BinlogSource
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ForeignPositionError, PositionPurgedError
from airflow_provider_binlog.hooks.tasks import AirflowVariableStore
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.sources.lag import Lag, read_lag
from airflow_provider_binlog.transport.server import queries
from tests.fixtures.mysql import connect, execute, flush_log, query
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.server

_KEPT_SECONDS = 3600


@pytest.fixture(scope="module", params=["mysql97", "mariadb1011"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that nobody else writes to."""
    server = Server.create(request.param, tmp_path_factory.mktemp(request.param))
    server.start()
    execute(server, "CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    execute(server, f"SET GLOBAL binlog_expire_logs_seconds = {_KEPT_SECONDS}")
    yield server
    server.stop()


def read(server: Server, position: Position) -> Lag:
    with closing(connect(server)) as connection:
        identity = queries.identify(connection)
    return read_lag(lambda: connect(server), position, identity)


def end(server: Server) -> Position:
    with closing(connect(server)) as connection:
        return queries.log_end(connection)


def sizes(server: Server) -> dict[str, int]:
    return {str(row[0]): int(row[1]) for row in query(server, "SHOW BINARY LOGS")}


def test_at_the_end_of_the_log_nothing_lags(server: Server) -> None:
    flush_log(server)
    position = end(server)

    lag = read(server, position)

    assert (lag.log_end, lag.bytes, lag.seconds, lag.waits_since) == (position, 0, 0.0, None)
    assert lag.bytes_before == sum(sizes(server).values()) - FIRST_OFFSET
    assert lag.oldest == Position(min(sizes(server)), FIRST_OFFSET)
    # The newest file is kept: its time begins when the next one does.
    assert lag.file_closed is None
    assert lag.head_room == timedelta(seconds=_KEPT_SECONDS)


def test_bytes_and_seconds_are_those_of_the_first_statement_that_waits(server: Server) -> None:
    flush_log(server)
    position = end(server)
    began = datetime.now(UTC)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET timestamp = UNIX_TIMESTAMP() - 120")
        cursor.execute("REPLACE INTO shop.orders VALUES (1)")
    execute(server, "REPLACE INTO shop.orders VALUES (2)")

    lag = read(server, position)

    written = sizes(server)
    assert lag.bytes == written[position.file] - position.offset
    assert lag.waits_since is not None
    assert abs((began - lag.waits_since).total_seconds() - 120) < 30
    assert lag.seconds == (lag.read_at - lag.waits_since).total_seconds()

    # Over several files, the newest of which has no statement yet.
    newest = flush_log(server)
    flush_log(server)
    lag = read(server, position)

    written = sizes(server)
    assert lag.bytes == sum(written.values()) - lag.bytes_before - FIRST_OFFSET
    assert lag.waits_since is not None
    closed = Position(newest, FIRST_OFFSET)
    assert lag.file_closed is not None
    assert lag.head_room is not None
    assert lag.head_room < timedelta(seconds=_KEPT_SECONDS)
    lag = read(server, closed)
    assert (lag.seconds, lag.waits_since) == (0.0, None)


def test_the_server_deletes_a_file_when_its_head_room_is_used_up(server: Server) -> None:
    position = end(server)
    flush_log(server)
    execute(server, "SET GLOBAL binlog_expire_logs_seconds = 1")
    try:
        # The server compares whole seconds.
        while (room := read(server, position).head_room) is None or room > -timedelta(seconds=2):
            time.sleep(0.1)
        flush_log(server)

        with pytest.raises(PositionPurgedError, match="purged its log at this position"):
            read(server, position)
    finally:
        execute(server, f"SET GLOBAL binlog_expire_logs_seconds = {_KEPT_SECONDS}")


def test_a_server_that_deletes_nothing_has_room_for_ever(server: Server) -> None:
    execute(server, "SET GLOBAL binlog_expire_logs_seconds = 0")
    try:
        assert read(server, end(server)).head_room is None
    finally:
        execute(server, f"SET GLOBAL binlog_expire_logs_seconds = {_KEPT_SECONDS}")


def test_a_position_of_another_server_has_no_lag_here(server: Server) -> None:
    with closing(connect(server)) as connection:
        identity = queries.identify(connection)

    with pytest.raises(ForeignPositionError, match="belongs to another server"):
        read_lag(lambda: connect(server), end(server), replace(identity, server="another"))
    position = end(server)
    with pytest.raises(ForeignPositionError, match="after the end of its file"):
        read(server, replace(position, offset=position.offset + 1))


# ------------------------------------------------------------------- the sensor


@pytest.fixture
def checkpoint(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint at the end of the log; something is logged after it."""
    fields = {"conn_type": "binlog", "host": server.host, "port": server.port, "login": "root"}
    monkeypatch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", json.dumps(fields))
    execute(server, f"SET GLOBAL binlog_expire_logs_seconds = {_KEPT_SECONDS}")
    flush_log(server)
    with closing(connect(server)) as connection:
        identity, at = queries.identify(connection), queries.log_end(connection)
    saved = Checkpoint(identity, at, 1, "2026-11-21", "a test").encode()
    monkeypatch.setattr(AirflowVariableStore, "get", lambda *_: saved)
    execute(server, "REPLACE INTO shop.orders VALUES (3)")


def poke(context: dict[str, Any] | None = None, **arguments: Any) -> Any:
    sensor = BinlogRetentionSensor(
        task_id="retention", source=BinlogSource("shop", start="now"), **arguments
    )
    given: Any = context or {}
    return sensor.poke(given).xcom_value


@pytest.mark.usefixtures("checkpoint")
def test_a_run_fails_before_the_server_deletes_what_is_not_staged(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    gauges: dict[str, float] = {}

    def gauge(name: str, value: float, tags: dict[str, str]) -> None:
        assert tags == {"source": "shop"}
        gauges[name] = value

    monkeypatch.setattr(stats, "gauge", gauge)

    enough = poke(min_time=timedelta(minutes=30))

    assert gauges["binlog.lag_bytes"] == enough["lag_bytes"]
    assert int(gauges["binlog.head_room_seconds"]) - enough["head_room_seconds"] in (0, -1)

    assert enough["head_room_seconds"] in range(_KEPT_SECONDS - 60, _KEPT_SECONDS + 1)
    assert enough["lag_bytes"] > 0
    with pytest.raises(AirflowFailException, match=r"for 1\.0 hours more, and 1 day.* are wanted"):
        poke()
    with pytest.raises(AirflowFailException, match="HeadRoomError"):
        poke(min_time=2 * _KEPT_SECONDS)

    execute(server, "SET GLOBAL binlog_expire_logs_seconds = 0")
    assert poke()["head_room_seconds"] is None


@pytest.mark.usefixtures("checkpoint")
def test_head_room_is_counted_in_runs_and_in_bytes() -> None:
    before = {"prev_start_date_success": datetime.now(UTC) - timedelta(minutes=30)}

    assert poke(before, min_time=1, min_runs=1)
    with pytest.raises(AirflowFailException, match="HeadRoomError"):
        poke(before, min_time=1, min_runs=3)
    # The first run has no other one to compare with.
    assert poke({"prev_start_date_success": None}, min_time=1, min_runs=3)

    assert poke(min_time=1, min_bytes=100)
    with pytest.raises(AirflowFailException, match="less log before the checkpoint"):
        poke(min_time=1, min_bytes="10 GiB")


def test_without_a_checkpoint_nothing_can_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AirflowVariableStore, "get", lambda *_: None)

    assert poke() is None
