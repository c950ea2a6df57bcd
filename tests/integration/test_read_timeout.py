"""A connection's `read_timeout` applies to the stream of the log, as to queries."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.sources import server_log
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server import driver as sql
from airflow_provider_binlog.transport.server.queries import gtid_executed, log_end
from airflow_provider_binlog.transport.stream import live
from tests.support.ranges import live as source_of

if TYPE_CHECKING:
    from tests.services.servers import Server

pytestmark = pytest.mark.server


def test_every_stream_has_it(mysql97: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    class Made(live.ServerBlockStream):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            made.append(options)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(server_log, "ServerBlockStream", Made)
    settings = ConnectionSettings(mysql97.host, mysql97.port, "root", read_timeout=77)
    with closing(settings.connect()) as connection:
        end, executed = log_end(connection), gtid_executed(connection)

    with closing(server_log.ServerLog(settings)) as log:
        list(log.blocks(end))
        log.find_gtids(executed)

    assert [each["silence_seconds_max"] for each in made] == [77]


@pytest.mark.parametrize(("silence", "period"), [(3, 1), (60, 10), (600, 10)])
def test_heartbeats_arrive_before_the_connection_counts_as_lost(
    silence: int, period: int, mysql97: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def query(connection: Any, statement: str) -> list[sql.Row]:
        sent.append(statement)
        return sql.query(connection, statement)

    monkeypatch.setattr(live, "query", query)
    with closing(ConnectionSettings(mysql97.host, mysql97.port, "root").connect()) as connection:
        end = log_end(connection)

    list(source_of(mysql97, silence_seconds_max=silence).blocks(end))

    (beats,) = (each for each in sent if "@source_heartbeat_period" in each)
    assert beats.startswith(f"SET @source_heartbeat_period = {period * 10**9},")
