"""Run one program for as long as the process that started it runs.

    python guard.py PID_FILE PROGRAM ARGUMENT...

Standard input is a pipe that nobody writes to: it ends when its other end is closed or its
holder dies, however it dies. Then the program is asked to stop, and after a while made to.
A signal to end on the death of the parent would do for one thread, but it is sent when the
*thread* that started the program ends, and tests start servers from threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.2


def main(pid_file: Path, argv: list[str]) -> int:
    """Run `argv`; return its exit code, negative for a signal."""
    libc = ctypes.CDLL(None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        # The guard has one thread, so here the signal means what it says.
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
    )
    unfinished = pid_file.with_suffix(".new")
    unfinished.write_text(str(program.pid))
    unfinished.rename(pid_file)
    while program.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            _end(program)
    with contextlib.suppress(FileNotFoundError):
        pid_file.unlink()
    return program.returncode


def _end(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    program.kill()
    program.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
