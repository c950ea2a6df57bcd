"""Find the binlogs of a folder, and their order, by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.position import split_file_name

COMPRESSED_SUFFIXES = (".zst", ".zstd", ".gz")
"""Suffixes of compressed copies; of two copies of one file the first is read."""

_PREFERENCE = ("", *COMPRESSED_SUFFIXES)
_NAME = re.compile(r"(?P<log>.+)\.(?P<number>\d+)(?P<suffix>\.[^.]+)?", re.ASCII | re.DOTALL)
# MariaDB's engine Aria keeps a log of its own in the data folder, named like a binlog.
_NO_LOGS = frozenset({"aria_log"})
# Skipping a binlog only because it cannot be opened would leave a gap.
_UNREADABLE = frozenset(
    {".7z", ".age", ".br", ".bz2", ".enc", ".gpg", ".lz4", ".lzma", ".xz", ".z", ".Z", ".zip"}
)


def plain_name(path: str | os.PathLike[str]) -> str:
    """Return the name that the server gave a file: without folder, and without `.gz` or `.zst`."""
    name = PurePosixPath(os.fspath(path)).name
    for suffix in COMPRESSED_SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def is_pattern(name: str) -> bool:
    """Whether it is a glob, so that it stands for several names."""
    return any(character in name for character in "*?[")


def arrange(
    names: Iterable[str], *, folder: str, pattern: str = "*"
) -> tuple[list[str], list[str]]:
    """Return the binlogs among the names of a folder's files in the order of the log, and the rest.

    Of a file and a compressed copy of it, the file itself is read. `pattern` is a glob of the names
    to look at.

    Raises:
        ConfigurationError: There is none, or they are of two logs, or one of them is compressed in
            a way that is not read.
    """
    logs: dict[str, dict[int, list[str]]] = {}
    ignored = []
    for name in sorted(name for name in names if fnmatchcase(name, pattern)):
        parts = _NAME.fullmatch(name)
        suffix = (parts["suffix"] or "") if parts else ""
        if parts and suffix in _UNREADABLE and parts["log"] not in _NO_LOGS:
            raise ConfigurationError(
                f"a binlog compressed or encrypted as {suffix} is not read:"
                f" {', '.join(COMPRESSED_SUFFIXES)} are, and files as the server wrote them",
                folder=folder,
                file=name,
            )
        if parts and suffix in _PREFERENCE and parts["log"] not in _NO_LOGS:
            log, number = split_file_name(plain_name(name))
            logs.setdefault(log, {}).setdefault(number, []).append(name)
        else:
            ignored.append(name)
    if not logs:
        raise ConfigurationError(
            "there is no binlog: binlogs are named like binlog.000001 or binlog.000001.gz",
            folder=folder,
            pattern=pattern,
        )
    if len(logs) > 1:
        first, *_ = listed = sorted(logs)
        raise ConfigurationError(
            f"there are files of more than one log: name those to read, as {folder}/{first}.*",
            logs=", ".join(listed),
        )
    ((_, by_number),) = logs.items()
    chosen = []
    for number in sorted(by_number):
        copies = sorted(by_number[number], key=_preference)
        if len(set(map(plain_name, copies))) > 1:
            raise ConfigurationError("two files have one number", folder=folder, files=copies)
        chosen.append(copies[0])
        ignored += copies[1:]
    return chosen, ignored


def _preference(name: str) -> int:
    return _PREFERENCE.index(name.removeprefix(plain_name(name)))
