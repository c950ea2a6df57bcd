"""A range ends where its stop is, whatever the server does after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import BinlogError, ConnectionLostError, FormatError
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.stream.followed import FollowedBlockStream
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.support.fake_server import EOF, OK, FakeServer, Session, error
from tests.unit.transport.stream.test_dump import FIRST, a_file, events_of, heartbeat, rotate

if TYPE_CHECKING:
    from collections.abc import Callable

COM_BINLOG_DUMP = b"\x12"
FILE = a_file()
START, STOP = Position(FIRST, 4), Position(FIRST, len(FILE.data))


def dumping(afterwards: Callable[[Session], None]) -> Callable[[Session], None]:
    """Return a script that sends a file of the log, and then something else."""

    def script(client: Session) -> None:
        client.log_in()
        while not client.read().startswith(COM_BINLOG_DUMP):
            client.packet(OK)
        for event in (rotate(FIRST), *events_of(FILE)):
            client.packet(b"\0" + event)
        afterwards(client)

    return script


def beat_on(client: Session) -> None:
    beat = b"\0" + heartbeat(FIRST, STOP.offset)
    while True:
        client.packet(beat)


def disconnect(_: Session) -> None:
    pass


def source_of(server: FakeServer) -> ServerBlockStream:
    settings = ConnectionSettings("127.0.0.1", server.port, "replica", ssl_mode="disabled")
    return ServerBlockStream(settings.connect, flavor=Flavor.MYSQL)


def read(script: Callable[[Session], None], stop: Position | None) -> list[tuple[str, int]]:
    with FakeServer(script) as server:
        source = source_of(server)
        return [(block.file, block.next_offset) for block in source.blocks(START, stop)]


@pytest.mark.parametrize(
    "afterwards",
    [
        beat_on,
        disconnect,
        lambda client: client.packet(b"nonsense"),
        lambda client: client.packet(error(1236, "could not find next log")),
        lambda client: client.raw(b"\xff" * 100),
    ],
)
def test_what_follows_the_stop_does_not_matter(afterwards: Callable[[Session], None]) -> None:
    assert read(dumping(afterwards), STOP)[-1] == (FIRST, STOP.offset)


@pytest.mark.parametrize(
    ("afterwards", "kind"),
    [
        (disconnect, ConnectionLostError),
        (lambda client: client.packet(b"nonsense"), FormatError),
        (lambda client: client.packet(error(1236, "could not find next log")), BinlogError),
    ],
)
def test_without_a_stop_it_does(
    afterwards: Callable[[Session], None], kind: type[BinlogError]
) -> None:
    with pytest.raises(kind):
        read(dumping(afterwards), None)


def test_a_followed_stream_that_the_server_ends_is_lost() -> None:
    with FakeServer(dumping(lambda client: client.packet(EOF))) as server:
        followed = FollowedBlockStream(source_of(server))

        with pytest.raises(ConnectionLostError, match="ended the stream"):
            list(followed.blocks(START, Position(FIRST, STOP.offset + 1)))


def test_a_replica_that_is_refused_is_refused_in_our_words() -> None:
    def script(client: Session) -> None:
        client.log_in()
        while client.read()[:1] == b"\x03":
            client.packet(OK)
        client.packet(b"\0")  # COM_REGISTER_SLAVE, answered by half an OK packet

    with pytest.raises(BinlogError) as caught:
        read(script, STOP)
    assert caught.value.context["command"] == "COM_REGISTER_SLAVE"
