"""Magic number of binlog files, and the common header of events with its types.

Source: mysql-server, libs/mysql/binlog/event/binlog_event.h, Log_event_header and enum
Log_event_type; sql/log_event.h, BINLOG_MAGIC; sql/rpl_log_encryption.h; mariadb, sql/log_event.h.
Names as printed: sql/log_event.cc, Log_event::get_type_str, of both.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError

IN_USE = 0x0001  # LOG_EVENT_BINLOG_IN_USE_F
"""On a FORMAT_DESCRIPTION: the file is being written, or its server crashed."""

THREAD_SPECIFIC = 0x0004  # LOG_EVENT_THREAD_SPECIFIC_F
"""A statement that used a temporary table."""

ARTIFICIAL = 0x0020  # LOG_EVENT_ARTIFICIAL_F
"""The event was made for the stream and is not in the log."""

RELAY_LOG = 0x0040  # LOG_EVENT_RELAY_LOG_F
"""On the FORMAT_DESCRIPTION of a replica's relay log."""

IGNORABLE = 0x0080  # LOG_EVENT_IGNORABLE_F
"""A reader that does not know the type may skip the event."""


class EventType(IntEnum):
    """Type codes of both families; below 160 they mean the same in both.

    The rows events of MariaDB are `*_V1`, those of MySQL the ones without a suffix.
    """

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42

    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171
    PARTIAL_ROW_DATA = 172


ROWS = frozenset(
    {
        *(EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1),
        *(EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS),
        EventType.PARTIAL_UPDATE_ROWS,
    }
)
"""The rows events that are decoded."""

GROUP_STARTS = frozenset(
    {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
)
"""The events that begin a transaction."""

COMPRESSED = frozenset(
    {
        *(EventType.TRANSACTION_PAYLOAD, EventType.QUERY_COMPRESSED),
        *(EventType.WRITE_ROWS_COMPRESSED_V1, EventType.WRITE_ROWS_COMPRESSED),
        *(EventType.UPDATE_ROWS_COMPRESSED_V1, EventType.UPDATE_ROWS_COMPRESSED),
        *(EventType.DELETE_ROWS_COMPRESSED_V1, EventType.DELETE_ROWS_COMPRESSED),
    }
)
"""Events that hold others, or their own bulk, compressed."""

# Where the printed name is not the type's own in lower case with a capital in front.
_SHOW_NAMES = {
    EventType.RAND: "RAND",
    EventType.USER_VAR: "User var",
    EventType.FORMAT_DESCRIPTION: "Format_desc",
    EventType.PRE_GA_WRITE_ROWS: "Write_rows_event_old",
    EventType.PRE_GA_UPDATE_ROWS: "Update_rows_event_old",
    EventType.PRE_GA_DELETE_ROWS: "Delete_rows_event_old",
    EventType.ANONYMOUS_GTID: "Anonymous_Gtid",
    EventType.XA_PREPARE: "XA_prepare",
    EventType.PARTIAL_UPDATE_ROWS: "Update_rows_partial",
    EventType.HEARTBEAT_V2: "Heartbeat",
    EventType.GTID_TAGGED: "Gtid_tagged_log_event",
    EventType.MARIADB_GTID: "Gtid",
    EventType.MARIADB_GTID_LIST: "Gtid_list",
}


def event_name(code: int) -> str:
    """Return the type's name, `UNKNOWN_200` for a code without one."""
    try:
        return EventType(code).name
    except ValueError:
        return f"UNKNOWN_{code}"


def show_name(code: int) -> str:
    """Return the type as SHOW BINLOG EVENTS prints it: `Write_rows`, `Query`, `Gtid`."""
    try:
        kind = EventType(code)
    except ValueError:
        return "Unknown"
    return _SHOW_NAMES.get(kind, kind.name.capitalize())


HEADER_SIZE = 19
FLAGS_OFFSET = 17

HEADER_STRUCT = struct.Struct("<IBIIIH")
"""The fields of `EventHeader`, unaligned on every platform: int4store in the server."""


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The common header of one event.

        | 4 timestamp | 1 type | 4 server id | 4 size | 4 end of the event in its file | 2 flags |

    Attributes:
        timestamp: When its statement began, seconds since 1970; 0 in artificial events.
        type: Type code; not always one of `EventType`.
        server_id: The server where the event originated, which a chain of replicas keeps.
        size: Bytes of the event, header and checksum included.
        log_pos: Offset of the next event in the file, modulo 2**32; 0 in artificial events, and
            inside the transactions of MariaDB 11.4 and later. Count offsets instead.
        flags: Bits, `IN_USE` and those after it.
    """

    timestamp: int
    type: int
    server_id: int
    size: int
    log_pos: int
    flags: int

    @classmethod
    def parse(cls, data: bytes | memoryview) -> EventHeader:
        """Read the header that `data` begins with."""
        if len(data) < HEADER_SIZE:
            raise TruncatedError("header ends early", left=len(data))
        header = cls(*HEADER_STRUCT.unpack_from(data))
        if header.size < HEADER_SIZE:
            raise FormatError("an event smaller than its header", size=header.size)
        return header

    def encode(self) -> bytes:
        """Return the header's 19 bytes."""
        return HEADER_STRUCT.pack(
            self.timestamp, self.type, self.server_id, self.size, self.log_pos, self.flags
        )

    @property
    def artificial(self) -> bool:
        """Whether it is only in the stream."""
        return bool(self.flags & ARTIFICIAL)

    @property
    def ignorable(self) -> bool:
        """Whether it may be skipped by readers that do not know its type."""
        return bool(self.flags & IGNORABLE)


MAGIC = b"\xfebin"
"""The first four bytes of a binlog file."""

_ENCRYPTED_MAGIC = b"\xfdbin"


def check_magic(data: bytes | memoryview) -> None:
    """Raise if a binlog file cannot begin with these bytes, or is encrypted."""
    first = bytes(data[: len(MAGIC)])
    if len(first) < len(MAGIC):
        raise TruncatedError("a binlog file has at least four bytes", size=len(first))
    if first == _ENCRYPTED_MAGIC:
        raise UnsupportedError(
            "the file is encrypted: read it from the server, which sends it in clear"
        )
    if first != MAGIC:
        raise FormatError("not a binlog file", first_bytes=first.hex())
