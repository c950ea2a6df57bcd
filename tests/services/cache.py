"""Folders outside the tree that are made once: downloads and what is built from them.

A folder of the cache is complete or absent: it is made under another name, its files'
SHA-256 are recorded, and then it is renamed. At each use the files are compared with the
record: by size and time of change, and by SHA-256 where those differ. A complete folder is
used without a look at the network.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.progress import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RECORD_NAME = "SHA256.json"


def cache_root() -> Path:
    """Return the folder of all downloads: `BINLOG_CACHE`, or the user's cache folder."""
    if own := os.environ.get("BINLOG_CACHE"):
        return Path(own).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "airflow-provider-binlog"


def obtain(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache, made by `make(folder)` if it is not there.

    A folder whose files are not the recorded ones is made again. Safe to call from several
    processes at a time: one makes it, the others wait.
    """
    folder = cache_root() / name
    with locked(name):
        if folder.exists():
            damage = _find_damage(folder)
            if damage is None:
                return folder
            say(f"{name}: {damage} is not what was downloaded; getting it again")
            shutil.rmtree(folder)
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
        make(unfinished)
        _record(unfinished)
        unfinished.rename(folder)
    return folder


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock called `name` across processes; it ends with its holder."""
    path = cache_root() / "locks" / name.replace("/", "-")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _record(folder: Path) -> None:
    files = {
        str(path.relative_to(folder)): [path.stat().st_size, path.stat().st_mtime_ns, sha256(path)]
        for path in _files(folder)
    }
    (folder / _RECORD_NAME).write_text(json.dumps(files, indent=0))


def _find_damage(folder: Path) -> str | None:
    """Return the first file that is not as recorded."""
    record = folder / _RECORD_NAME
    if not record.exists():
        return _RECORD_NAME
    for name, (size, mtime_ns, digest) in json.loads(record.read_text()).items():
        path = folder / name
        if not path.exists():
            return str(name)
        stat = path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (size, mtime_ns) and sha256(path) != digest:
            return str(name)
    return None
