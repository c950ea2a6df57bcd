"""Binlog files as a source: the same events that the server would send from them.

Source: mysql-server, sql/binlog_reader.cc; sql/log_event.h, BINLOG_MAGIC.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

import numpy as np

from airflow_provider_binlog.binlog.event_types import IN_USE, EventType, event_name
from airflow_provider_binlog.binlog.format_description import FormatDescription
from airflow_provider_binlog.binlog.framing import check_magic, verify_checksum
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventHeader
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import Framer, checked_block
from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name
from airflow_provider_binlog.transport.source import reaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BLOCK_BYTES = 4 << 20
"""Read from a file before events are framed: more no longer fits into the cache."""

_FLAGS_OFFSET = 17
# 84 bytes and one per event type, of which there are at most 256.
_DESCRIPTION_BYTES_MAX = 512


class BinaryFile(Protocol):
    """A file open for reading: a local one, or one of fsspec's."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the front of the buffer; 0 at the end."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to an offset, and return it; `whence` as `os.SEEK_END` counts from the end."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def open_local(path: str) -> BinaryFile:
    """Open a file of this machine; our own reads are large enough to need no buffer."""
    # Handed to the caller, who closes it.
    return open(path, "rb", buffering=0)  # noqa: PTH123


class FileSource:
    """The events of one log's files, which lie in the given places."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        open_file: Callable[[str], BinaryFile] = open_local,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Take files in the order of the log; none is opened before it is read.

        Raises:
            ConfigurationError: There is no file, or the files are not consecutive ones of one log.
        """
        self._paths = [os.fspath(path) for path in paths]
        self._names = [PurePosixPath(path).name for path in self._paths]
        self._open = open_file
        self._block_bytes = block_bytes
        _check_consecutive(self._names)

    @property
    def first_position(self) -> Position:
        """Where the first file's first event begins."""
        return Position(self._names[0], FIRST_OFFSET)

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events from `start` on to the end of the last file; see `BinlogSource`.

        Raises:
            PositionPurgedError: The files begin behind `start`.
            ForeignPositionError: The files end before `start`, or are of another log.
            TruncatedError: A file ends inside an event.
            UnsupportedError: A file is encrypted.
            FormatError: A file is no binlog, or an event is damaged.
        """
        begin = start.offset
        for index in range(self._index_of(start), len(self._paths)):
            name = self._names[index]
            if reaches(name, begin, stop):
                return
            with closing(self._open(self._paths[index])) as file:
                for block in _File(file, name, self._block_bytes).blocks(begin):
                    yield block
                    if reaches(name, block.next_position, stop):
                        return
            begin = FIRST_OFFSET

    def close(self) -> None:
        """Nothing to let go of: a file is closed when it has been read."""

    def _index_of(self, start: Position) -> int:
        if start.file in self._names:
            return self._names.index(start.file)
        log_name, first = split_file_name(self._names[0])
        start_log, number = split_file_name(start.file)
        purged = start_log == log_name and number < first
        kind = PositionPurgedError if purged else ForeignPositionError
        raise kind(
            "the file of the position is not among those to read",
            file=start.file,
            offset=start.offset,
            first=self._names[0],
            last=self._names[-1],
        )


class _File:
    """One open binlog file."""

    def __init__(self, file: BinaryFile, name: str, block_bytes: int) -> None:
        self._file = file
        self._name = name
        self._block_bytes = block_bytes
        self._framer = Framer()

    def blocks(self, begin: int) -> Iterator[EventBlock]:
        description = self._description()
        size = self._file.seek(0, os.SEEK_END)
        if begin > size:
            raise ForeignPositionError(
                "the position lies behind the end of the file",
                file=self._name,
                offset=begin,
                size=size,
            )
        self._file.seek(begin)
        position, wanted, rest = begin, 0, memoryview(b"")
        while position < size:
            if position + wanted > size:
                raise self._truncated(rest, position)
            # The size as it was at the beginning: a file that grows is read up to there.
            capacity = min(max(self._block_bytes, wanted), size - position)
            data = np.empty(capacity + SLACK, dtype=np.uint8)
            view = data.data[:capacity]
            view[: len(rest)] = rest
            filled = self._fill(view, len(rest))
            if position == FIRST_OFFSET and filled > _FLAGS_OFFSET:
                _clear_in_use(view)
            frames = self._framer.frame(data, 0, filled, file=self._name, position=position)
            if len(frames.start):
                block = checked_block(
                    data,
                    frames.start,
                    frames.header,
                    file=self._name,
                    description=description,
                    position=position,
                )
                yield block
                position = block.next_position
            if frames.error is not None:
                raise frames.error
            rest, wanted = view[frames.end : filled], frames.wanted
            if filled < capacity:
                raise self._truncated(rest, position)

    def _description(self) -> FormatDescription:
        """Return the file's FORMAT_DESCRIPTION.

        Raises:
            FormatError, UnsupportedError: The file does not begin as a plain binlog.
        """
        try:
            return self._read_description()
        except BinlogError as error:
            error.context.setdefault("file", self._name)
            raise

    def _read_description(self) -> FormatDescription:
        check_magic(self._read(FIRST_OFFSET))
        header = EventHeader.parse(self._read(HEADER_SIZE))
        if header.type != EventType.FORMAT_DESCRIPTION:
            raise FormatError(
                "a binlog begins with FORMAT_DESCRIPTION", event=event_name(header.type)
            )
        if header.size > _DESCRIPTION_BYTES_MAX:
            raise FormatError("no FORMAT_DESCRIPTION has this size", size=header.size)
        event = header.encode() + self._read(header.size - HEADER_SIZE)
        if len(event) < header.size:
            raise self._truncated(memoryview(event), FIRST_OFFSET)
        description = FormatDescription.parse(event)
        verify_checksum(event, description)
        # MariaDB encrypts what follows. In clear these bytes are the next event's header, if any.
        following = self._read(HEADER_SIZE)
        if following[4:5] == bytes([EventType.START_ENCRYPTION]):
            raise UnsupportedError(
                "the file is encrypted: read it from the server, which sends it in clear"
            )
        return description

    def _read(self, size: int) -> bytes:
        buffer = memoryview(bytearray(size))
        return bytes(buffer[: self._fill(buffer, 0)])

    def _fill(self, view: memoryview, filled: int) -> int:
        """Read until the view is full or the file ends; return how far it is full."""
        while filled < len(view):
            count = self._file.readinto(view[filled:])
            if not count:
                break
            filled += count
        return filled

    def _truncated(self, rest: memoryview, position: int) -> TruncatedError:
        name = event_name(rest[4]) if len(rest) > 4 else None
        return TruncatedError(
            "the file ends inside an event: it is still written to, or was cut when it was copied",
            file=self._name,
            offset=position,
            event=name,
            left=len(rest),
        )


def _clear_in_use(view: memoryview) -> None:
    """Make a file's first event the one that the server sends, whether the file is in use or not.

    The server sets the flag while it writes to the file, and leaves the checksum as it is.
    """
    view[_FLAGS_OFFSET] &= ~IN_USE & 0xFF


def _check_consecutive(names: Sequence[str]) -> None:
    if not names:
        raise ConfigurationError("no binlog file to read")
    if len(names) == 1:
        return  # whatever it is called
    parts = []
    for name in names:
        try:
            parts.append(split_file_name(name))
        except FormatError as error:
            raise ConfigurationError(
                "a binlog file is named like binlog.000001: its number says where it belongs",
                file=name,
            ) from error
    for (log, number), (next_log, next_number), name, follower in zip(
        parts, parts[1:], names, names[1:], strict=False
    ):
        if next_log != log or next_number != number + 1:
            raise ConfigurationError(
                "the files are not consecutive ones of one log", file=name, next=follower
            )
