"""Events about the log itself: the next file, heartbeats, shutdown, lost events.

Source: mysql-server, libs/mysql/binlog/event/control_events.h, and codecs/binary.cpp for
HEARTBEAT_V2; mariadb, sql/log_event.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.errors import FormatError

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.format_description import FormatDescription


@dataclass(frozen=True, slots=True)
class Rotate:
    """ROTATE: the log continues in another file.

    The last event of a file that was closed properly; artificial, the first event of a stream.

        | 8 position | file name to the end |

    Attributes:
        file: Name without its folder.
        offset: Of the first event there.
    """

    file: str
    offset: int

    @classmethod
    def parse(
        cls, body: bytes | memoryview, file_format: FormatDescription | None = None
    ) -> Rotate:
        """Read the event's body.

        The first ROTATE of a stream comes before any FORMAT_DESCRIPTION: none is needed.
        """
        if file_format is None:
            fixed = rest = Buffer(body)
        else:
            fixed, rest = file_format.split(EventType.ROTATE, body)
        offset = fixed.uint(8)
        return cls(decode_identifier(rest.rest()), offset)


_FIELD_END, _FIELD_FILE, _FIELD_POSITION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """HEARTBEAT: the server is alive and has nothing to send. Only in streams, never in files.

    Attributes:
        file: The file that the server is sending.
        offset: In that file; None in version 1, whose header has its lower 32 bits.
    """

    file: str
    offset: int | None

    @classmethod
    def parse(cls, body: bytes | memoryview, file_format: FormatDescription) -> Heartbeat:
        """Read the body of HEARTBEAT: the file's name."""
        _, rest = file_format.split(EventType.HEARTBEAT, body)
        return cls(decode_identifier(rest.rest()), None)

    @classmethod
    def parse_v2(cls, body: bytes | memoryview, file_format: FormatDescription) -> Heartbeat:
        """Read the body of HEARTBEAT_V2: `1 field | lenenc size | value`, up to field 0.

        Raises:
            FormatError: There is no end mark, or no file name.
        """
        _, rest = file_format.split(EventType.HEARTBEAT_V2, body)
        file: str | None = None
        offset: int | None = None
        while (field := rest.uint(1)) != _FIELD_END:
            value = Buffer(rest.lenenc_bytes())
            if field == _FIELD_FILE:
                file = decode_identifier(value.rest())
            elif field == _FIELD_POSITION:
                offset = value.lenenc()
        if file is None:
            raise FormatError("a heartbeat without a file name")
        return cls(file, offset)


@dataclass(frozen=True, slots=True)
class Incident:
    """INCIDENT: changes are missing from the log, as the server knows.

        | 2 number | 1 size + message |

    Attributes:
        number: 1 for lost events, the only one in use.
        message: In the server's words.
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


@dataclass(frozen=True, slots=True)
class BinlogCheckpoint:
    """BINLOG_CHECKPOINT: crash recovery of the server needs no file before this one.

    Attributes:
        file: `| 4 size | name |`.
    """

    file: str

    @classmethod
    def parse(cls, body: bytes | memoryview, file_format: FormatDescription) -> BinlogCheckpoint:
        """Read the event's body."""
        fixed, rest = file_format.split(EventType.BINLOG_CHECKPOINT, body)
        return cls(decode_identifier(rest.take(fixed.uint(4))))
