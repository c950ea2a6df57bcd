"""A log is followed only as long as it is the same log, of the same server.

Offsets and GTID counts of another history may be the same: what a server logs that was reset, or
restored from a backup, may look like the continuation of what was staged.
"""

from __future__ import annotations

import gzip
import shutil
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.follow import Schedule, follow
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.checkpoint import Checkpoint, advance, load
from airflow_provider_binlog.errors import (
    ForeignPositionError,
    PositionPurgedError,
    ServerChangedError,
)
from airflow_provider_binlog.operators.backlog import BinlogArchiveOperator
from airflow_provider_binlog.operators.extract import (
    BinlogExtractOperator,
    read_staged,
)
from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor
from airflow_provider_binlog.sources.binlog_files import find_files, reach_plainly
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.sources.file_log import FileLog
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server import queries
from tests.fixtures.mysql import connect, execute, flush_log, purge
from tests.services.servers import Server
from tests.support.extract_worker import context
from tests.support.requests import a_request
from tests.support.stores import Checkpoints, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.sources.state import Log
    from tests.fixtures.proxy import Proxy

pytestmark = pytest.mark.server

KEY = "checkpoint"
VARIABLE = "AIRFLOW_VAR_BINLOG_CHECKPOINT_SHOP"
ANOTHER = r"not the one in the log now.*restored from a backup.*take new snapshots"


@dataclass
class Source:
    """Stages run after run, as the operators do, from whatever log is opened."""

    folder: Path
    open: Callable[[], Log]
    start: Any = "earliest"
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    def stage(self, *, between: Callable[[], None] = lambda: None) -> Manifest:
        """Stage up to the log's end, and move the checkpoint."""
        with closing(self.open()) as log:
            state = log.read_state(load(self.checkpoints, KEY), start=self.start)
            saved = state.checkpoint
            if saved is None:
                assert state.start is not None
                saved = Checkpoint(state.identity, state.start, 0, "now", "a test")
                advance(self.checkpoints, KEY, expected=None, new=saved)
            between()
            request = a_request(
                saved.position,
                state.log_end,
                identity=state.identity,
                sequence=saved.sequence + 1,
                tables=TableFilter(["shop.*"]),
                read_server_tables=log.read_server_tables,
            )
            (manifest,) = extract(request, log, open_store(f"file://{self.folder}")).manifests
        new = Checkpoint.covering(manifest, saved_at="now", saved_by="a test")
        advance(self.checkpoints, KEY, expected=saved, new=new)
        return manifest

    def staged(self) -> list[str]:
        """Return the files that were staged."""
        return sorted(str(path) for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module", params=["mysql97", "mariadb118"])
def own_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that nobody else uses."""
    server = Server.create(request.param, tmp_path_factory.mktemp(request.param))
    server.start()
    execute(
        server,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, note CHAR(20))",
    )
    yield server
    server.stop()


@pytest.fixture
def source(own_server: Server, tmp_path: Path) -> Source:
    """The server's log, from its beginning."""
    settings = ConnectionSettings.from_dsn(own_server.dsn)
    return Source(tmp_path / "staged", lambda: ServerLog(settings))


def insert(server: Server, first: int, count: int) -> None:
    """Commit that many transactions of one size, each of which inserts a row."""
    numbers = range(first, first + count)
    # MariaDB logs the text as well.
    execute(server, *(f"INSERT INTO shop.orders VALUES ({n:06}, '{n:020}')" for n in numbers))


def reset(server: Server) -> None:
    """Begin a new log, of the same names and offsets, with the table."""
    mariadb = server.name.startswith("mariadb")
    execute(
        server,
        "DROP DATABASE IF EXISTS shop",
        "RESET MASTER" if mariadb else "RESET BINARY LOGS AND GTIDS",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, note CHAR(20))",
    )


def wait_for_the_next_second(created: int) -> None:
    """Wait until a file that is created would have another time of creation."""
    while int(time.time()) <= created + 1:
        time.sleep(0.05)


def created_at(manifest: Manifest) -> int:
    """Return when the file was created in which a manifest stops."""
    assert manifest.stop.file_created is not None
    return manifest.stop.file_created


def check_without_creation(server: Server, source: Source) -> None:
    """Check that coordinates and GTIDs alone do not show that the checkpoint is of another log."""
    saved = Checkpoint.decode(source.checkpoints[KEY])
    with closing(connect(server)) as connection:
        position = replace(saved.position, file_created=None)
        queries.check_position(connection, position)
        assert queries.log_end(connection).coordinates > position.coordinates


def check_refused(source: Source) -> None:
    """Check that the state and the stream refuse the log, and nothing is staged."""
    before = source.staged()
    with pytest.raises(ForeignPositionError, match=ANOTHER) as caught:
        source.stage()
    assert not caught.value.retryable
    saved = Checkpoint.decode(source.checkpoints[KEY])
    with closing(source.open()) as log, pytest.raises(ForeignPositionError, match=ANOTHER):
        next(iter(log.blocks(saved.position)))
    assert source.staged() == before


@pytest.mark.fault("restored", servers="mysql97 mariadb118", stores="file")
def test_a_restored_server_is_not_followed(own_server: Server, source: Source) -> None:
    reset(own_server)
    insert(own_server, 1, 20)
    own_server.stop()
    copy = own_server.folder / "copy"
    shutil.copytree(own_server.data, copy)
    own_server.start()
    flush_log(own_server)
    insert(own_server, 21, 30)
    assert source.stage().rows == 50
    insert(own_server, 51, 5)
    followed = source.stage()
    assert (followed.rows, followed.start.file_created) == (5, created_at(followed))

    own_server.kill()
    shutil.rmtree(own_server.data)
    copy.rename(own_server.data)
    wait_for_the_next_second(created_at(followed))
    own_server.start()
    flush_log(own_server)
    insert(own_server, 1001, 45)

    check_without_creation(own_server, source)
    check_refused(source)


@pytest.mark.fault("restored", servers="mysql97 mariadb118", stores="file")
def test_a_log_that_is_reset_during_the_first_range_is_not_followed(
    own_server: Server, source: Source
) -> None:
    reset(own_server)
    insert(own_server, 1, 10)

    def begin_again() -> None:
        wait_for_the_next_second(int(time.time()))
        reset(own_server)
        insert(own_server, 101, 10)

    with pytest.raises(ForeignPositionError, match=ANOTHER):
        source.stage(between=begin_again)
    assert source.staged() == []
    # The checkpoint of the first run is that of the first log.
    check_refused(source)


@pytest.mark.fault("restored", servers="mysql97 mariadb118", stores="file")
def test_a_log_that_is_reset_while_it_is_followed_is_refused(
    own_server: Server, source: Source
) -> None:
    """At once, as by the next run, and not when the new log is as long as the previous one."""
    reset(own_server)
    insert(own_server, 1, 10)
    staged = source.stage()
    settings = ConnectionSettings.from_dsn(own_server.dsn)
    request = a_request(staged.stop, staged.stop, identity=staged.identity, sequence=2)
    schedule = Schedule(until=time.monotonic() + 30, every=0)

    with closing(ServerLog(settings, follows=True)) as log:
        assert log.end().coordinates == staged.stop.coordinates
        reset(own_server)
        with pytest.raises(ForeignPositionError, match="take new snapshots") as caught:
            next(follow(request, log, open_store(f"file://{source.folder}"), schedule=schedule))

    with pytest.raises(ForeignPositionError) as next_run:
        source.stage()
    assert str(caught.value) == str(next_run.value)


@pytest.mark.fault("restored", servers="mysql97 mariadb118", stores="file")
def test_the_sensors_start_is_of_one_log(own_server: Server, source: Source) -> None:
    reset(own_server)
    with closing(source.open()) as log:
        state = log.read_state(load(source.checkpoints, KEY), start="now")
    assert state.start is not None
    assert state.start.coordinates == state.log_end.coordinates
    insert(own_server, 1, 10)
    source.start = {"start": state.start.to_json(), "identity": state.identity.to_json()}
    other = replace(state.identity, server="another").to_json()

    with pytest.raises(ForeignPositionError, match=r"on another server.*Connect to one"):
        replace(source, start=source.start | {"identity": other}).stage()
    assert source.stage().rows == 10
    source.checkpoints.clear()
    wait_for_the_next_second(int(time.time()))
    reset(own_server)
    insert(own_server, 1, 10)
    with pytest.raises(ForeignPositionError, match=ANOTHER):
        source.stage()


def test_the_files_of_a_log_are_recognized(
    own_server: Server, source: Source, tmp_path: Path
) -> None:
    reset(own_server)
    insert(own_server, 1, 10)
    staged = source.stage()
    insert(own_server, 11, 10)
    kept, later = tmp_path / "kept", tmp_path / "later"
    copy_log(own_server, kept)
    wait_for_the_next_second(created_at(staged))
    reset(own_server)
    insert(own_server, 1001, 30)
    copy_log(own_server, later)

    # The checkpoint is the server's: its files, compressed here, go on with it.
    from_later = replace(source, open=lambda: file_log(later))
    check_refused(from_later)
    from_kept = replace(source, open=lambda: file_log(kept))
    assert from_kept.stage().rows == 10
    check_refused(from_later)


def copy_log(server: Server, folder: Path) -> None:
    """Copy the log's files, compressed."""
    folder.mkdir()
    for path in server.data.glob("binlog.0*"):
        if path.suffix[1:].isdigit():
            (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))


def file_log(folder: Path) -> FileLog:
    """Return the log that files hold."""
    return FileLog(find_files(str(folder), reach_plainly))


def test_a_compressed_log_is_the_same_log(own_server: Server, source: Source) -> None:
    mariadb = own_server.name.startswith("mariadb")
    variable = "log_bin_compress" if mariadb else "binlog_transaction_compression"
    execute(own_server, f"SET GLOBAL {variable} = ON")
    reset(own_server)
    insert(own_server, 1, 10)
    source.stage()
    insert(own_server, 11, 10)
    execute(own_server, "FLUSH BINARY LOGS")
    insert(own_server, 21, 10)

    staged = source.stage()
    insert(own_server, 31, 10)
    following = source.stage()

    execute(own_server, f"SET GLOBAL {variable} = OFF")
    assert (staged.rows, following.rows) == (20, 10)
    assert staged.stop.file != staged.start.file
    assert following.start.file_created == created_at(staged)


@pytest.mark.fault("restored", servers="mysql97 mariadb118", stores="file")
@pytest.mark.fault("purged", servers="mysql97 mariadb118", stores="file")
@pytest.mark.parametrize("lost", ["purged", "reset"])
def test_what_is_committed_is_not_lost_with_the_log(
    own_server: Server, source: Source, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed after its commit, and the log is lost: the next run passes it on."""
    reset(own_server)
    insert(own_server, 1, 10)
    source.stage()
    monkeypatch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", own_server.dsn.replace("mysql:", "binlog:"))
    monkeypatch.setenv(VARIABLE, source.checkpoints[KEY])
    insert(own_server, 11, 10)
    staged = extract_task(source).execute(context())
    if lost == "purged":
        execute(own_server, "FLUSH BINARY LOGS")
        insert(own_server, 21, 10)
        execute(own_server, "FLUSH BINARY LOGS")
        purge(own_server, "binlog.000003")
        says = r"PositionPurgedError.*take a new snapshot"
    else:
        reset(own_server)
        says = r"ForeignPositionError.*take new snapshots"

    assert sensor(source, None).poke({}).is_done
    assert sensor(source, f"file://{source.folder}").poke({}).is_done
    again = extract_task(source).execute(context())

    assert again == staged
    assert (again["rows"], again["last_sequence"]) == (10, 2)
    monkeypatch.setenv(VARIABLE, read_staged(again, saved_by="a test")[2].encode())
    assert sensor(source, None).poke({}).is_done
    with pytest.raises(AirflowFailException, match=says):
        sensor(source, f"file://{source.folder}").poke({})
    with pytest.raises(AirflowFailException, match=says):
        extract_task(source).execute(context())


@pytest.mark.fault("vanished", servers="mysql97 mariadb118", stores="file")
def test_a_file_that_was_removed_from_the_disk(own_server: Server, source: Source) -> None:
    reset(own_server)
    insert(own_server, 1, 10)
    source.stage()
    execute(own_server, "FLUSH BINARY LOGS")
    insert(own_server, 11, 10)
    file = own_server.data / "binlog.000001"
    elsewhere = file.rename(own_server.folder / file.name)

    with pytest.raises(PositionPurgedError, match="removed from the server's disk; put it back"):
        source.stage()
    elsewhere.rename(file)
    assert source.stage().rows == 10


def extract_task(source: Source) -> BinlogExtractOperator:
    """Return the operator, with the store of a source."""
    return BinlogExtractOperator(
        task_id="stage",
        source=BinlogSource("shop", start=None),
        staging_path=f"file://{source.folder}",
        tables=["shop.*"],
    )


def sensor(source: Source, staging_path: str | None) -> BinlogPositionSensor:
    """Return the sensor, which may know what is staged."""
    shop = BinlogSource("shop", start=None)
    return BinlogPositionSensor(task_id="changes", source=shop, staging_path=staging_path)


def choose(changes_at: int, server: Server, other: Server, number: int) -> tuple[str, int]:
    """Return where a connection leads: to the other server from one of them on."""
    chosen = other if number >= changes_at else server
    return chosen.host, chosen.port


@pytest.mark.fault("another-server", servers="mysql97 mariadb118", stores="file")
def test_every_connection_leads_to_one_server(
    own_server: Server,
    request: pytest.FixtureRequest,
    proxy_to: Callable[[str, int], Proxy],
    tmp_path: Path,
) -> None:
    """Through an address that leads to two servers nothing is staged, whichever comes when."""
    other: Server = request.getfixturevalue(own_server.name)
    reset(own_server)
    # Then the names of columns come from information_schema: no CREATE TABLE is in the range.
    file = flush_log(own_server)
    execute(own_server, "SET GLOBAL binlog_row_metadata = MINIMAL")
    insert(own_server, 1, 10)
    execute(own_server, "SET GLOBAL binlog_row_metadata = FULL")
    proxy = proxy_to(own_server.host, own_server.port)
    settings = ConnectionSettings(proxy.host, proxy.port, "root")
    source = Source(tmp_path / "staged", lambda: ServerLog(settings), start=f"{file}:4")
    assert source.stage().rows == 10
    needed = proxy.connections
    # The state, the file, the stream, information_schema: each is another one.
    assert needed >= 4

    for changes_at in range(1, needed):
        shutil.rmtree(source.folder, ignore_errors=True)
        source.checkpoints.clear()
        proxy.connections = 0
        proxy.servers = partial(choose, changes_at, own_server, other)
        with pytest.raises(ServerChangedError, match="balances over several servers"):
            source.stage()
        assert source.staged() == []


def test_every_connection_of_an_archive_leads_to_one_server(
    own_server: Server,
    request: pytest.FixtureRequest,
    proxy_to: Callable[[str, int], Proxy],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other: Server = request.getfixturevalue(own_server.name)
    reset(own_server)
    flush_log(own_server)
    proxy = proxy_to(own_server.host, own_server.port)
    monkeypatch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", f"binlog://root@{proxy.host}:{proxy.port}")

    def archive(folder: Path) -> list[str]:
        proxy.connections = 0
        copied: list[str] = BinlogArchiveOperator(
            task_id="archive",
            source=BinlogSource("shop", start=None),
            archive_path=f"file://{folder}",
        ).execute({})["files"]
        return copied

    assert archive(tmp_path / "one") == ["binlog.000001"]
    needed = proxy.connections
    assert needed >= 3
    for changes_at in range(1, needed):
        proxy.servers = partial(choose, changes_at, own_server, other)
        with pytest.raises(ServerChangedError, match="balances over several servers"):
            archive(tmp_path / f"{changes_at}")
        assert not any(file.is_file() for file in (tmp_path / f"{changes_at}").rglob("*"))
