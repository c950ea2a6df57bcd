"""Say what is going on while the user waits, and run programs quietly."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# To the start of the line, and clear it.
_NEW_LINE = "\r\033[K"
_LINE_WIDTH = 100
_TAIL_LINE_COUNT = 12


class ServiceError(Exception):
    """A service cannot be had; the text says why, and what the user can do."""


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Show `title` while the body runs, then the seconds it took.

    Written to standard error, so that standard output stays the command's own.
    """
    began = time.monotonic()
    _write(f"  {title} …", end="" if sys.stderr.isatty() else "\n")
    try:
        yield
    except BaseException:
        _write("")
        raise
    _write(f"{_NEW_LINE if sys.stderr.isatty() else ''}  {title}: {time.monotonic() - began:.1f} s")


def say(text: str) -> None:
    """Show one line of what is going on."""
    _write(f"  {text}")


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: str = "",
) -> str:
    """Run a program to its end and return what it printed.

    On a terminal the newest line of its output is shown while it runs.

    Raises:
        ServiceError: It failed; the text holds the end of its output.
    """
    command = [str(part) for part in argv]
    with subprocess.Popen(
        command,
        env=None if env is None else dict(env),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        return _follow(process, command, stdin)


def _follow(process: subprocess.Popen[str], command: list[str], stdin: str) -> str:
    if process.stdin is None or process.stdout is None:
        raise TypeError(command)
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(stdin)
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if sys.stderr.isatty() and line.strip():
            _write(f"{_NEW_LINE}    {line.strip()[:_LINE_WIDTH]}", end="")
    if process.wait():
        tail = "".join(deque(lines, _TAIL_LINE_COUNT)).rstrip()
        message = f"{' '.join(command)[:200]} failed ({process.returncode}):\n{tail}"
        raise ServiceError(message)
    return "".join(lines)


def _write(text: str, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()
