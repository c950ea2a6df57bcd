"""A Python process that answers calls, with its noise in a file.

Airflow and Spark each get one: they start while the server does, what they print is written to
their logs, and they end with the demo, however it ends.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.processes import ROOT, Process
from tests.services.progress import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ADDRESS = "BINLOG_DEMO_ADDRESS"
_TOKEN = "BINLOG_DEMO_TOKEN"
_TOKEN_SIZE = 32
_POLL_SECONDS = 0.2


def _rest() -> None:
    """Do nothing meanwhile."""


def start_group(
    argv: Sequence[str | Path], *, folder: Path, name: str, env: Mapping[str, str]
) -> Process:
    """Start a program that ends with all that it starts; its output is `folder/name.log`."""
    group = Path(__file__).with_name("group.py")
    command = (sys.executable, "-I", group, folder, *argv)
    return Process(command, folder=folder, name=name, env=env)


class Worker:
    """A module of ours that runs `serve` in a process of its own."""

    def __init__(self, module: str, *, folder: Path, name: str, env: Mapping[str, str]) -> None:
        """Start it; it gets ready while the caller does other things."""
        self._token = secrets.token_bytes(_TOKEN_SIZE)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL_SECONDS)
        self._connection: Connection[Any, Any] | None = None
        mine = {
            _ADDRESS: str(self._listener.getsockname()[1]),
            _TOKEN: self._token.hex(),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        argv = (sys.executable, "-m", module)
        self.process = start_group(argv, folder=folder, name=name, env=dict(env) | mine)

    def call(self, function: str, *arguments: Any, meanwhile: Callable[[], None] = _rest) -> Any:
        """Return what a function of the worker returns; the first call waits until it is ready.

        Args:
            function: Its name.
            arguments: What it takes.
            meanwhile: Called now and then while it works.

        Raises:
            ServiceError: It raised, or the process ended; the text holds the end of its log.
        """
        try:
            connection = self._connect()
            connection.send((function, arguments))
            while not connection.poll(_POLL_SECONDS):
                meanwhile()
            done, value = connection.recv()
        except (EOFError, ConnectionError) as error:
            raise ServiceError(self.process.failure("it ended")) from error
        if not done:
            message = f"{self.process.log}: {value}"
            raise ServiceError(message)
        return value

    def stop(self) -> None:
        """End it."""
        self._listener.close()
        if self._connection is not None:
            self._connection.close()
        self.process.stop()

    def _connect(self) -> Connection[Any, Any]:
        while self._connection is None:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                if not self.process.alive:
                    raise ServiceError(self.process.failure("it ended")) from None
                continue
            client.setblocking(True)
            connection: Connection[Any, Any] = Connection(client.detach())
            # What comes after the token is unpickled: nobody else may send it.
            if secrets.compare_digest(connection.recv_bytes(_TOKEN_SIZE), self._token):
                self._connection = connection
        return self._connection


def serve(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Answer the calls of whoever started this process, until they go."""
    client = socket.create_connection(("127.0.0.1", int(os.environ[_ADDRESS])))
    connection: Connection[Any, Any] = Connection(client.detach())
    connection.send_bytes(bytes.fromhex(os.environ[_TOKEN]))
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = True, functions[function](*arguments)
        except Exception as error:  # noqa: BLE001  The caller raises it.
            traceback.print_exc()
            answer = False, f"{type(error).__name__}: {error}"
        connection.send(answer)
