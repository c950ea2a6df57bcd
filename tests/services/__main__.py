"""Fetch, start and stop services by hand."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
from typing import TYPE_CHECKING

from tests.services.cache import cache_root
from tests.services.chromium import find_chromium
from tests.services.environment import make_environment, print_requirements
from tests.services.jars import postgresql_jars, spark_jars
from tests.services.java import java_home
from tests.services.postgresql import POSTGRESQL_RELEASES, PostgresServer
from tests.services.processes import RUN_FOLDER, end_all
from tests.services.progress import ServiceError
from tests.services.s3 import S3Server
from tests.services.servers import RELEASES, Package, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FOLDER = RUN_FOLDER / "by-hand"


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.command == "start":
            start(chosen.name, dict(option.split("=", 1) for option in chosen.options))
        else:
            _COMMANDS[chosen.command][0]()
    except ServiceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def start(name: str, options: dict[str, str]) -> None:
    """Run a server until a signal asks it to end; print its address."""
    server: Server | S3Server | PostgresServer
    if name == "s3":
        server = S3Server.create(_FOLDER / name)
        server.start()
        print(server.endpoint, *(f"{k}={v}" for k, v in server.environment.items()), flush=True)
    elif name in POSTGRESQL_RELEASES:
        server = PostgresServer.create(name, _FOLDER / name)
        server.start(options)
        print(server.dsn, flush=True)
    else:
        server = Server.create(name, _FOLDER / name)
        server.start(options)
        print(server.dsn, f"socket={server.socket}", f"data={server.data}", flush=True)
    stop_requested = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop_requested.set())
    while server.alive and not stop_requested.wait(1):
        pass
    server.stop()


def fetch() -> None:
    """Download and build everything, for a later run without a network."""
    for name in RELEASES:
        Package.obtain(name)
    for name in POSTGRESQL_RELEASES:
        PostgresServer.create(name, _FOLDER / name)
    S3Server.create(_FOLDER / "s3")
    print(find_chromium().program)
    print(java_home())
    print(len(spark_jars() + postgresql_jars()), "jars")


def build() -> None:
    """Build what may take longer than a test."""
    S3Server.create(_FOLDER / "s3")


def forget() -> None:
    """Remove all downloads."""
    if cache_root().exists():
        shutil.rmtree(cache_root())


_COMMANDS: dict[str, tuple[Callable[[], None], str]] = {
    "venv": (make_environment, "build .venv"),
    "requirements": (print_requirements, "print what .venv and the services are made from"),
    "fetch": (fetch, "download and build everything into the cache"),
    "build": (build, "build the S3 server into the cache, which may take longer than a test"),
    "stop": (end_all, "end what earlier runs left running"),
    "forget": (forget, "remove the cache"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.services", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    starts = commands.add_parser("start", help="run a server until Ctrl-C")
    starts.add_argument("name", choices=[*RELEASES, *POSTGRESQL_RELEASES, "s3"])
    starts.add_argument("options", nargs="*", metavar="variable=value")
    for name, (_, text) in _COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
