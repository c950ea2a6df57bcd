"""A server that freezes, dies, has no room, or ends our session: the next run makes it good."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pymysql
import pytest

from airflow_provider_binlog.errors import (
    ConfigurationError,
    ConnectionLostError,
    IdentityClashError,
)
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.faults.gate import Gate
from tests.faults.tasks import LARGE, Tasks, wait_until
from tests.fixtures.mysql import Database, connect, execute
from tests.services.servers import Options, Server
from tests.support.stores import open_store

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]

COMMANDS = "SELECT command FROM information_schema.processlist"
READING = 2 * LARGE
"""So many bytes have come back only while the range is read."""


@pytest.mark.fault("cut", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_task_whose_connection_is_cut_anywhere(kind: str, tasks: Tasks, gate: Gate) -> None:
    """In one of its statements, or in the stream: of a dozen tasks each is cut later."""
    tasks.run()
    whole, count, failed = gate.passed, 12, 0
    for number in range(count):
        gate.reset()
        gate.cut_after = whole * number // count
        failed += interrupted(tasks.named(f"cut_{number}"), gate)
    # What is queried after the staging, for a warning, fails no task.
    assert failed > count / 2


@pytest.mark.slow
@pytest.mark.fault("stalled", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_task_whose_connection_is_silent(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    whole, failed = gate.passed, 0
    for share in (0.1, 0.4, 0.9):
        gate.reset()
        gate.hold_after = int(whole * share)
        failed += interrupted(tasks.named(f"silent_{share}"), gate)
    assert failed > 1


def interrupted(tasks: Tasks, gate: Gate) -> bool:
    """Run tasks over a connection that ends somewhere; return whether one of them failed by it."""
    failed = False
    try:
        staged = tasks.stage()
    except ConnectionLostError:
        failed = True
        gate.reset()
        staged = tasks.stage()
    tasks.save(staged)
    tasks.check()
    return failed


@pytest.mark.fault("server-frozen", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_frozen_server_is_a_lost_connection(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    tasks.grow(2)
    server = tasks.database.server

    os.kill(server.pid, signal.SIGSTOP)
    tasks.fails(ConnectionLostError)
    os.kill(server.pid, signal.SIGCONT)
    gate.act_after(READING, lambda: os.kill(server.pid, signal.SIGSTOP))
    tasks.fails(ConnectionLostError)
    assert gate.acted
    os.kill(server.pid, signal.SIGCONT)

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("server-killed", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_server_killed_while_it_is_read(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    tasks.grow(2)
    server = tasks.database.server

    gate.act_after(READING, server.kill)
    tasks.fails(ConnectionLostError)
    assert gate.acted
    tasks.fails(ConnectionLostError)
    server.start()

    tasks.change(3)
    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault(
    "server-restarted", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_a_server_restarted_while_it_is_read(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    tasks.grow(2)

    gate.act_after(READING, tasks.database.server.restart)
    tasks.fails(ConnectionLostError)
    assert gate.acted

    tasks.change(3)
    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault(
    "server-read-only", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_a_server_that_becomes_read_only(kind: str, tasks: Tasks, gate: Gate) -> None:
    server = tasks.database.server
    variable = "read_only" if kind.startswith("mariadb") else "super_read_only"
    tasks.grow(2)

    gate.act_after(READING, lambda: execute(server, f"SET GLOBAL {variable} = ON"))
    try:
        tasks.run()
        assert gate.acted
        tasks.nothing_left()
    finally:
        execute(server, f"SET GLOBAL {variable} = OFF", "SET GLOBAL read_only = OFF")


@pytest.mark.fault(
    "max-connections", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_a_server_without_a_connection_left(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    tasks.change(2)
    tasks.pooled = True
    server = tasks.database.server
    ((before,),) = tasks.database.query("SELECT @@GLOBAL.max_connections")

    def occupy() -> None:
        try:
            while True:
                taken.enter_context(closing(connect(server)))
        except pymysql.OperationalError as error:
            assert "Too many connections" in str(error)  # noqa: PT017

    # Before the first connection of the task, and before each of the others.
    for number in range(4):
        with ExitStack() as taken:
            taken.enter_context(closing(own := connect(server)))
            own.query("SET GLOBAL max_connections = 12")
            gate.act_at(number, occupy)
            try:
                tasks.fails(ConnectionLostError, says="Too many connections")
            finally:
                own.query(f"SET GLOBAL max_connections = {before}")
        assert gate.acted
        gate.open_again()
        wait_until(lambda: tasks.sessions() == 0)

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("dump-killed", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_our_dump_thread_is_killed(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    tasks.grow(2)
    server = tasks.database.server

    def kill() -> None:
        execute(server, f"KILL {tasks.dump_thread()}")

    # Not the stream that a task leaves because it has to read the range again.
    gate.act_after(5 * READING, kill)
    tasks.fails(ConnectionLostError)
    assert gate.acted

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("id-taken", servers="mariadb1011 mariadb118", stores="file")
def test_our_server_id_is_taken_by_another_replica(kind: str, tasks: Tasks, gate: Gate) -> None:
    """MySQL distinguishes replicas by their uuid, which is always new here."""
    tasks.server_id = 1 << 31
    tasks.run()
    tasks.grow(2)
    server = tasks.database.server
    other = ServerBlockStream(
        lambda: connect(server), flavor=Flavor.MARIADB, server_id=tasks.server_id
    )
    position = tasks.checkpoint().position
    ended = threading.Event()

    def take() -> None:
        # The server lets it wait until our stream has ended.
        next(iter(other.blocks(position)))
        ended.set()

    thread = threading.Thread(target=take, daemon=True)

    def take_it() -> None:
        thread.start()
        wait_until(lambda: ended.is_set() or ("Killed",) in tasks.database.query(COMMANDS))

    # Not the stream that a task leaves because it has to read the range again.
    gate.act_after(5 * READING, take_it)
    tasks.fails(IdentityClashError)
    thread.join()
    other.close()

    assert ended.is_set()
    tasks.run()
    tasks.nothing_left()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.fault("server-full", servers="mysql97 mariadb118", stores="file")
def test_a_server_whose_log_has_no_room(
    kind: str, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed is staged while the server waits for room, or once it runs again."""
    server = Server.create(kind, tmp_path / "server")
    options: Options = {"log_bin": f"{small_disk}/binlog", "max_binlog_size": 1 << 20}
    server.start(options)
    database = Database(server, "shop")
    staging = f"file://{tmp_path}/staging"
    tasks = Tasks(database, staging, open_store(staging), monkeypatch)
    execute(server, "CREATE DATABASE shop")
    filler, stopping = small_disk / "filler", threading.Event()
    filler.write_bytes(bytes(LARGE))
    try:
        tasks.begin()
        tasks.run()
        writer = threading.Thread(target=write_until_it_fails, args=(database, stopping))
        writer.start()
        wait_until(lambda: shutil.disk_usage(small_disk).free == 0 or not writer.is_alive())

        with suppress(ConnectionLostError):
            tasks.save(tasks.stage())
        stopping.set()
        filler.unlink()
        writer.join()
        if not server.alive:
            server.start(options)

        tasks.change(3)
        tasks.run()
        tasks.nothing_left()
    finally:
        server.kill()


def write_until_it_fails(database: Database, stopping: threading.Event) -> None:
    """Insert rows until there is no room."""
    with suppress(pymysql.MySQLError):
        for number in range(1000, 1100):
            if not stopping.is_set():
                database.execute(f"INSERT INTO orders VALUES ({number}, REPEAT('x', 200000))")


@pytest.mark.fault("login", servers="mysql97 mysql80", stores="file")
def test_a_password_without_tls_takes_the_key_of_the_server(kind: str, tasks: Tasks) -> None:
    """Of `caching_sha2_password`; what the server has cached needs none until it forgets it."""
    user, password = f"captures_{tasks.database.name}", "pässword/:@"
    tasks.database.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO '{user}'@'%'",
        "FLUSH PRIVILEGES",
    )
    tasks.account = {"login": user, "password": password}

    tasks.fails(ConfigurationError, says="get_server_public_key")
    tasks.account |= {"extra": {"get_server_public_key": True}}
    tasks.run()
    tasks.change(2)
    tasks.account |= {"extra": {"server_public_key_path": str(key_of(tasks))}}
    tasks.database.execute("FLUSH PRIVILEGES")
    tasks.run()
    tasks.account |= {"extra": {}}
    tasks.change(3)
    tasks.run()
    tasks.database.execute("FLUSH PRIVILEGES")
    tasks.change(4)
    tasks.fails(ConfigurationError, says="get_server_public_key")


def key_of(tasks: Tasks) -> Path:
    return tasks.database.server.data / "public_key.pem"
