"""Binlog files on any file system of fsspec's: found by location, and opened for reading."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fsspec

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.staging.object_store import ObjectStore, translated
from airflow_provider_binlog.transport.files.names import arrange, is_pattern

if TYPE_CHECKING:
    from airflow_provider_binlog.transport.files.content import BinaryFile

    Reach = Callable[[str], tuple[Any, str]]
    """Returns the fsspec file system that a location is on, and the path there."""


@dataclass(frozen=True)
class BinlogFiles:
    """The files of one log, in the order in which they are read.

    Attributes:
        ignored: Names of the other files that were found.
        open: Opens one of the files by its path; the caller closes it.
        as_given: Whether they are read as they were given: in any order, with any names. Else they
            are arranged by the numbers in their names.
    """

    paths: tuple[str, ...]
    ignored: tuple[str, ...]
    open: Callable[[str], BinaryFile] = field(repr=False)
    as_given: bool = False


class StoredFile(io.RawIOBase):
    """A file of a store, open for reading; what fails raises `ObjectMissingError` and the like."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the front of the buffer; 0 at the end."""
        with translated(self._path):
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to an offset, and return it."""
        with translated(self._path):
            return int(self._file.seek(offset, whence))

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()


def reach_plainly(location: str) -> tuple[Any, str]:
    """Return the fsspec file system that a location is on, and the path there."""
    try:
        system, path = fsspec.core.url_to_fs(location)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(f"cannot be reached: {error}", location=location) from error
    return system, path


def find_files(locations: str | Sequence[str], reach: Reach) -> BinlogFiles:
    """Return the binlogs that some locations name: files, folders, globs of file names.

    Raises:
        ConfigurationError: There is no binlog, or they are of two logs.
        StagingError: The store cannot be reached, or a file does not exist.
    """
    given = [locations] if isinstance(locations, str) else list(locations)
    if not given or not all(given):
        raise ConfigurationError("binlog files are named by a path, or by a list of paths")
    folders: dict[str, str] = {}
    systems: dict[str, Any] = {}
    ignored: list[str] = []
    for location in given:
        system, folder, names, others = _list(location, reach)
        ignored += others
        for name in names:
            path = f"{folder}/{name}"
            if folders.setdefault(name, folder) != folder:
                raise ConfigurationError(
                    "one file lies in two folders", file=name, folders=[folders[name], folder]
                )
            systems[path] = system
    names, others = arrange(folders, folder=given[0].rstrip("/"))
    paths = tuple(f"{folders[name]}/{name}" for name in names)

    def open_file(path: str) -> StoredFile:
        with translated(path):
            return StoredFile(systems[path].open(path, "rb"), path)

    return BinlogFiles(paths, (*ignored, *others), open_file)


def _list(location: str, reach: Reach) -> tuple[Any, str, Sequence[str], Sequence[str]]:
    """Return where a location is, and the binlogs and the other files that it names."""
    folder, _, name = location.rpartition("/")
    pattern = "*"
    if is_pattern(name):
        pattern = name
        system, path = reach(folder or ("/" if location.startswith("/") else "."))
    else:
        system, path = reach(location)
        with translated(location):
            system.invalidate_cache(path)
            is_folder = location.endswith("/") or system.isdir(path)
        if not is_folder:
            folder, _, name = path.rstrip("/").rpartition("/")
            return system, folder, [name], []
    path = path.rstrip("/")
    listed = ObjectStore(system, path).list("")
    return system, path, *arrange(listed, folder=location.rstrip("/"), pattern=pattern)
