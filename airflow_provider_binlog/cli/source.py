"""What SOURCE means: binlog files, the address of a server, or an Airflow connection.

Files are named by paths, folders, globs, and the URLs of whatever fsspec reaches.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from airflow_provider_binlog.errors import BinlogError, ConfigurationError
from airflow_provider_binlog.hooks.settings import DSN_SCHEMES, ConnectionSettings
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.files.names import arrange, is_pattern, plain_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.transport.files.content import BinaryFile
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from airflow_provider_binlog.transport.stream.live import ServerBlockStream


class Log(BlockStream, Protocol):
    """A log that can be read: where it begins, and how its files are ordered."""

    @property
    def server(self) -> ServerLog | None:
        """The server, to be asked for what the log leaves out; None where there is none."""

    def flavor(self) -> Flavor:
        """Return the family of the server that wrote it."""

    def first(self) -> Position:
        """Return where its oldest event begins."""

    def number(self, file: str) -> int:
        """Return a file's place among the log's files: later ones have larger numbers."""

    def behind(self, file: str) -> Position | None:
        """Return where to go on behind a file that cannot be read; None where that is nowhere."""


@dataclass(frozen=True)
class Range:
    """A part of a log."""

    log: Log
    start: Position
    stop: Position | None

    def blocks(self, start: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events of the range, or of what of it is left from `start` on."""
        blocks = self.log.blocks(start or self.start)
        if self.stop is None:
            yield from blocks
            return
        place = self.log.number(self.stop.file), self.stop.offset
        for block in blocks:
            number = self.log.number(block.file)
            if (number, int(block.offset[0])) >= place:
                return
            count = len(block)
            if number == place[0]:
                count = int((block.offset < self.stop.offset).sum())
            yield block.part(0, count)


def find_range(source: Sequence[str], *, start: str | None, stop: str | None) -> Range:
    """Return what the arguments name: a log, and where in it to begin and to stop.

    Raises:
        ConfigurationError: They name nothing that can be read.
    """
    log = find_log(source)
    begin = _parse_position(start) if start else log.first()
    return Range(log, begin, _parse_position(stop) if stop else None)


def read_settings(source: str) -> ConnectionSettings:
    """Return how to reach the server that an address or an Airflow connection names.

    Raises:
        ConfigurationError: The address is none, the connection does not exist, or Airflow is not
            installed here.
    """
    if source.partition("://")[0] in DSN_SCHEMES:
        return ConnectionSettings.from_dsn(source)
    if "://" in source:
        raise ConfigurationError(f"not the address of a server: {source}")
    from airflow_provider_binlog.cli.airflow_stores import find_connection

    return find_connection(source)


@dataclass(frozen=True)
class ServerLog:
    """The log of a server."""

    settings: ConnectionSettings

    @property
    def server(self) -> ServerLog:
        """The server itself; see `Log`."""
        return self

    def flavor(self) -> Flavor:
        """Ask the server."""
        from airflow_provider_binlog.transport.server import queries as questions

        with closing(self.settings.connect()) as connection:
            return questions.identify(connection).flavor

    def end(self) -> Position:
        """Return where the log ends now: between two transactions."""
        from airflow_provider_binlog.transport.server import queries as questions

        with closing(self.settings.connect()) as connection:
            return questions.log_end(connection)

    def read_server_tables(self, wanted: Callable[[str, str], bool]) -> ServerTables:
        """Ask the server for its catalogue; a `CatalogReader`."""
        from airflow_provider_binlog.transport.server.information_schema import read_server_tables

        with closing(self.settings.connect()) as connection:
            return read_server_tables(connection, wanted)

    def first(self) -> Position:
        """Return where the oldest file that the server still has begins."""
        from airflow_provider_binlog.transport.server import queries as questions

        with closing(self.settings.connect()) as connection:
            return questions.first_position(connection)

    def number(self, file: str) -> int:
        """Return the number in the file's name."""
        return split_file_name(file)[1]

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what a replica would be sent."""
        return self._source.blocks(start, stop)

    def close(self) -> None:
        """Close the connections of iterators that are not at their end."""
        self._source.close()

    @cached_property
    def _source(self) -> ServerBlockStream:
        # One for all iterators: it gives no two of them the same server id at a time.
        from airflow_provider_binlog.transport.stream.live import ServerBlockStream

        settings = self.settings
        return ServerBlockStream(
            settings.connect,
            flavor=self.flavor(),
            server_id=settings.server_id,
            silence_seconds_max=settings.read_timeout,
        )

    def behind(self, file: str) -> Position | None:  # noqa: ARG002  of Log
        """Return None: what a server fails to send, it fails to send again."""
        return None


@dataclass(frozen=True)
class LogFile:
    """A binlog file, wherever it lies."""

    name: str
    open: Callable[[], BinaryFile]


@dataclass(frozen=True)
class FileLog:
    """Files, read in the order in which they were given, whatever they are called."""

    files: tuple[LogFile, ...]

    server = None

    def flavor(self) -> Flavor:
        """Read the beginning of the first file."""
        from airflow_provider_binlog.transport.files.reader import FileBlockStream

        file = self.files[0]
        source = FileBlockStream([_ANY_NAME], open_file=lambda _: file.open())
        return source.identity(_ANY_NAME).flavor

    def first(self) -> Position:
        """Return where the first file begins."""
        return Position(self.files[0].name, FIRST_OFFSET)

    def number(self, file: str) -> int:
        """Return which of the files it is.

        Raises:
            ConfigurationError: It is none of them.
        """
        names = [each.name for each in self.files]
        if file not in names:
            raise ConfigurationError(f"{file} is none of the files: {', '.join(names)}")
        return names.index(file)

    def behind(self, file: str) -> Position | None:
        """Return where the next file begins."""
        number = self.number(file) + 1
        return Position(self.files[number].name, FIRST_OFFSET) if number < len(self.files) else None

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what the files hold."""
        offset = start.offset
        end = (len(self.files), 0) if stop is None else (self.number(stop.file), stop.offset)
        for number in range(self.number(start.file), len(self.files)):
            for block in _read_file(self.files[number], offset):
                yield block
                if (number, block.next_offset) >= end:
                    return
            offset = FIRST_OFFSET

    def close(self) -> None:
        """Do nothing: every iterator closes its files."""


_ANY_NAME = "file.000001"


def _read_file(file: LogFile, offset: int) -> Iterator[EventBlock]:
    """Yield the events of one file: a source by itself, since its name may have no number."""
    from airflow_provider_binlog.transport.files.reader import FileBlockStream

    source = FileBlockStream([_ANY_NAME], open_file=lambda _: file.open())
    try:
        for block in source.blocks(Position(_ANY_NAME, offset)):
            yield replace(block, file=file.name)
    except BinlogError as error:
        if error.context.get("file") == _ANY_NAME:
            error.context["file"] = file.name
        raise


def find_log(source: Sequence[str]) -> Log:
    """Return the log that SOURCE names.

    Raises:
        ConfigurationError: It names nothing that can be read.
    """
    if len(source) == 1 and not _names_files(source[0]):
        return ServerLog(read_settings(source[0]))
    return FileLog(tuple(chain.from_iterable(map(_find_files, source))))


def _names_files(source: str) -> bool:
    """Whether it is files, or can only have been meant to be."""
    if "://" in source:
        return source.partition("://")[0] not in DSN_SCHEMES
    name = plain_name(source)
    return Path(source).exists() or os.sep in source or re.search(r"\.\d+$", name) is not None


def _find_files(source: str) -> Sequence[LogFile]:
    if "://" in source:
        return _find_stored(source)
    path = Path(source)
    if path.is_dir():
        return _find_local(path, "*")
    if is_pattern(path.name) and not path.exists():
        return _find_local(path.parent, path.name)
    return [_local_file(path)]


def _find_local(folder: Path, pattern: str) -> Sequence[LogFile]:
    found = arrange(
        (each.name for each in folder.iterdir() if each.is_file()),
        folder=str(folder),
        pattern=pattern,
    )
    _check(found.names, found.ignored)
    return [_local_file(folder / name) for name in found.names]


def _local_file(path: Path) -> LogFile:
    from airflow_provider_binlog.transport.files.reader import open_local

    return LogFile(plain_name(path), lambda: open_local(str(path)))


def _find_stored(location: str) -> Sequence[LogFile]:
    from airflow_provider_binlog.hooks.binlog_files import find_files

    found = find_files(location, _reach)
    _check(found.paths, found.ignored)
    return [LogFile(plain_name(path), partial(found.open, path)) for path in found.paths]


def _reach(location: str) -> tuple[Any, str]:
    """Return the file system of a location: by an Airflow connection, if it names one."""
    if "@" in urlsplit(location).netloc:
        from airflow_provider_binlog.cli.airflow_stores import let_hooks_read_the_database
        from airflow_provider_binlog.hooks.object_storage import reach

        let_hooks_read_the_database()
        return reach(location)
    from airflow_provider_binlog.hooks.binlog_files import reach_plainly

    return reach_plainly(location)


def _check(paths: Sequence[str], ignored: Sequence[str]) -> None:
    """Refuse a folder in which a file is missing, and say what in it is not read."""
    from airflow_provider_binlog.transport.files.reader import FileBlockStream

    FileBlockStream(paths)
    if ignored:
        sys.stderr.write(f"note: passed over: {', '.join(ignored)}\n")


def _parse_position(text: str) -> Position:
    file, _, offset = text.rpartition(":")
    if not file or not offset.isascii() or not offset.isdigit() or int(offset) < FIRST_OFFSET:
        raise ConfigurationError(f"not a position such as binlog.000042:4: {text}")
    return Position(file, int(offset))
