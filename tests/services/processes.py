"""Start programs that must not outlive us, and end those that did.

Each leaves its number in a file `*.pid` of its folder while it runs.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.progress import ServiceError, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
RUN_FOLDER = ROOT / ".run"

# Below the ports that the kernel gives to outgoing connections: nobody takes the port of a
# server while it restarts.
_PORTS = range(20_000, 32_000)
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0


class Process:
    """A program in the background, under a guard that ends it when we end."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        folder: Path,
        name: str,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start `argv` with its output in `folder/name.log`."""
        self.log = folder / f"{name}.log"
        self._pid_file = folder / f"{name}.pid"
        self._pid_file.unlink(missing_ok=True)
        guard = Path(__file__).with_name("guard.py")
        command = [sys.executable, "-I", guard, self._pid_file, *argv]
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=None if env is None else dict(env),
                # Ctrl-C is for us; the program ends when we let go of it.
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._guard.poll() is None

    @property
    def pid(self) -> int:
        """The program's process id."""
        while self.alive:
            with contextlib.suppress(FileNotFoundError):
                return int(self._pid_file.read_text())
            time.sleep(0.01)
        raise ServiceError(self.failure("it does not run"))

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return when `ready()`.

        Raises:
            ServiceError: The program ended first, or took too long.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            if not self.alive:
                raise ServiceError(self.failure("it ended"))
            if time.monotonic() > deadline:
                self.stop()
                raise ServiceError(self.failure(f"not ready after {_START_SECONDS:.0f} s"))
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask the program to end, and wait for it."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait(_STOP_SECONDS)

    def interrupt(self) -> None:
        """Send SIGINT, which ends some servers sooner, and wait for the end."""
        with contextlib.suppress(ProcessLookupError, ServiceError):
            os.kill(self.pid, signal.SIGINT)
        self._guard.wait(_STOP_SECONDS)
        self.stop()

    def kill(self) -> None:
        """End the program at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._guard.wait(_STOP_SECONDS)
        self.stop()

    def failure(self, what: str) -> str:
        """Return `what` with the end of the program's log."""
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
        return f"{self.log}: {what}\n{tail}"


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def end_all(folder: Path = RUN_FOLDER) -> None:
    """End every program below `folder` that an earlier run left running."""
    for file in sorted(folder.rglob("*.pid")):
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            pid = int(file.read_text())
            if not _belongs_to(pid, file.parent):
                continue
            say(f"stopping {file.stem} ({pid})")
            os.kill(pid, signal.SIGTERM)
            _await_end(pid, file.parent)


def _belongs_to(pid: int, folder: Path) -> bool:
    """Whether the process runs and names `folder`: its number may be another's by now."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        return os.fsencode(folder) in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _await_end(pid: int, folder: Path) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while _belongs_to(pid, folder):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
