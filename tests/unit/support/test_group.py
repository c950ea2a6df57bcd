"""The group: every process that a program started ends with it, even a daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import group

# Starts a process in a session of its own that ignores SIGINT, prints its id, and waits, or exits
# and leaves it running.
PROGRAM = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
signal.signal(signal.SIGINT, signal.SIG_DFL)
print(child.pid, flush=True)
time.sleep(float(sys.argv[1]))
"""


def start(seconds: str) -> tuple[subprocess.Popen[str], int]:
    """Start the group; return it, and the number of the process at its far end."""
    command = [sys.executable, "-I", str(group.__file__), "folder", sys.executable, "-c", PROGRAM]
    program = subprocess.Popen([*command, seconds], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    with program.stdout:
        return program, int(program.stdout.readline())


def test_all_of_it_ends_on_a_signal() -> None:
    program, far = start("1000")
    program.terminate()

    program.wait(30)
    assert not Path(f"/proc/{far}").exists()


def test_an_orphaned_process_ends_too() -> None:
    program, far = start("0")

    assert program.wait(30) == 0
    assert not Path(f"/proc/{far}").exists()
