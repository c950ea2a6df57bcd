"""What SOURCE means: binlog files, the address of a server, or an Airflow connection."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import BinlogError, ConfigurationError
from airflow_provider_binlog.hooks.settings import DSN_SCHEMES, ConnectionSettings
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock


class Log(Protocol):
    """A log that can be read: where it begins, and how its files are ordered."""

    def first(self) -> Position:
        """Return where its oldest event begins."""

    def number(self, file: str) -> int:
        """Return a file's place among the log's files: later ones have larger numbers."""

    def blocks(self, start: Position) -> Iterator[EventBlock]:
        """Yield its events from `start` on."""


def read_blocks(
    source: Sequence[str], *, start: str | None, stop: str | None
) -> Iterator[tuple[EventBlock, int]]:
    """Yield the blocks from `start` on, and how many events of each lie before `stop`.

    Raises:
        ConfigurationError: The arguments name nothing that can be read.
    """
    log = _find(source)
    begin = _parse_position(start) if start else log.first()
    if not stop:
        yield from ((block, len(block)) for block in log.blocks(begin))
        return
    end = _parse_position(stop)
    place = log.number(end.file), end.offset
    for block in log.blocks(begin):
        number = log.number(block.file)
        if (number, int(block.position[0])) >= place:
            return
        count = len(block)
        if number == place[0]:
            count = int((block.position < end.offset).sum())
        yield block, count


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

    def first(self) -> Position:
        """Return where the oldest file that the server still has begins."""
        from airflow_provider_binlog.transport import questions

        with closing(self.settings.connect()) as connection:
            return questions.first_position(connection)

    def number(self, file: str) -> int:
        """Return the number in the file's name."""
        return split_file_name(file)[1]

    def blocks(self, start: Position) -> Iterator[EventBlock]:
        """Yield what a replica would be sent."""
        from airflow_provider_binlog.transport import questions
        from airflow_provider_binlog.transport.live import LiveSource

        settings = self.settings
        with closing(settings.connect()) as connection:
            flavor = questions.identify(connection).flavor
        with closing(
            LiveSource(settings.connect, flavor=flavor, server_id=settings.server_id)
        ) as source:
            yield from source.blocks(start)


@dataclass(frozen=True)
class FileLog:
    """Files, read in the order in which they were given, whatever they are called."""

    paths: tuple[Path, ...]

    def first(self) -> Position:
        """Return where the first file begins."""
        return Position(self.paths[0].name, FIRST_OFFSET)

    def number(self, file: str) -> int:
        """Return which of the files it is.

        Raises:
            ConfigurationError: It is none of them.
        """
        names = [path.name for path in self.paths]
        if file not in names:
            raise ConfigurationError(f"{file} is none of the files: {', '.join(names)}")
        return names.index(file)

    def blocks(self, start: Position) -> Iterator[EventBlock]:
        """Yield what the files hold."""
        offset = start.offset
        for path in self.paths[self.number(start.file) :]:
            yield from _read_file(path, offset)
            offset = FIRST_OFFSET


_ANY_NAME = "file.000001"


def _read_file(path: Path, offset: int) -> Iterator[EventBlock]:
    """Yield the events of one file: a source by itself, since its name may have no number."""
    from airflow_provider_binlog.transport.files import FileSource, open_local

    source = FileSource([_ANY_NAME], open_file=lambda _: open_local(str(path)))
    try:
        for block in source.blocks(Position(_ANY_NAME, offset)):
            yield replace(block, file=path.name)
    except BinlogError as error:
        if error.context.get("file") == _ANY_NAME:
            error.context["file"] = path.name
        raise


def _find(source: Sequence[str]) -> Log:
    if len(source) == 1 and not _names_file(source[0]):
        return ServerLog(read_settings(source[0]))
    return FileLog(tuple(Path(each) for each in source))


def _names_file(source: str) -> bool:
    """Whether it is a file, or can only have been meant to be one."""
    if "://" in source:
        return False
    return Path(source).exists() or os.sep in source or re.search(r"\.\d+$", source) is not None


def _parse_position(text: str) -> Position:
    file, _, offset = text.rpartition(":")
    if not file or not offset.isascii() or not offset.isdigit() or int(offset) < FIRST_OFFSET:
        raise ConfigurationError(f"not a position such as binlog.000042:4: {text}")
    return Position(file, int(offset))
