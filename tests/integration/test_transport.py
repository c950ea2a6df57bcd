"""The log read from real servers, and the same log read from their files."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from airflow_provider_binlog.binlog.header import GROUP_STARTS, EventType
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    BinlogError,
    ConnectionLostError,
    ForeignPositionError,
    IdentityClashError,
    PositionPurgedError,
    TruncatedError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.queries import binary_logs, gtid_executed, log_end
from airflow_provider_binlog.transport.stream import commands
from airflow_provider_binlog.transport.stream.followed import FollowedBlockStream
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.proxy import Proxy
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from airflow_provider_binlog.transport.block_stream import BlockStream

    Connection = pymysql.Connection[Any]
    Placed = tuple[str, int, bytes]

pytestmark = pytest.mark.server

START = Position("binlog.000001", FIRST_OFFSET)
MIB = 1 << 20


@pytest.fixture(scope="module", params=["mysql97", "mariadb1011", "mariadb118"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of this module alone, with a log of every kind of file."""
    server = Server.create(request.param, tmp_path_factory.mktemp(request.param))
    options: dict[str, str | int] = {"max_allowed_packet": "256M", "server_id": 1}
    server.start(options)
    write_log(server)
    server.restart(options)  # ends a file with STOP
    with closing(connect(server)) as connection:
        insert(connection, 3)
    yield server
    server.stop()


def write_log(server: Server) -> None:
    """Write files with checksums and without, a long event, and rows that look like headers."""
    with closing(connect(server)) as connection:
        run(connection, "CREATE DATABASE shop")
        run(connection, "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, note TEXT)")
        run(connection, "CREATE TABLE shop.files (id INT PRIMARY KEY, content LONGBLOB)")
        # A server id of 1, small sizes and positions of 0, as they stand in a header.
        run(connection, "CREATE TABLE shop.small (a INT, b INT, c INT, d INT)")
        insert(connection, 40)
        run(connection, "INSERT INTO shop.small VALUES (1, 30, 0, 0), (1, 19, 0, 1), (0, 1, 99, 0)")
        run(connection, "SET GLOBAL binlog_checksum = 'NONE'")
        insert(connection, 5)
        run(connection, "SET GLOBAL binlog_checksum = 'CRC32'")
        run(connection, "FLUSH BINARY LOGS")
        with connection.cursor() as cursor:
            for number, size in enumerate([100, 5 * MIB, 40 * MIB, 7]):
                cursor.execute(
                    "INSERT INTO shop.files VALUES (%s, REPEAT('x', %s))", (number, size)
                )
        run(connection, "FLUSH BINARY LOGS")
        insert(connection, 3000)


def connect(server: Server, *, port: int | None = None, **options: Any) -> Connection:
    # Without "ssl_disabled" PyMySQL uses TLS wherever the server offers it.
    defaults: dict[str, Any] = {"host": server.host, "port": port or server.port, "user": "root"}
    plain = {} if "ssl" in options else {"ssl_disabled": True}
    connection: Connection = pymysql.connect(**(defaults | plain | options), autocommit=True)
    return connection


def run(connection: Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def insert(connection: Connection, count: int) -> None:
    with connection.cursor() as cursor:
        for number in range(count):
            cursor.execute(
                "INSERT INTO shop.orders (note) VALUES (REPEAT('n', %s))", (number % 90,)
            )


def flavor(server: Server) -> Flavor:
    return Flavor.MARIADB if server.name.startswith("mariadb") else Flavor.MYSQL


def of_server(server: Server, *, port: int | None = None, **options: Any) -> ServerBlockStream:
    connection: Mapping[str, Any] = options.pop("connection", {})
    return ServerBlockStream(
        lambda: connect(server, port=port, **connection), flavor=flavor(server), **options
    )


def paths(server: Server) -> list[Path]:
    with closing(connect(server)) as connection:
        return [server.data / log.file for log in binary_logs(connection)]


def read(source: BlockStream, start: Position = START) -> list[Placed]:
    return [
        (block.file, int(block.offset[index]), bytes(block.event(index)))
        for block in source.blocks(start)
        for index in range(len(block))
    ]


def boundaries(events: list[Placed]) -> list[Position]:
    """Return where transactions begin."""
    return [Position(file, offset) for file, offset, event in events if event[4] in GROUP_STARTS]


@pytest.fixture(scope="module")
def events(server: Server) -> list[Placed]:
    """The whole log, from its files."""
    return read(FileBlockStream(paths(server)))


def test_the_server_and_its_files_give_the_same_events(
    server: Server, events: list[Placed]
) -> None:
    types = {EventType(event[4]) for _, _, event in events}

    assert {EventType.STOP, EventType.ROTATE, EventType.FORMAT_DESCRIPTION} <= types
    assert max(len(event) for _, _, event in events) > 40 * MIB
    assert read(of_server(server)) == events


@pytest.mark.parametrize("block_bytes", [30, 5000, 64 * MIB])
def test_blocks_of_any_size_give_the_same_events(
    server: Server, events: list[Placed], block_bytes: int
) -> None:
    start = Position(events[-2000][0], events[-2000][1])

    assert read(of_server(server, block_bytes=block_bytes), start) == events[-2000:]


def test_the_log_is_read_to_its_end(server: Server, events: list[Placed]) -> None:
    with closing(connect(server)) as connection:
        end = log_end(connection)
    file, offset, event = events[-1]

    assert Position(file, offset + len(event)) == end
    assert read(of_server(server), end) == []
    assert read(FileBlockStream(paths(server)), end) == []


def test_from_any_transaction_on(server: Server, events: list[Placed]) -> None:
    positions = [(file, offset) for file, offset, _ in events]
    # 45 to 50 lie in the file without checksums.
    for start in boundaries(events)[::150] + boundaries(events)[44:52]:
        expected = events[positions.index((start.file, start.offset)) :]

        assert read(of_server(server), start) == expected
        assert read(FileBlockStream(paths(server)), start) == expected


def test_a_block_never_spans_two_files_and_the_stop_ends_the_last(
    server: Server, events: list[Placed]
) -> None:
    stop = boundaries(events)[-20]

    for source in (
        of_server(server, block_bytes=5000),
        FileBlockStream(paths(server), block_bytes=5000),
    ):
        blocks = list(source.blocks(START, stop))
        assert blocks[0].offset[0] == FIRST_OFFSET
        assert blocks[-1].file == stop.file
        assert blocks[-1].offset[0] < stop.offset <= blocks[-1].next_offset
        assert list(source.blocks(stop, stop)) == []


def test_consecutive_ranges_are_read_over_one_connection(
    server: Server, events: list[Placed]
) -> None:
    stops = [*boundaries(events)[1::400], boundaries(events)[-1]]
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(connect(server))
        return opened[-1]

    stream = ServerBlockStream(open_one, flavor=flavor(server), block_bytes=5000)
    followed, start = FollowedBlockStream(stream), START
    found: list[Placed] = []
    for stop in stops:
        # As a reader does that stops at the last block.
        for block in followed.blocks(start, stop):
            found += [
                (block.file, int(block.offset[index]), bytes(block.event(index)))
                for index in range(len(block))
            ]
            if (block.file, block.next_offset) == (stop.file, stop.offset):
                break
        start = stop
    assert len(opened) == 1

    again = list(followed.blocks(stops[0], stops[1]))
    followed.close()

    last = [(file, offset) for file, offset, _ in events].index((start.file, start.offset))
    assert found == events[:last]
    assert len(opened) == 2
    assert (again[0].file, again[0].offset[0]) == (stops[0].file, stops[0].offset)


def test_a_start_that_the_dump_command_cannot_express(
    server: Server, events: list[Placed], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if every offset were past 4 GiB.
    monkeypatch.setattr(commands, "_OFFSET_END", FIRST_OFFSET)
    for start in (boundaries(events)[50], boundaries(events)[-2]):
        index = [(file, offset) for file, offset, _ in events].index((start.file, start.offset))

        assert read(of_server(server), start) == events[index:]


def test_position_after_a_gtid_set(server: Server, events: list[Placed]) -> None:
    starts = boundaries(events)
    with closing(connect(server)) as connection:
        executed = gtid_executed(connection)
        end = log_end(connection)
    prefix, _, last = executed.rpartition("-")
    source = of_server(server)

    for number in (1, 2, 20, 46, 47, 48, 1000, int(last) - 1):
        gtid = f"{prefix}-{number}"
        assert source.position_after(gtid) == Position(
            starts[number].file, starts[number].offset, gtid
        )
    assert source.position_after("") == Position(starts[0].file, starts[0].offset, "")
    assert source.position_after(executed) == Position(end.file, end.offset, executed)


def test_over_tls(server: Server, events: list[Placed]) -> None:
    if server.name == "mariadb1011":
        pytest.skip("10.11 makes no certificate of its own")
    tls: dict[str, Any] = {"ssl": {"check_hostname": False, "verify_mode": False}}
    with closing(connect(server, **tls)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        row = cursor.fetchone()
        assert row is not None
        assert row[1]

    assert read(of_server(server, connection=tls)) == events


@pytest.mark.fault("cut", servers="mysql97 mariadb1011 mariadb118")
def test_a_connection_cut_at_any_byte_is_lost(server: Server, events: list[Placed]) -> None:
    start = Position(events[-25][0], events[-25][1])
    proxy = Proxy(server.host, server.port)
    source = of_server(server, port=proxy.port, block_bytes=700)
    assert read(source, start) == events[-25:]
    whole = proxy.passed

    for size in [*range(whole - 100, whole), *range(0, whole - 100, 41)]:
        proxy.reset()
        proxy.cut_after = size
        with pytest.raises(ConnectionLostError):
            read(source, start)
    proxy.close()


@pytest.mark.fault("stalled", servers="mysql97 mariadb1011 mariadb118")
def test_a_silent_connection_is_lost(server: Server, events: list[Placed]) -> None:
    proxy = Proxy(server.host, server.port)
    proxy.hold_after = 50_000
    source = of_server(server, port=proxy.port, silence_seconds_max=0.3)

    with pytest.raises(ConnectionLostError, match="timed out"):
        read(source, Position(events[-9000][0], events[-9000][1]))
    proxy.close()


@pytest.mark.fault("throttled", servers="mysql97 mariadb1011 mariadb118")
def test_a_slow_connection_gives_the_same_events(server: Server, events: list[Placed]) -> None:
    proxy = Proxy(server.host, server.port)
    proxy.bytes_per_second = 400_000

    source = of_server(server, port=proxy.port)
    assert read(source, Position(events[-900][0], events[-900][1])) == events[-900:]
    proxy.close()


def test_a_source_that_is_closed_ends_its_streams(server: Server) -> None:
    source = of_server(server, block_bytes=5000)
    blocks = source.blocks(START)
    next(blocks)
    source.close()

    with pytest.raises(ConnectionLostError):
        list(blocks)


def test_a_server_that_is_not_there_is_a_lost_connection() -> None:
    source = ServerBlockStream(
        lambda: pymysql.connect(host="127.0.0.1", port=1, user="root"), flavor=Flavor.MYSQL
    )

    with pytest.raises(ConnectionLostError):
        read(source)


def test_streams_side_by_side(server: Server, events: list[Placed]) -> None:
    source = of_server(server, block_bytes=5000)
    streams = [source.blocks(START) for _ in range(3)]
    for stream in streams:
        next(stream)

    assert [sum(map(len, stream)) for stream in streams] == [
        sum(map(len, list(source.blocks(START))[1:]))
    ] * 3
    assert events


@pytest.mark.fault("id-taken", servers="mariadb1011 mariadb118")
def test_two_replicas_of_one_server_id(server: Server) -> None:
    if flavor(server) is Flavor.MYSQL:
        pytest.skip("MySQL distinguishes replicas by their uuid, which is always new here")
    source, other = (of_server(server, server_id=1 << 31, block_bytes=5000) for _ in range(2))
    first = source.blocks(START)
    next(first)
    # The server lets the second one wait until the first has taken in its end.
    with ThreadPoolExecutor() as pool:
        second = pool.submit(lambda: next(other.blocks(START)))
        time.sleep(0.5)

        with pytest.raises(IdentityClashError):
            list(first)

        assert second.result().file == START.file


def test_a_file_that_the_server_does_not_have(server: Server) -> None:
    with pytest.raises(PositionPurgedError, match=r"file=binlog\.000777"):
        read(of_server(server), Position("binlog.000777", 4))


def test_a_position_past_the_end_of_its_file(server: Server) -> None:
    with pytest.raises(ForeignPositionError, match=r"file=binlog\.000001"):
        read(of_server(server), Position("binlog.000001", 1 << 30))


def test_a_position_inside_an_event(server: Server, events: list[Placed]) -> None:
    _, offset, event = events[30]
    for inside in (1, 10, len(event) - 1):
        with pytest.raises(BinlogError) as raised:
            read(of_server(server), Position(START.file, offset + inside))
        assert not raised.value.retryable
        assert raised.value.context["file"] == START.file


def test_a_gtid_set_of_another_server(server: Server) -> None:
    with closing(connect(server)) as connection:
        executed = gtid_executed(connection)
    prefix, _, last = executed.rpartition("-")

    with pytest.raises(ForeignPositionError):
        of_server(server).position_after(f"{prefix}-{int(last) + 100}")


def test_an_account_that_may_not_read_the_log(server: Server) -> None:
    with closing(connect(server)) as connection:
        run(connection, "CREATE USER IF NOT EXISTS nobody@'%' IDENTIFIED BY 'secret'")
    account = {"user": "nobody", "password": "secret"}

    with pytest.raises(AccessDeniedError):
        read(of_server(server, connection=account))
    with pytest.raises(AccessDeniedError):
        read(of_server(server, connection=account | {"password": "wrong"}))


def test_other_server_ids_in_the_log(server: Server) -> None:
    if flavor(server) is Flavor.MYSQL:
        pytest.skip("only MariaDB lets a session choose its server id")
    with closing(connect(server)) as connection:
        start = log_end(connection)
        for number in range(200):
            run(connection, f"SET SESSION server_id = {1 + number % 12}")
            insert(connection, 1 + number % 3)

    found = read(of_server(server), start)

    assert found == read(FileBlockStream(paths(server)), start)
    assert {event[5] for _, _, event in found} == set(range(1, 13))


@pytest.mark.fault("truncated", servers="mysql97 mariadb1011 mariadb118")
def test_the_active_file_cut_inside_an_event_is_truncated(
    server: Server, events: list[Placed], tmp_path: Path
) -> None:
    active = paths(server)[-1]
    copied = tmp_path / active.name
    shutil.copy(active, copied)
    file, offset, event = events[-1]
    with copied.open("r+b") as stream:
        stream.truncate(offset + len(event) // 2)

    with pytest.raises(TruncatedError, match=f"file={file}, offset={offset}"):
        read(FileBlockStream([copied]), Position(file, FIRST_OFFSET))


# These two write to the log that the others read.


def test_what_is_logged_while_a_followed_connection_waits_is_read(server: Server) -> None:
    followed = FollowedBlockStream(of_server(server))
    notes = ("first", "second", "third")
    with closing(connect(server)) as connection:
        start = log_end(connection)
        for note in notes:
            run(connection, f"INSERT INTO shop.orders (note) VALUES ('{note}')")
            if note == "second":
                run(connection, "FLUSH BINARY LOGS")
            stop = log_end(connection)
            data = b"".join(
                bytes(block.event(index))
                for block in followed.blocks(start, stop)
                for index in range(len(block))
            )
            start = stop

            assert [text for text in notes if text.encode() in data] == [note]
    followed.close()


def test_purged_files_are_purged(server: Server) -> None:
    with closing(connect(server)) as connection:
        run(connection, "PURGE BINARY LOGS TO 'binlog.000002'")

    with pytest.raises(PositionPurgedError, match="snapshot"):
        read(of_server(server))
    with pytest.raises(PositionPurgedError, match="snapshot"):
        of_server(server).position_after("")
