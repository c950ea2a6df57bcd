"""The staged files through Hadoop's file systems, with the settings and credentials of Spark."""

# ruff: noqa: SLF001  The way to the JVM is PySpark's `_jvm`.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from airflow_provider_binlog.errors import ManifestError, StagingError, StoreUnavailableError
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.names import encode_name
from airflow_provider_binlog.staging.paths import ReadFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_THREADS = 8


class SourceFiles(ReadFiles, Protocol):
    """The files staged for one source, as a merge uses them."""

    def size(self, path: str) -> int | None:
        """Return a file's size in bytes; None if it does not exist."""

    def write(self, path: str, data: bytes) -> None:
        """Store a file, in place of the one that is there."""

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""


class HadoopFiles:
    """Files by Hadoop's `FileSystem`; see `SourceFiles`.

    Paths are those of `source` below `root`, a URI that the session's Hadoop can open; without it
    they are URIs.
    """

    def __init__(self, session: SparkSession, root: str = "", source: str = "") -> None:
        self._folder = f"{root.rstrip('/')}/{encode_name(source)}/" if root else ""
        context: Any = session.sparkContext
        self._gateway: Any = context._gateway
        self._conf: Any = context._jsc.hadoopConfiguration()
        # At each dot of a name the JVM looks through all jars for a class that may be called so.
        apache: Any = context._jvm.org.apache
        self._path: Any = apache.hadoop.fs.Path
        self._file_util: Any = apache.hadoop.fs.FileUtil
        self._streams: Any = apache.commons.io.IOUtils
        self._arrays: Any = apache.commons.lang3.ArrayUtils
        self._raw: dict[str, Any] = {}

    def locate(self, path: str) -> str:
        """Return the URI of a path."""
        return f"{self._folder}{path}"

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        with self._reach(path) as (at, uri):
            stream = self._file_system(at, uri).open(at)
            try:
                return bytes(self._streams.toByteArray(stream))
            finally:
                stream.close()
        return None

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        with self._reach(path) as (at, uri):
            # PySpark makes many calls of an exception that it may translate.
            return bool(self._file_system(at, uri).exists(at))
        return False

    def size(self, path: str) -> int | None:
        """Return a file's size in bytes; None if it does not exist."""
        with self._reach(path) as (at, uri):
            return int(self._file_system(at, uri).getFileStatus(at).getLen())
        return None

    @contextmanager
    def _reach(self, path: str) -> Iterator[tuple[Any, str]]:
        """Yield Hadoop's path and the URI; leave the body where the file does not exist."""
        uri = self.locate(path)
        try:
            yield self._path(uri), uri
        except Py4JJavaError as error:
            name = error.java_exception.getClass().getName()
            if name not in ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException"):
                raise _translated(error, uri) from error

    def _names(self, folder: Any, statuses: Any) -> list[str]:
        """Return the names of what is in a folder, from one text: a call for each takes longer."""
        paths = self._file_util.stat2Paths(statuses)
        text = str(self._arrays.toString(paths))[1:-1]
        before = f"{folder.toString()}/"
        names = text.removeprefix(before).split(f",{before}")
        if text.startswith(before) and len(names) == len(statuses):
            return names
        return [status.getPath().getName() for status in statuses]

    def list(self, folder: str) -> list[str]:
        """Return the names of what is in a folder; none if it does not exist."""
        with self._reach(folder) as (at, _):
            file_system = at.getFileSystem(self._conf)
            # Those of a list of folders are of one class: Py4J passes on no S3AFileStatus[].
            folders = self._gateway.new_array(self._path, 1)
            folders[0] = at
            return self._names(file_system.makeQualified(at), file_system.listStatus(folders))
        return []

    def write(self, path: str, data: bytes) -> None:
        """Store a file, in place of the one that is there."""
        uri = self.locate(path)
        try:
            at = self._path(uri)
            stream = self._file_system(at, uri).create(at, True)  # noqa: FBT003  Hadoop has no names.
            try:
                stream.write(data)
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise _translated(error, uri) from error

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with self._reach(path) as (at, _):
            at.getFileSystem(self._conf).delete(at, False)  # noqa: FBT003  Hadoop has no names.

    def _file_system(self, path: Any, uri: str) -> Any:
        """Return what reads and writes a file's content.

        Hadoop keeps checksums of local files in files beside them. After two merges at once they
        may be those of the other one's content, and the file could never be read again.
        """
        # Scheme and authority.
        store = "/".join(uri.split("/", 3)[:3])
        if store not in self._raw:
            file_system = path.getFileSystem(self._conf)
            # The second is Hive's, around the first.
            checked = ("LocalFileSystem", "ProxyLocalFileSystem")
            is_checked = file_system.getClass().getSimpleName() in checked
            self._raw[store] = file_system.getRawFileSystem() if is_checked else file_system
        return self._raw[store]


def check_sizes(files: SourceFiles, parts: Sequence[Part]) -> None:
    """Refuse parts that are not there, or not of the size the manifest says.

    Raises:
        StagingError: A part is missing or has another size; names the first one.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        sizes = pool.map(lambda part: files.size(part.path), parts)
    for part, size in zip(parts, sizes, strict=True):
        if size is None:
            raise damaged("a staged part is missing", part=files.locate(part.path))
        if size != part.bytes:
            raise damaged(
                "a staged part does not have the size its manifest says",
                part=files.locate(part.path),
                bytes=size,
                manifest_says=part.bytes,
            )


def sequence_reset_error(applied: int, *, newest: int) -> ManifestError:
    """Return the refusal of manifests that are not those which a lake has got."""
    return ManifestError(
        "the lake has got a manifest that is newer than all that are staged: they were deleted, or "
        "the source was captured again from manifest 1 on, which the lake tables take for those "
        "that they have: put them back, or capture under another source name, and merge its "
        "snapshots with adopt=True",
        applied=applied,
        newest=newest,
    )


def damaged(message: str, **context: object) -> StagingError:
    """Return the refusal of parts that are not those that were staged."""
    return StagingError(
        f"{message}: put it back as it was staged, or load the table from a new snapshot", **context
    )


def _translated(error: Py4JJavaError, uri: str) -> StagingError:
    """Return our error for what a file system raised: a refusal stays, all else may pass."""
    cause = error.java_exception
    name, text = cause.getClass().getSimpleName(), str(cause.getMessage())
    refused = ("AccessDenied", "AccessControl", "IllegalArgument", "UnsupportedFileSystem")
    if name.startswith(refused) or "No FileSystem for scheme" in text:
        return StagingError(
            "the store refused: the account of the Spark job needs access to it, and Spark the "
            "package of its scheme",
            file=uri,
            cause=f"{name}: {text}",
        )
    return StoreUnavailableError("the store failed", file=uri, cause=f"{name}: {text}")
