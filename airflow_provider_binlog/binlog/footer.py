"""The CRC32 that ends every event of a file with checksums.

    | 19 header | body | 4 CRC32 of all before it |

Source: mysql-server, libs/mysql/binlog/event/binlog_event.h, Log_event_footer; mariadb,
sql/log_event.cc, event_checksum_test.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.event_types import IN_USE, EventType, event_name
from airflow_provider_binlog.binlog.events.format_description import CHECKSUM_SIZE
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventHeader
from airflow_provider_binlog.errors import ChecksumError, TruncatedError

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.format_description import FormatDescription

_FLAGS_OFFSET = 17


def body_of(event: bytes | memoryview, file_format: FormatDescription) -> memoryview:
    """Return the body of an event, between its header and its checksum: a view.

    Raises:
        TruncatedError: The event is too small to hold both.
    """
    end = len(event) - file_format.checksum_size
    if end < HEADER_SIZE:
        raise TruncatedError("an event smaller than its header and checksum", size=len(event))
    return memoryview(event)[HEADER_SIZE:end]


def verify_checksum(event: bytes | memoryview, file_format: FormatDescription) -> None:
    """Raise if the bytes of an event are not those that the server wrote.

    A FORMAT_DESCRIPTION has a checksum in every file, the other events if the file has checksums.

    Raises:
        ChecksumError: The footer is not the CRC32 of the bytes before it.
    """
    header = EventHeader.parse(event)
    has_checksum = file_format.checksum_size or header.type == EventType.FORMAT_DESCRIPTION
    if has_checksum and not checksum_matches(event):
        raise ChecksumError(
            "the event is damaged: its checksum does not match", event=event_name(header.type)
        )


def checksum_matches(event: bytes | memoryview) -> bool:
    """Whether the last four bytes are the CRC32 of those before them.

    An artificial ROTATE comes before the FORMAT_DESCRIPTION: only this shows whether it has a
    checksum.
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
