"""The 4 bytes that every binlog file begins with, and the 19 that every event begins with.

    file  | 4 magic | events |
    event | 4 timestamp | 1 type | 4 server id | 4 size | 4 end of the event in its file | 2 flags |

Source: mysql-server, libs/mysql/binlog/event/binlog_event.h, Log_event_header; sql/log_event.h,
BINLOG_MAGIC; sql/rpl_log_encryption.h; mariadb, sql/log_event.h, LOG_EVENT_HEADER_LEN.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from airflow_provider_binlog.binlog.event_types import ARTIFICIAL, IGNORABLE
from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError

HEADER_SIZE = 19

_HEADER = struct.Struct("<IBIIIH")


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The common header of one event.

    Attributes:
        timestamp: When its statement began, seconds since 1970; 0 in artificial events.
        type: Type code; not always one of `EventType`.
        server_id: The server where the event originated, which a chain of replicas keeps.
        size: Bytes of the event, header and checksum included.
        log_pos: Offset of the next event in the file, modulo 2**32; 0 in artificial events, and
            inside the transactions of MariaDB 11.4 and later. Count offsets instead.
        flags: See `event_types`.
    """

    timestamp: int
    type: int
    server_id: int
    size: int
    log_pos: int
    flags: int

    @classmethod
    def parse(cls, data: bytes | memoryview, offset: int = 0) -> EventHeader:
        """Read the header that begins at `offset` of `data`.

        Raises:
            TruncatedError: Fewer than 19 bytes are left.
            FormatError: The event's size is smaller than its header.
        """
        if offset + HEADER_SIZE > len(data):
            raise TruncatedError("header ends early", at=offset, left=len(data) - offset)
        header = cls(*_HEADER.unpack_from(data, offset))
        if header.size < HEADER_SIZE:
            raise FormatError("an event smaller than its header", at=offset, size=header.size)
        return header

    def encode(self) -> bytes:
        """Return the header's 19 bytes."""
        return _HEADER.pack(
            self.timestamp, self.type, self.server_id, self.size, self.log_pos, self.flags
        )

    @property
    def artificial(self) -> bool:
        """Whether the event was made for the stream and is not in the log."""
        return bool(self.flags & ARTIFICIAL)

    @property
    def ignorable(self) -> bool:
        """Whether a reader that does not know the type may skip the event."""
        return bool(self.flags & IGNORABLE)


MAGIC = b"\xfebin"
"""The first four bytes of a binlog file."""

ENCRYPTED_MAGIC = b"\xfdbin"
"""The first four bytes of a file that MySQL encrypted."""


def check_magic(data: bytes | memoryview) -> None:
    """Raise if a binlog file cannot begin with these bytes, or is encrypted.

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
