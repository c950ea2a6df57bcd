"""A connection's `read_timeout` holds for the stream of the log, as for questions."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.cli import source as cli_source
from airflow_provider_binlog.hooks.settings import ConnectionSettings
from airflow_provider_binlog.hooks.standing import Standing
from airflow_provider_binlog.operators.gtids import find_gtids
from airflow_provider_binlog.operators.logs import ServerLog
from airflow_provider_binlog.transport.server import result_sets as sql
from airflow_provider_binlog.transport.server.queries import gtid_executed, identify, log_end
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

    monkeypatch.setattr(live, "ServerBlockStream", Made)
    settings = ConnectionSettings(mysql97.host, mysql97.port, "root", read_timeout=77)
    with closing(settings.connect()) as connection:
        end, executed = log_end(connection), gtid_executed(connection)
        standing = Standing(identify(connection), None, None, end)

    ServerLog(settings).source(standing, end).close()
    with closing(cli_source.ServerLog(settings)) as log:
        list(log.blocks(end))
    find_gtids(settings, executed)

    assert [each["silence_seconds_max"] for each in made] == [77] * 3


@pytest.mark.parametrize(("silence", "period"), [(3, 1), (60, 10), (600, 10)])
def test_signs_of_life_come_before_the_connection_counts_as_lost(
    silence: int, period: int, mysql97: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(connection: Any, statement: str) -> list[sql.Row]:
        asked.append(statement)
        return sql.ask(connection, statement)

    monkeypatch.setattr(live, "ask", ask)
    with closing(ConnectionSettings(mysql97.host, mysql97.port, "root").connect()) as connection:
        end = log_end(connection)

    list(source_of(mysql97, silence_seconds_max=silence).blocks(end))

    (beats,) = (each for each in asked if "@source_heartbeat_period" in each)
    assert beats.startswith(f"SET @source_heartbeat_period = {period * 10**9},")
