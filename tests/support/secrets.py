"""Planted secrets, and where they came to light: in files, or in what `ps` shows."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL_SECONDS = 0.2


@contextmanager
def watched_processes(*secrets: str) -> Iterator[list[str]]:
    """Yield a list of the command lines with a secret, of all processes of the machine."""
    found: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if any(each in line for each in secrets) and line not in found:
                        found.append(line)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def files_with(folder: Path, *secrets: str) -> list[Path]:
    """Return the files below a folder that hold a secret."""
    wanted = [each.encode() for each in secrets]
    files = (each for each in folder.rglob("*") if each.is_file())
    return [each for each in files if any(secret in each.read_bytes() for secret in wanted)]
