"""Run a program and all that it starts; end all of it on a signal.

    python group.py FOLDER PROGRAM ARGUMENT...

The guard of `tests.services` ends one process. Airflow's start others, in sessions of their own,
and those start Java, which keeps running when they die. Here whoever loses its parent becomes a
child of ours, so that all of them are found. FOLDER is only named, so that `make clean` knows
whose process this is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Together less than the guard's own patience.
_POLITE_SECONDS = 10.0
_FIRM_SECONDS = 3.0


def main(argv: list[str]) -> int:
    """Run `argv`; return its exit code, negative for a signal."""
    requested = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: requested.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def prepare() -> None:
        # What is ignored stays ignored in a new program.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    program = subprocess.Popen(argv, start_new_session=True, preexec_fn=prepare)  # noqa: PLW1509
    while program.poll() is None and not requested.wait(0.5):
        _reap(program)
    if program.poll() is None:
        # As Ctrl-C does: each ends what it has started, if it can.
        os.killpg(program.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(_POLITE_SECONDS)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _await_end(program, _FIRM_SECONDS)
    return program.wait()


def _await_end(program: subprocess.Popen[bytes], seconds: float) -> None:
    """Return when nothing is left below us, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        program.poll()
        _reap(program)
        if not _descendants():
            return
        time.sleep(0.05)


def _reap(program: subprocess.Popen[bytes]) -> None:
    """Take note of the end of those who lost their parents; the program is not among them."""
    for pid, parent in _parents().items():
        if parent == os.getpid() and pid != program.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _descendants() -> list[int]:
    """Return the processes below this one."""
    parents = _parents()
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # pid (name) state ppid: the name may hold anything, parentheses too.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return parents


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
