"""The events of a binlog file, one after another.

    | 4 magic | FORMAT_DESCRIPTION | event | event | ...

Source: mysql-server, sql/binlog_reader.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.events.control import (
    FormatDescription,
    body_of,
    verify_checksum,
)
from airflow_provider_binlog.binlog.header import (
    HEADER_SIZE,
    EventHeader,
    EventType,
    check_magic,
    event_name,
)
from airflow_provider_binlog.errors import (
    FormatError,
    TruncatedError,
    UnsupportedError,
    error_context,
)
from airflow_provider_binlog.position import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def frames(data: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, EventHeader]]:
    """Yield where each event begins in `data`, and its header.

    Ends where `data` ends, if that is where an event does.

    Raises:
        TruncatedError: `data` ends inside an event.
        FormatError: A header gives a size that no event has.
    """
    while offset < len(data):
        header = EventHeader.parse(memoryview(data)[offset:])
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
        elif header.type == EventType.START_ENCRYPTION and not _begins_in_clear(
            view, offset + header.size
        ):
            raise UnsupportedError(
                "the file is encrypted: read it from the server, which sends it in clear",
                offset=offset,
            )
        with error_context(offset=offset):
            verify_checksum(event, file_format)
        yield Event(offset, header, event, file_format)


def _begins_in_clear(data: memoryview, offset: int) -> bool:
    """Whether a list of GTIDs follows, as in a copy of what MariaDB sent of an encrypted file."""
    if len(data) - offset < HEADER_SIZE:
        return len(data) == offset
    header = EventHeader.parse(data[offset:])
    is_list = header.type == EventType.MARIADB_GTID_LIST
    return is_list and header.log_pos == (offset + header.size) & 0xFFFFFFFF
