"""Find the events in the bytes of a binlog file, one after another, and check them.

    | 4 magic | FORMAT_DESCRIPTION | event | event | ...
    an event: | 19 header | body | 4 CRC32 of all before it, if the file has checksums |

Source: mysql-server, sql/binlog_reader.cc and libs/mysql/binlog/event/binlog_event.h,
Log_event_footer; mariadb, sql/log_event.cc, event_checksum_test.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.event_types import IN_USE, EventType, event_name
from airflow_provider_binlog.binlog.events.format_description import (
    CHECKSUM_SIZE,
    FormatDescription,
)
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventHeader
from airflow_provider_binlog.errors import (
    ChecksumError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"\xfebin"
"""The first four bytes of a binlog file."""

ENCRYPTED_MAGIC = b"\xfdbin"
"""The first four bytes of a file that MySQL encrypted."""

_FLAGS_OFFSET = 17


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it stands in its file.

    Attributes:
        offset: Where it begins in the file.
        header: The common header.
        data: The whole event, a view.
        format: The file's FORMAT_DESCRIPTION.
    """

    offset: int
    header: EventHeader
    data: memoryview
    format: FormatDescription

    @property
    def body(self) -> memoryview:
        """What stands between the header and the checksum, a view."""
        return body_of(self.data, self.format)

    @property
    def end(self) -> int:
        """Where the next event begins in the file."""
        return self.offset + self.header.size


def check_magic(data: bytes | memoryview) -> None:
    """Refuse bytes that no plain binlog file begins with.

    Raises:
        TruncatedError: Fewer than four bytes.
        UnsupportedError: The file is encrypted.
        FormatError: The file is no binlog.
    """
    first = bytes(data[: len(MAGIC)])
    if len(first) < len(MAGIC):
        raise TruncatedError("a binlog file has at least four bytes", size=len(first))
    if first == ENCRYPTED_MAGIC:
        raise UnsupportedError(
            "the file is encrypted: read it from the server, which sends it in clear"
        )
    if first != MAGIC:
        raise FormatError("not a binlog file", first_bytes=first.hex())


def frames(data: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, EventHeader]]:
    """Yield where each event begins in `data`, and its header.

    Ends where `data` ends, if that is where an event does.

    Raises:
        TruncatedError: `data` ends inside an event.
        FormatError: A header gives a size that no event has.
    """
    while offset < len(data):
        header = EventHeader.parse(data, offset)
        if offset + header.size > len(data):
            raise TruncatedError(
                "the data ends inside an event",
                event=event_name(header.type),
                offset=offset,
                size=header.size,
                left=len(data) - offset,
            )
        yield offset, header
        offset += header.size


def read_file(data: bytes | memoryview) -> Iterator[Event]:
    """Yield the events of a whole binlog file, their checksums verified.

    Raises:
        FormatError: The file does not begin as a binlog does, or is cut, or an event is damaged.
        UnsupportedError: The file is encrypted.
    """
    check_magic(data)
    view = memoryview(data)
    file_format: FormatDescription | None = None
    for offset, header in frames(view, FIRST_OFFSET):
        event = view[offset : offset + header.size]
        if header.type == EventType.FORMAT_DESCRIPTION:
            file_format = FormatDescription.parse(event)
        elif file_format is None:
            raise FormatError(
                "a binlog begins with FORMAT_DESCRIPTION", event=event_name(header.type)
            )
        elif header.type == EventType.START_ENCRYPTION:
            raise UnsupportedError(
                "the file is encrypted: read it from the server, which sends it in clear",
                offset=offset,
            )
        try:
            verify_checksum(event, file_format)
        except ChecksumError as error:
            raise ChecksumError(error.args[0], **error.context, offset=offset) from error
        yield Event(offset, header, event, file_format)


def body_of(event: bytes | memoryview, file_format: FormatDescription) -> memoryview:
    """Return what stands between an event's header and its checksum, a view.

    Raises:
        TruncatedError: The event is too small to hold both.
    """
    end = len(event) - file_format.checksum_size
    if end < HEADER_SIZE:
        raise TruncatedError("an event smaller than its header and checksum", size=len(event))
    return memoryview(event)[HEADER_SIZE:end]


def verify_checksum(event: bytes | memoryview, file_format: FormatDescription) -> None:
    """Refuse an event whose bytes are not those that the server wrote.

    A FORMAT_DESCRIPTION has a checksum in every file, the other events where the file says so.

    Raises:
        ChecksumError: The trailer is not the CRC32 of the bytes before it.
    """
    header = EventHeader.parse(event)
    has_checksum = file_format.checksum_size or header.type == EventType.FORMAT_DESCRIPTION
    if has_checksum and not checksum_matches(event):
        raise ChecksumError(
            "the event is damaged: its checksum does not match", event=event_name(header.type)
        )


def checksum_matches(event: bytes | memoryview) -> bool:
    """Whether the last four bytes are the CRC32 of those before them.

    Also tells whether an artificial ROTATE has a checksum at all: it comes before the
    FORMAT_DESCRIPTION that could say so.
    """
    if len(event) < HEADER_SIZE + CHECKSUM_SIZE:
        return False
    view = memoryview(event)
    header = EventHeader.parse(view)
    checked = view[:-CHECKSUM_SIZE]
    if header.type == EventType.FORMAT_DESCRIPTION and header.flags & IN_USE:
        # The server sets the flag in the file that it writes to, and leaves the checksum as it is.
        octets = bytearray(checked)
        octets[_FLAGS_OFFSET] &= ~IN_USE & 0xFF
        checked = memoryview(octets)
    return zlib.crc32(checked) == int.from_bytes(view[-CHECKSUM_SIZE:], "little")
