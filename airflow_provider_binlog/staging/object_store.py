"""The store of staged files: whole objects under keys, on any file system of fsspec.

An object appears whole or not at all, and every later reader sees it. On local files a temporary
file is renamed or linked; S3 and similar stores have a conditional put. A machine that loses power
may leave a partial object; the checksums in the manifest detect it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from airflow_provider_binlog.errors import (
    ConflictError,
    ObjectMissingError,
    StagingError,
    StoreUnavailableError,
)

_WRITES_AT_ONCE = 8
_DELETES_AT_ONCE = 1000
_PATTERN = re.compile(r"[*?\[]")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
"""What the file systems of fsspec call the time of an object's last write."""


@dataclass(frozen=True)
class StoredObject:
    """An object: its key, its size, and when it was written, if the store says so."""

    key: str
    bytes: int
    modified: datetime | None


class ObjectStore:
    """Whole objects below `root` on any fsspec file system.

    Keys are relative to the root and divided by `/`. Every method raises `StoreUnavailableError` if
    trying again may help, and `StagingError` if it cannot.

    Attributes:
        writes_at_once: How many objects several threads may well write at a time.
    """

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._local = isinstance(fs, LocalFileSystem)
        self.writes_at_once = _WRITES_AT_ONCE if getattr(fs, "async_impl", False) else 1

    def read(self, key: str) -> bytes:
        """Return the object; raise ObjectMissingError if there is none."""
        path = self._path(key)
        with translated(key):
            try:
                return bytes(self._fs.cat_file(path))
            except FileNotFoundError:
                # By a list that the client keeps: from before a write whose answer was lost.
                self._fs.invalidate_cache(path)
                return bytes(self._fs.cat_file(path))

    def write(self, key: str, data: bytes) -> None:
        """Store `data`; an object under the key is replaced."""
        with translated(key), self._of_an_existing_store(key):
            path = self._path(key)
            if self._local:
                with _temporary(path, data) as temporary:
                    temporary.replace(path)
            else:
                self._fs.pipe_file(path, data)

    def open(self, key: str) -> Any:
        """Return the object as a file to read from, which the caller closes; see `read`."""
        with translated(key):
            return self._fs.open(self._path(key), "rb")

    def upload(self, key: str, file: Path) -> None:
        """Store what a local file holds, however large; an object under the key is replaced."""
        if self._local:
            with self.filling(key) as temporary:
                shutil.copyfile(file, temporary)
            return
        with translated(key), self._of_an_existing_store(key):
            self._fs.put_file(str(file), self._path(key))

    @contextmanager
    def filling(self, key: str) -> Iterator[Path]:
        """Yield an empty local file; what it is filled with is stored, unless an error came."""
        if self._local:
            path = self._path(key)
            with translated(key), self._of_an_existing_store(key), _temporary(path, b"") as file:
                yield file
                file.replace(path)
            return
        with translated(key), tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "object")
            yield file
            self.upload(key, file)

    def create(self, key: str, data: bytes) -> None:
        """Store `data` if the key does not exist yet; raise ConflictError if it does.

        Of two writers of one key exactly one wins: on local files, on S3, Google Cloud Storage and
        Azure, and in memory. On other file systems fsspec checks first and then writes.
        """
        with translated(key), self._of_an_existing_store(key):
            try:
                if self._local:
                    _link(self._path(key), data)
                else:
                    self._fs.pipe_file(self._path(key), data, mode="create")
            except FileExistsError as error:
                raise ConflictError("another writer created this key first", key=key) from error

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly below `folder`, sorted; never from a cache."""
        return self._names(folder, "directory")

    def _names(self, folder: str, kind: str) -> list[str]:
        path = self._path(folder)
        with translated(folder):
            self._fs.invalidate_cache(path)
            try:
                entries = self._fs.ls(path, detail=True)
            except FileNotFoundError:
                return []
        paths = (str(entry["name"]).rstrip("/") for entry in entries if entry["type"] == kind)
        names = (path.rpartition("/")[2] for path in paths)
        return sorted(name for name in names if not name.startswith("."))

    def list(self, folder: str) -> list[str]:
        """Return the names of the objects directly below `folder`, sorted; never from a cache."""
        return self._names(folder, "file")

    def find(self, folder: str) -> Sequence[StoredObject]:
        """Return all objects below `folder`, by key; never from a cache.

        A killed write of a local file may have left one whose name begins with a dot.
        """
        path = self._path(folder)
        with translated(folder):
            self._fs.invalidate_cache(path)
            entries = self._fs.find(path, detail=True)
        start = len(str(self._fs._strip_protocol(self._root))) + 1  # noqa: SLF001  As all its paths.
        return [
            StoredObject(name[start:], int(entry["size"]), _modified(entry))
            for name, entry in sorted(entries.items())
        ]

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, which need not exist, in this order; some stores take many at once."""
        remaining = iter(keys)
        while some := [*islice(remaining, _DELETES_AT_ONCE)]:
            paths = [self._path(key) for key in some]
            # Of these characters a client would make a pattern.
            if getattr(self._fs, "async_impl", False) and not _PATTERN.search("".join(paths)):
                with translated(some[0]), suppress(FileNotFoundError):
                    self._fs.rm(paths)
                continue
            for key, path in zip(some, paths, strict=True):
                with translated(key), suppress(FileNotFoundError):
                    self._fs.rm_file(path)

    def delete_folder(self, folder: str) -> None:
        """Delete all objects below `folder`; it need not exist."""
        path = self._path(folder)
        with translated(folder):
            self._fs.invalidate_cache(path)
            if self._fs.exists(path):
                self._fs.rm(path, recursive=True)

    def size(self, key: str) -> int:
        """Return the object's size in bytes; see `read`."""
        path = self._path(key)
        with translated(key):
            self._fs.invalidate_cache(path)
            entry = self._fs.info(path)
            if entry["type"] != "file":
                raise FileNotFoundError(path)
            return int(entry["size"])

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    @contextmanager
    def _of_an_existing_store(self, key: str) -> Iterator[None]:
        """Report what is missing when a write fails: not the key, but what it would be in."""
        try:
            yield
        except FileNotFoundError as error:
            what = "the folder cannot be created" if self._local else "the bucket does not exist"
            raise StagingError(what, key=key, folder=self._root, cause=_text(error)) from error


def _modified(entry: Mapping[str, Any]) -> datetime | None:
    time = next((entry[name] for name in _TIMES if entry.get(name) is not None), None)
    if isinstance(time, int | float):
        return datetime.fromtimestamp(time, UTC)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return time.replace(tzinfo=time.tzinfo or UTC) if isinstance(time, datetime) else None


def _link(path: str, data: bytes) -> None:
    """Create the file in one step. A hard link to an existing name fails, on NFS too."""
    with _temporary(path, data) as temporary:
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}:
                raise StagingError(
                    "this file system has no hard links, which exclusive creation needs",
                    path=path,
                ) from error
            raise


@contextmanager
def _temporary(path: str, data: bytes) -> Iterator[Path]:
    """Write `data` beside `path` under a name that no listing shows; remove it afterwards."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(data)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


# A retry cannot help: a bad name, a method that the store lacks, a folder under the file's name.
_LASTING = {
    *(errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.EMSGSIZE, errno.ENAMETOOLONG, errno.ENOSYS),
    *(errno.ENOTDIR, errno.ENOTEMPTY, errno.EROFS),
}


@contextmanager
def translated(key: str) -> Iterator[None]:
    """Translate the exceptions of fsspec and its clients into our errors.

    Built-in exceptions other than `OSError`, and Arrow's, are raised unchanged: they are bugs.
    Those of the clients mean a failed request, unless they are about credentials.
    """
    try:
        yield
    except StagingError:
        raise
    except FileNotFoundError as error:
        raise ObjectMissingError("nothing is stored under this key", key=key) from error
    except PermissionError as error:
        raise _denied(key, error) from error
    except OSError as error:
        lasting = error.errno in _LASTING
        kind = StagingError if lasting else StoreUnavailableError
        raise kind("the store failed", key=key, cause=_text(error)) from error
    except Exception as error:
        if type(error).__module__ in {"builtins", "pyarrow.lib"}:
            raise
        if "Credential" in type(error).__name__:
            raise _denied(key, error) from error
        raise StoreUnavailableError("the store failed", key=key, cause=_text(error)) from error


def _denied(key: str, error: Exception) -> StagingError:
    return StagingError(
        "the store denies access: check the credentials of its connection, and that they may list, "
        "read, write and delete below this location",
        key=key,
        cause=_text(error),
    )


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
