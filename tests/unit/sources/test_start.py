"""A start is one of five things; anything else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings

if TYPE_CHECKING:
    from airflow_provider_binlog.sources.state import Start

NOWHERE = ConnectionSettings("127.0.0.1", 1)
"""Nothing listens there: what is resolved with it queries no server."""


def found_at(log: ServerLog, gtids: str) -> Position:
    assert log.settings is NOWHERE
    return Position("found.000001", 4, gtids)


def resolve(start: Start) -> Position:
    return ServerLog(NOWHERE).resolve(start)


@pytest.mark.parametrize(
    ("start", "position"),
    [
        ("binlog.000042:4", Position("binlog.000042", 4)),
        (" my.log-bin.1000000:9999999999 ", Position("my.log-bin.1000000", 9999999999)),
        ({"file": "b.000001", "offset": 7, "gtid": "0-1-2"}, Position("b.000001", 7, "0-1-2")),
        (
            {"start": {"file": "b.000001", "offset": 7, "gtid": None}, "log_end": {}},
            Position("b.000001", 7),
        ),
    ],
)
def test_a_position_is_read(start: Start, position: Position) -> None:
    assert resolve(start) == position


@pytest.mark.parametrize(
    "gtids",
    ["0-1-100", "0-1-100,7-2-5", "4f1e0000-0000-0000-0000-000000000001:1-51:tag:7"],
)
@pytest.mark.parametrize("returned_by_the_sensor", [False, True])
def test_gtids_are_resolved(
    gtids: str, *, returned_by_the_sensor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServerLog, "find_gtids", found_at)
    start: Any = {"start": gtids} if returned_by_the_sensor else gtids

    assert resolve(start) == Position("found.000001", 4, gtids)


@pytest.mark.parametrize(
    "start",
    [
        "",
        "yesterday",
        "binlog.000001",
        "binlog.000001:3",
        "binlog:4",
        ":4",
        "b.1:-4",
        "b.1:" + "9" * 5000,
        "b." + "9" * 5000 + ":4",
        {},
        {"start": 1},
    ],
)
def test_anything_else_is_refused(start: Start) -> None:
    with pytest.raises(ConfigurationError):
        resolve(start)
