"""The services: what the fixtures start is what the tests rely on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.fixtures.mysql import Database, query
from tests.services import cache
from tests.services.progress import ServiceError
from tests.services.s3 import S3Server
from tests.services.servers import Account, Server


def test_a_server_logs_rows_with_their_names(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    settings = dict(database.query("SHOW VARIABLES WHERE Variable_name LIKE 'binlog_row_meta%'"))
    assert settings == {"binlog_row_metadata": "FULL"}
    assert database.query("SELECT id FROM t WHERE id = %s", 1) == [(1,)]


def test_a_servers_own_program_reads_its_log(server: Server) -> None:
    program = server.program("mysqlbinlog")

    shown = subprocess.run(
        [*program, server.data / "binlog.000001"], capture_output=True, check=True, text=True
    )
    assert "Start: binlog v 4" in shown.stdout


def test_two_servers_of_a_kind_are_two_servers(mysql97: Server, tmp_path: Path) -> None:
    other = Server.create("mysql97", tmp_path / "other")
    other.start()

    identity = "SELECT @@server_uuid, @@port"
    assert query(other, identity) != query(mysql97, identity)
    other.stop()


def test_a_killed_server_starts_again_with_its_data(tmp_path: Path) -> None:
    server = Server.create("mariadb1011", tmp_path)
    server.start()
    query(server, "CREATE DATABASE kept")
    server.kill()
    assert not server.alive

    server.start({"binlog_row_image": "MINIMAL"})
    assert query(server, "SHOW DATABASES LIKE 'kept'") == [("kept",)]
    assert query(server, "SELECT @@binlog_row_image") == [("MINIMAL",)]
    server.stop()


def test_a_server_dies_with_who_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.services.servers import Server\n"
        f"server = Server.create('mariadb1011', Path({str(tmp_path)!r}))\n"
        "server.start(); print(server.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        starter.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 30
    # Reading it fails once the process has ended, at whatever moment that is.
    with suppress(OSError):
        while Path(f"/proc/{pid}/cmdline").read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize(
    "account",
    [
        Account("db.example", 3306, "root"),
        Account("::1", 3307, "a:b@c/d", "p@:/ %"),
    ],
)
def test_an_account_reads_what_it_writes(account: Account) -> None:
    assert Account.parse(account.dsn) == account


def test_an_account_of_another_form_is_refused() -> None:
    with pytest.raises(ServiceError, match="mysql://"):
        Account.parse("localhost:3306")


def test_the_s3_server_lets_nobody_in_without_a_key(s3_server: S3Server) -> None:
    with pytest.raises(HTTPError, match="403"):
        urlopen(s3_server.endpoint + "/lake")  # noqa: S310


class TestCache:
    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BINLOG_CACHE", str(tmp_path / "cache"))

    def test_makes_a_folder_once(self) -> None:
        made: list[Path] = []

        def make(folder: Path) -> None:
            made.append(folder)
            (folder / "file").write_text("text")

        assert cache.obtain("a/b", make) == cache.obtain("a/b", make)
        assert len(made) == 1

    def test_makes_a_damaged_folder_again(self) -> None:
        def make(folder: Path) -> None:
            (folder / "file").write_text("text")

        file = cache.obtain("a", make) / "file"
        file.write_text("else")

        assert (cache.obtain("a", make) / "file").read_text() == "text"

    def test_keeps_nothing_of_a_failure(self) -> None:
        def fail(folder: Path) -> None:
            (folder / "half").write_text("")
            raise ServiceError("no network")

        with pytest.raises(ServiceError):
            cache.obtain("a", fail)
        folder = cache.obtain("a", lambda folder: None)
        assert not (folder / "half").exists()
