"""Binlog files as a source: the same events that the server would send from them.

A replica's relay log is what the replica was sent, word for word: the source's FORMAT_DESCRIPTION
in the middle of a file, artificial events, and positions in the source's files.

Source: mysql-server, sql/binlog_reader.cc; sql/rpl_replica.cc, queue_event.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog import header as headers
from airflow_provider_binlog.binlog.events.control import FormatDescription, verify_checksum
from airflow_provider_binlog.blocks.block import BLOCK_BYTES, SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import Framer, Frames, checked_block
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name
from airflow_provider_binlog.transport.block_stream import check_created, events_from, reaches
from airflow_provider_binlog.transport.files.content import BinaryFile, open_content
from airflow_provider_binlog.transport.files.names import plain_name

# 84 bytes and one per event type, of which there are at most 256.
_TYPE_OFFSET, _SIZE, _LOG_POS = 4, slice(9, 13), slice(13, 17)
_DESCRIPTION_BYTES_MAX = 512
_START_ENCRYPTION_BYTES_MAX = 64


def open_local(path: str) -> BinaryFile:
    """Open a file of this machine; our own reads are large enough to need no buffer."""
    # Handed to the caller, who closes it.
    return open(path, "rb", buffering=0)  # noqa: PTH123


class FileBlockStream:
    """The events in the files of one log, at the given paths."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        open_file: Callable[[str], BinaryFile] = open_local,
        block_bytes: int = BLOCK_BYTES,
        as_given: bool = False,
    ) -> None:
        """Take files in the order of the log; none is opened before it is read.

        `block_bytes` are read before they are framed. Files `as_given` may have any names.

        Raises:
            ConfigurationError: There is no file, or the files are not consecutive ones of one log.
        """
        self._paths = [os.fspath(path) for path in paths]
        self._names = [plain_name(path) for path in self._paths]
        self._open = open_file
        self._block_bytes = block_bytes
        if not as_given:
            _check_consecutive(self._names)

    @property
    def first_position(self) -> Position:
        """Start of the first event of the first file."""
        return Position(self._names[0], FIRST_OFFSET)

    def beginning(self, file: str) -> tuple[int, FormatDescription]:
        """Return the id of the server that wrote a file, and its FORMAT_DESCRIPTION.

        Raises:
            FormatError, UnsupportedError: The file does not begin as a plain binlog.
        """
        path = self._paths[self._names.index(file)]
        with closing(self._open(path)) as opened:
            read = _File(opened, file, self._block_bytes)
            return read.server_id, read.description

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events from `start` on to the end of the last file; see `BlockStream`.

        Raises:
            PositionPurgedError: The files begin after `start`.
            ForeignPositionError: The files end before `start`, are of another log, or the file of
                that name is another one.
            TruncatedError: A file ends inside an event.
            UnsupportedError: A file is encrypted.
            FormatError: A file is no binlog, or an event is damaged.
        """
        begin = start.offset
        for index in range(self._index_of(start), len(self._paths)):
            name = self._names[index]
            if self._reaches(index, begin, stop):
                return
            with closing(self._open(self._paths[index])) as file:
                opened = _File(file, name, self._block_bytes)
                check_created(name, opened.description.created, start)
                for block in opened.blocks(begin):
                    yield block
                    if self._reaches(index, block.next_offset, stop):
                        return
            begin = FIRST_OFFSET

    def close(self) -> None:
        """Do nothing: a file is closed when it has been read."""

    def _reaches(self, index: int, offset: int, stop: Position | None) -> bool:
        if stop is not None and stop.file in self._names:
            return (index, offset) >= (self._names.index(stop.file), stop.offset)
        return reaches(self._names[index], offset, stop)

    def _index_of(self, start: Position) -> int:
        if start.file in self._names:
            return self._names.index(start.file)
        log_name, first = split_file_name(self._names[0])
        start_log, number = split_file_name(start.file)
        purged = start_log == log_name and number < first
        kind = errors.PositionPurgedError if purged else errors.ForeignPositionError
        raise kind(
            "the file of the position is not among those to read",
            file=start.file,
            offset=start.offset,
            first=self._names[0],
            last=self._names[-1],
        )


class _File:
    def __init__(self, file: BinaryFile, name: str, block_bytes: int) -> None:
        self._name = name
        self._block_bytes = block_bytes
        with errors.error_context(file=self._name):
            self._content = open_content(file)
            self._start = bytearray()
            self.server_id, self.description, self._is_relay_log = self._read_start()
        self._framer = Framer(own_log_pos=not self._is_relay_log)

    def blocks(self, begin: int) -> Iterator[EventBlock]:
        """Yield the events from an offset on."""
        if not self._is_relay_log or begin == FIRST_OFFSET:
            yield from self._read_blocks(begin)
            return
        # The source's FORMAT_DESCRIPTION is somewhere before.
        end = FIRST_OFFSET
        for block in self._read_blocks(FIRST_OFFSET):
            end = block.next_offset
            if int(block.offset[0]) >= begin:
                yield block
            elif end > begin:
                yield events_from(block, begin)
        if end < begin:
            raise self._after_the_end(begin, end)

    def _read_blocks(self, begin: int) -> Iterator[EventBlock]:
        size, rest = self._content.size, self._move_to(begin)
        offset, wanted = begin, 0
        while size is None or offset < size:
            # A damaged header may want anything: where no end is known, what is there is doubled.
            more = wanted if size is not None else min(wanted, 2 * len(rest))
            capacity = max(self._block_bytes, more, len(rest))
            if size is not None:
                if offset + wanted > size:
                    raise self._truncated(rest, offset)
                # As it was at the beginning: a file that grows is read up to there.
                capacity = min(capacity, size - offset)
            data = np.empty(capacity + SLACK, dtype=np.uint8)
            view = data.data[:capacity]
            view[: len(rest)] = rest
            filled = self._content.fill(view, len(rest))
            if offset == FIRST_OFFSET and filled > headers.FLAGS_OFFSET:
                # As the server sends the event: it sets the flag while it writes to the file, and
                # leaves the checksum as it is.
                view[headers.FLAGS_OFFSET] &= ~headers.IN_USE & 0xFF
            frames = self._framer.frame(data, 0, filled, file=self._name, offset=offset)
            for block in self._checked(data, frames, offset):
                yield block
                offset = block.next_offset
            if frames.error is not None:
                raise frames.error
            rest, wanted = view[frames.end : filled], frames.wanted
            if filled < capacity:
                if size is not None or len(rest) or self._content.error is not None:
                    raise self._truncated(rest, offset)
                return

    def _checked(
        self, data: npt.NDArray[np.uint8], frames: Frames, offset: int
    ) -> Iterator[EventBlock]:
        """Yield framed events, in a block for each FORMAT_DESCRIPTION that they read by."""
        described = np.flatnonzero(frames.header["type"] == headers.EventType.FORMAT_DESCRIPTION)
        bounds = [0, *described.tolist(), len(frames.start)]
        for first, last in itertools.pairwise(bounds):
            if first == last:
                continue
            if frames.header["type"][first] == headers.EventType.FORMAT_DESCRIPTION:
                self._describe(data, frames, first, offset)
            block = checked_block(
                data,
                frames.start[first:last],
                frames.header[first:last],
                file=self._name,
                description=self.description,
                offset=offset,
                own_log_pos=not self._is_relay_log,
            )
            yield block
            offset = block.next_offset

    def _describe(
        self, data: npt.NDArray[np.uint8], frames: Frames, index: int, offset: int
    ) -> None:
        """Continue by another FORMAT_DESCRIPTION than that at the file's start."""
        if offset == FIRST_OFFSET:
            return
        begin = int(frames.start[index])
        event = data.data[begin : begin + int(frames.header["size"][index])]
        with errors.error_context(file=self._name, offset=offset):
            description = FormatDescription.parse(event)
            verify_checksum(event, description)
        # A relay log holds those of the source's files; it was itself created when it was begun.
        self.description = replace(description, created=self.description.created)

    def _read_start(self) -> tuple[int, FormatDescription, bool]:
        headers.check_magic(self._read(FIRST_OFFSET))
        header = headers.EventHeader.parse(self._read(headers.HEADER_SIZE))
        if header.type != headers.EventType.FORMAT_DESCRIPTION:
            raise errors.FormatError(
                "a binlog begins with FORMAT_DESCRIPTION", event=headers.event_name(header.type)
            )
        if header.size > _DESCRIPTION_BYTES_MAX:
            raise errors.FormatError("no FORMAT_DESCRIPTION has this size", size=header.size)
        event = header.encode() + self._read(header.size - headers.HEADER_SIZE)
        if len(event) < header.size:
            raise self._truncated(memoryview(event), FIRST_OFFSET)
        description = FormatDescription.parse(event)
        verify_checksum(event, description)
        # In clear these bytes are the next event's header, if any.
        following = self._read(headers.HEADER_SIZE)
        if _type_of(following) == headers.EventType.START_ENCRYPTION and not self._is_clear(
            following
        ):
            raise errors.UnsupportedError(
                "the file is encrypted: read it from the server, which sends it in clear"
            )
        return header.server_id, description, bool(header.flags & headers.RELAY_LOG)

    def _is_clear(self, start_encryption: bytes) -> bool:
        """Whether what follows START_ENCRYPTION is in clear, as MariaDB sends it.

        There it is the list of GTIDs that each file begins with.
        """
        size = int.from_bytes(start_encryption[_SIZE], "little")
        if not headers.HEADER_SIZE <= size <= _START_ENCRYPTION_BYTES_MAX:
            return False
        self._read(size - headers.HEADER_SIZE)
        begin = len(self._start)
        listed = self._read(headers.HEADER_SIZE)
        end = begin + int.from_bytes(listed[_SIZE], "little")
        is_list = _type_of(listed) == headers.EventType.MARIADB_GTID_LIST
        return not listed or (is_list and listed[_LOG_POS] == end.to_bytes(8, "little")[:4])

    def _read(self, size: int) -> bytes:
        buffer = memoryview(bytearray(size))
        data = bytes(buffer[: self._content.fill(buffer)])
        self._start += data
        if len(data) < size and self._content.error is not None:
            raise self._content.error
        return data

    def _move_to(self, begin: int) -> memoryview:
        """Continue reading at an offset; return what was already read after it."""
        read = len(self._start)
        if begin > read:
            read += self._content.skip(begin - read)
        if begin > read:
            if self._content.error is not None:
                raise self._truncated(memoryview(b""), read)
            raise self._after_the_end(begin, read)
        return memoryview(self._start)[begin:]

    def _after_the_end(self, begin: int, size: int) -> errors.ForeignPositionError:
        return errors.ForeignPositionError(
            "the position is after the end of the file", file=self._name, offset=begin, size=size
        )

    def _truncated(self, rest: memoryview, offset: int) -> errors.FormatError:
        error = self._content.error or errors.TruncatedError(
            "the file ends inside an event: it is still written to, or was cut when it was copied"
        )
        name = headers.event_name(rest[4]) if len(rest) > 4 else None
        error.context |= {"file": self._name, "offset": offset, "event": name, "left": len(rest)}
        return error


def _type_of(header: bytes) -> int | None:
    return header[_TYPE_OFFSET] if len(header) > _TYPE_OFFSET else None


def _check_consecutive(names: Sequence[str]) -> None:
    if not names:
        raise errors.ConfigurationError("no binlog file to read")
    if len(names) == 1:
        return  # whatever it is called
    parts = []
    for name in names:
        try:
            parts.append(split_file_name(name))
        except errors.FormatError as error:
            raise errors.ConfigurationError(
                "a binlog file is named like binlog.000001: its number says where it belongs",
                file=name,
            ) from error
    for index, ((log, number), follower) in enumerate(itertools.pairwise(parts)):
        if follower != (log, number + 1):
            raise errors.ConfigurationError(
                "the files are not consecutive ones of one log",
                file=names[index],
                next=names[index + 1],
            )
