"""Events about the log itself: its format, checksums, the next file, heartbeats, lost events.

Source: mysql-server, libs/mysql/binlog/event/control_events.h; codecs/binary.cpp for HEARTBEAT_V2;
binlog_event.h, Log_event_footer; mariadb, sql/log_event.h, sql/log_event.cc, event_checksum_test.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from enum import IntEnum

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.header import (
    FLAGS_OFFSET,
    HEADER_SIZE,
    IN_USE,
    EventHeader,
    EventType,
    event_name,
)
from airflow_provider_binlog.errors import (
    ChecksumError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Flavor

CHECKSUM_SIZE = 4
"""Bytes of the CRC32 at the end of an event."""

_BINLOG_VERSION = 4
_SERVER_VERSION_SIZE = 50
# Without the algorithm byte, the last bytes would be post-header lengths and the CRC none.
_FIRST_WITH_CHECKSUMS = (5, 6)


class ChecksumAlgorithm(IntEnum):
    """The checksum at the end of every event of a file but its FORMAT_DESCRIPTION."""

    OFF = 0
    CRC32 = 1
    UNDEFINED = 255


@dataclass(frozen=True)
class FormatDescription:
    """FORMAT_DESCRIPTION, the first event of every file.

        | 2 version (4) | 50 server version, NUL-padded | 4 created | 1 header size (19) |
        | n post-header lengths, one per type code from 1 | 1 checksum algorithm | 4 CRC32 |

    The last five bytes are there whether or not the file has checksums. In a file with checksums
    every event ends with the CRC32 of all its bytes before it.

    Attributes:
        server_version: `9.7.4`, `10.11.19-MariaDB-log`: the server that wrote the file.
        created: When the file was created, seconds since 1970: from the header, which is the same
            where a stream starts inside the file.
        checksum_algorithm: Of every other event of the file.
        post_header_lengths: Bytes of each type's post-header; that of type code 1 comes first.
    """

    server_version: str
    created: int
    checksum_algorithm: ChecksumAlgorithm
    post_header_lengths: bytes

    @property
    def flavor(self) -> Flavor:
        """The family of the server that wrote the file."""
        return Flavor.MARIADB if "mariadb" in self.server_version.lower() else Flavor.MYSQL

    @property
    def checksum_size(self) -> int:
        """Bytes after every event's body: 4 or 0."""
        return CHECKSUM_SIZE if self.checksum_algorithm is ChecksumAlgorithm.CRC32 else 0

    def post_header_length(self, type_code: int) -> int:
        """Return the size in bytes of the post-header, the fixed part of such an event's body.

        Wrong for GTID and TRANSACTION_PAYLOAD, whose writers do not keep to it.

        Raises:
            FormatError: The file's server did not know the type.
        """
        if not 1 <= type_code <= len(self.post_header_lengths):
            raise FormatError(
                "the file's server knew no such event",
                event=event_name(type_code),
                server=self.server_version,
            )
        return self.post_header_lengths[type_code - 1]

    def split(self, type_code: int, body: bytes | memoryview) -> tuple[Buffer, Buffer]:
        """Return the post-header of such an event's body, and what follows it.

        A post-header that is longer than known has new fields at its end.
        """
        buffer = Buffer(body)
        fixed = Buffer(buffer.take(self.post_header_length(type_code)))
        return fixed, Buffer(buffer.rest())

    @classmethod
    def parse(cls, event: bytes | memoryview) -> FormatDescription:
        """Read the event, header and checksum included.

        Raises:
            FormatError: The event is no FORMAT_DESCRIPTION, or contradicts itself.
            UnsupportedError: The file was written by a server older than MySQL 5.6.
        """
        header = EventHeader.parse(event)
        if header.type != EventType.FORMAT_DESCRIPTION:
            raise FormatError("not a FORMAT_DESCRIPTION", event=event_name(header.type))
        buffer = Buffer(memoryview(event)[HEADER_SIZE:])
        version = buffer.uint(2)
        if version != _BINLOG_VERSION:
            raise UnsupportedError(
                "a binlog older than MySQL 5.0: read it through a newer replica", version=version
            )
        server_version = _server_version(buffer.take(_SERVER_VERSION_SIZE))
        buffer.take(4)  # when the server was started, else 0; also where a stream starts inside
        header_size = buffer.uint(1)
        if header_size != HEADER_SIZE:
            raise FormatError("headers of another size than 19 bytes", header_size=header_size)
        lengths = bytes(buffer.take(max(0, buffer.remaining - 1 - CHECKSUM_SIZE)))
        code = buffer.uint(1)
        buffer.take(CHECKSUM_SIZE)
        try:
            algorithm = ChecksumAlgorithm(code)
        except ValueError as error:
            raise FormatError("unknown checksum algorithm", algorithm=code) from error
        return cls(server_version, header.timestamp, algorithm, lengths)


def _server_version(field: memoryview) -> str:
    text = bytes(field).split(b"\0", 1)[0].decode("latin-1")
    number = re.match(r"(\d+)\.(\d+)", text)
    if number is None:
        raise FormatError("not a server version", text=text)
    if (int(number[1]), int(number[2])) < _FIRST_WITH_CHECKSUMS:
        raise UnsupportedError(
            "a binlog of a server older than MySQL 5.6: read it through a newer replica",
            server=text,
        )
    return text


def body_of(event: bytes | memoryview, file_format: FormatDescription) -> memoryview:
    """Return the body of an event, between its header and its checksum: a view."""
    end = len(event) - file_format.checksum_size
    if end < HEADER_SIZE:
        raise TruncatedError("an event smaller than its header and checksum", size=len(event))
    return memoryview(event)[HEADER_SIZE:end]


def verify_checksum(event: bytes | memoryview, file_format: FormatDescription) -> None:
    """Raise a `ChecksumError` if the bytes of an event are not those that the server wrote."""
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
        octets[FLAGS_OFFSET] &= ~IN_USE & 0xFF
        checked = memoryview(octets)
    return zlib.crc32(checked) == int.from_bytes(view[-CHECKSUM_SIZE:], "little")


@dataclass(frozen=True, slots=True)
class Rotate:
    """ROTATE: the log continues at an offset in another file. `| 8 offset | file name |`.

    The last event of a file that was closed properly; artificial, the first event of a stream.
    """

    file: str
    offset: int

    @classmethod
    def parse(
        cls, body: bytes | memoryview, file_format: FormatDescription | None = None
    ) -> Rotate:
        """Read the event's body; the first ROTATE of a stream precedes any FORMAT_DESCRIPTION."""
        if file_format is None:
            fixed = rest = Buffer(body)
        else:
            fixed, rest = file_format.split(EventType.ROTATE, body)
        offset = fixed.uint(8)
        return cls(decode_identifier(rest.rest()), offset)


_HEARTBEAT_END, _HEARTBEAT_POSITION = 0, 2


def read_heartbeat_offset(body: bytes | memoryview, file_format: FormatDescription) -> int | None:
    """Return the offset in its file that a HEARTBEAT_V2 says: the server has nothing to send.

    The body is `1 field | lenenc size | value`, up to field 0.
    """
    _, rest = file_format.split(EventType.HEARTBEAT_V2, body)
    offset: int | None = None
    while (field := rest.uint(1)) != _HEARTBEAT_END:
        value = Buffer(rest.lenenc_bytes())
        if field == _HEARTBEAT_POSITION:
            offset = value.lenenc()
    return offset


@dataclass(frozen=True, slots=True)
class Incident:
    """INCIDENT: changes are missing from the log, as the server knows.

    | 2 number: 1 for lost events, the only one in use | 1 size + message |
    """

    number: int
    message: str

    @classmethod
    def parse(cls, body: bytes | memoryview, file_format: FormatDescription) -> Incident:
        """Read the event's body."""
        fixed, rest = file_format.split(EventType.INCIDENT, body)
        number = fixed.uint(2)
        message = rest.take(rest.uint(1)) if rest.remaining else memoryview(b"")
        return cls(number, str(message, "utf-8", "replace"))
