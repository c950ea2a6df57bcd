"""Run a program and all that it starts; end all of it when told to.

    python group.py FOLDER PROGRAM ARGUMENT...

The guard of `tests.services` ends one process. Airflow's start others, which start Java: they
have a session of their own here, and a signal goes to every one of them. FOLDER is only named, so
that `make clean` knows whose process this is.
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

_PR_SET_PDEATHSIG = 1
# Together less than the guard's own patience.
_STEPS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0))


def main(argv: list[str]) -> int:
    """Run `argv`; return its exit code, negative for a signal."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        # Here, not in the program: a shell's `&` leaves SIGINT ignored, and so do we.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    program = subprocess.Popen(argv, start_new_session=True, preexec_fn=prepare)  # noqa: PLW1509
    while program.poll() is None and not told.wait(0.1):
        pass
    for number, seconds in _STEPS:
        if not _await_end(program, number, seconds):
            break
    return program.wait()


def _await_end(program: subprocess.Popen[bytes], number: int, seconds: float) -> bool:
    """Send the signal to the group; return whether any of it is left after `seconds`."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, number)
        while time.monotonic() < deadline:
            program.poll()
            os.killpg(program.pid, 0)
            time.sleep(0.05)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
