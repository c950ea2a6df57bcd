"""Writes binlogs: the mirror of `airflow_provider_binlog.binlog`.

Every function named after an event returns its body. `event` puts header and checksum around it,
and `BinlogFile` appends events, with the positions that a server would write.
TABLE_MAP, the longest of them, is written by `table_map_builder`.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import (
    HEADER_SIZE,
    MAGIC,
    EventHeader,
    EventType,
)
from tests.reference.rows_header import ROWS_V2, STATEMENT_END
from tests.support.wire import bits, lenenc, lenenc_bytes, varlen_sint, varlen_uint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_binlog.binlog.gtid_set import GtidSet

MYSQL = "9.7.4"
MARIADB = "10.11.18-MariaDB-log"
SERVER_UUID = "4f1e6f83-e4ef-11f0-9d0c-0242ac110002"

# Post-header lengths by type code from 1, as servers write them.
# Source: FORMAT_DESCRIPTION of MySQL 9.7.4 and MariaDB 10.11.18.
_MYSQL_LENGTHS = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)
_MARIADB_LENGTHS = bytes.fromhex(
    "380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a"
).ljust(159, b"\0") + bytes.fromhex("00041304000d0808080a0a0a")


def event(
    type_code: int,
    body: bytes,
    *,
    checksum: bool = True,
    timestamp: int = 1_700_000_000,
    server_id: int = 1,
    log_pos: int = 0,
    flags: int = 0,
) -> bytes:
    """Return a whole event."""
    size = HEADER_SIZE + len(body) + (4 if checksum else 0)
    data = EventHeader(timestamp, type_code, server_id, size, log_pos, flags).encode() + body
    return data + zlib.crc32(data).to_bytes(4, "little") if checksum else data


def format_description(
    server_version: str = MYSQL, *, checksum: bool = True, created: int = 0
) -> bytes:
    """Return the body, algorithm included; the CRC that always follows comes from `event`."""
    mariadb = "mariadb" in server_version.lower()
    lengths = _MARIADB_LENGTHS if mariadb else _MYSQL_LENGTHS
    return (
        struct.pack("<H50sIB", 4, server_version.encode(), created, HEADER_SIZE)
        + lengths
        + bytes((1 if checksum else 0,))
    )


def parsed_format(server_version: str = MYSQL, *, checksum: bool = True) -> FormatDescription:
    """Return the FORMAT_DESCRIPTION that a file of this builder begins with."""
    body = format_description(server_version, checksum=checksum)
    return FormatDescription.parse(event(EventType.FORMAT_DESCRIPTION, body))


def rotate(file: str, position: int = 4) -> bytes:
    """Return the body of ROTATE."""
    return position.to_bytes(8, "little") + file.encode()


def heartbeat(file: str) -> bytes:
    """Return the body of HEARTBEAT."""
    return file.encode()


def heartbeat_v2(file: str, position: int) -> bytes:
    """Return the body of HEARTBEAT_V2."""
    return (
        b"\x01" + lenenc_bytes(file.encode()) + b"\x02" + lenenc_bytes(lenenc(position)) + b"\x00"
    )


def incident(message: str, number: int = 1) -> bytes:
    """Return the body of INCIDENT."""
    return number.to_bytes(2, "little") + bytes((len(message),)) + message.encode()


def query(
    sql: str | bytes,
    *,
    database: str = "shop",
    thread_id: int = 7,
    error: int = 0,
    client_collation: int | None = 255,
    status: bytes = b"",
) -> bytes:
    """Return the body of QUERY; `status` stands before the character sets."""
    text = sql.encode() if isinstance(sql, str) else sql
    if client_collation is not None:
        status += b"\x04" + struct.pack("<HHH", client_collation, client_collation, 255)
    name = database.encode()
    fixed = struct.pack("<IIBHH", thread_id, 0, len(name), error, len(status))
    return fixed + status + name + b"\0" + text


def xid(number: int) -> bytes:
    """Return the body of XID."""
    return number.to_bytes(8, "little")


def xa_prepare(
    gtrid: bytes, bqual: bytes = b"", format_id: int = 1, *, one_phase: bool = False
) -> bytes:
    """Return the body of XA_PREPARE."""
    return struct.pack("<BiII", one_phase, format_id, len(gtrid), len(bqual)) + gtrid + bqual


def rows_query(sql: str) -> bytes:
    """Return the body of ROWS_QUERY."""
    return bytes((min(len(sql), 255),)) + sql.encode()


def gtid(
    number: int,
    *,
    server: str | None = SERVER_UUID,
    transaction_length: int = 0,
    commit_timestamp_us: int = 1_700_000_000_000_000,
    original_timestamp_us: int | None = None,
    flags: int = 0,
) -> bytes:
    """Return the body of GTID, or with `server=None` and number 0 that of ANONYMOUS_GTID."""
    sid = uuid.UUID(server).bytes if server is not None else bytes(16)
    times = commit_timestamp_us.to_bytes(7, "little")
    if original_timestamp_us is not None:
        times = (commit_timestamp_us | 1 << 55).to_bytes(7, "little")
        times += original_timestamp_us.to_bytes(7, "little")
    return (
        bytes((flags,))
        + sid
        + struct.pack("<qBqq", number, 2, number - 1 if number else 0, number)
        + times
        # Always nine bytes, so that the length does not depend on itself.
        + b"\xfe"
        + transaction_length.to_bytes(8, "little")
        + (90704).to_bytes(4, "little")
    )


def gtid_tagged(
    number: int,
    tag: str,
    *,
    server: str = SERVER_UUID,
    transaction_length: int = 0,
    commit_timestamp_us: int = 1_700_000_000_000_000,
    more: bytes = b"",
) -> bytes:
    """Return the body of GTID_TAGGED; `more` follows the fields."""
    fields = (
        varlen_uint(0)
        + varlen_uint(0)
        + varlen_uint(1)
        + b"".join(map(varlen_uint, uuid.UUID(server).bytes))
        + varlen_uint(2)
        + varlen_sint(number)
        + varlen_uint(3)
        + varlen_uint(len(tag))
        + tag.encode()
        + varlen_uint(4)
        + varlen_sint(number - 1)
        + varlen_uint(5)
        + varlen_sint(number)
        + varlen_uint(6)
        + varlen_uint(commit_timestamp_us)
        + varlen_uint(8)
        + varlen_uint(transaction_length)
        + varlen_uint(9)
        + varlen_uint(90704)
        + more
    )
    size = 3 + len(fields)
    if size >= 1 << 7:
        size += 1
    return varlen_uint(1) + varlen_uint(size) + varlen_uint(0) + fields


def previous_gtids(executed: GtidSet) -> bytes:
    """Return the body of PREVIOUS_GTIDS."""
    return executed.encode()


def mariadb_gtid(  # noqa: D417
    sequence: int,
    *,
    domain: int = 0,
    flags: int = 0x0C,
    commit_id: int | None = None,
    xa: tuple[int, bytes, bytes] | None = None,
    extra: bytes = b"",
    padding: int = 0,
) -> bytes:
    """Return the body of MariaDB's GTID.

    Args:
        extra: The extra flags and what they bring, as they stand.
        padding: Zeros beyond the least size.
    """
    body = struct.pack("<QIB", sequence, domain, flags | (2 if commit_id is not None else 0))
    if commit_id is not None:
        body += commit_id.to_bytes(8, "little")
    if xa is not None:
        format_id, gtrid, bqual = xa
        body += struct.pack("<iBB", format_id, len(gtrid), len(bqual)) + gtrid + bqual
    return (body + extra).ljust(19, b"\0") + bytes(padding)


def mariadb_gtid_list(gtids: Iterable[tuple[int, int, int]], *, until: bool = False) -> bytes:
    """Return the body of MariaDB's GTID_LIST."""
    entries = list(gtids)
    head = (len(entries) | (1 << 28 if until else 0)).to_bytes(4, "little")
    return head + b"".join(struct.pack("<IIQ", *entry) for entry in entries)


def binlog_checkpoint(file: str) -> bytes:
    """Return the body of BINLOG_CHECKPOINT."""
    return len(file).to_bytes(4, "little") + file.encode()


_UPDATES = (EventType.UPDATE_ROWS, EventType.UPDATE_ROWS_V1, EventType.PARTIAL_UPDATE_ROWS)


def rows(
    type_code: int,
    table_id: int,
    width: int,
    images: bytes,
    *,
    flags: int = STATEMENT_END,
    extra: bytes = b"",
    present: Sequence[bool] | None = None,
    present_after: Sequence[bool] | None = None,
) -> bytes:
    """Return the body of a rows event; by default all columns are present in all images."""
    body = table_id.to_bytes(6, "little") + flags.to_bytes(2, "little")
    if type_code in ROWS_V2:
        body += (2 + len(extra)).to_bytes(2, "little") + extra
    everything = [True] * width
    body += lenenc(width) + bits(everything if present is None else present)
    if type_code in _UPDATES:
        body += bits(everything if present_after is None else present_after)
    return body + images


def row_image(values: Sequence[bytes | None]) -> bytes:
    """Return one row image of values that are already in their binary form; None for NULL."""
    nulls = bits([value is None for value in values])
    return nulls + b"".join(value for value in values if value is not None)


@dataclass
class BinlogFile:
    """A binlog file in the making.

    Attributes:
        server_version: Decides the family, and with it the FORMAT_DESCRIPTION.
        checksum: Whether events end in a CRC32.
        server_id: Of every event, unless another is given.
        timestamp: Of every event, unless another is given.
        data: The file so far: magic, FORMAT_DESCRIPTION, the events added.
        offsets: Where each event begins, the FORMAT_DESCRIPTION's first.
        created: When the server was started; 0 in the files after the first one since.
    """

    server_version: str = MYSQL
    checksum: bool = True
    server_id: int = 1
    timestamp: int = 1_700_000_000
    data: bytearray = field(default_factory=lambda: bytearray(MAGIC))
    offsets: list[int] = field(default_factory=list)
    created: int = 0

    def __post_init__(self) -> None:
        body = format_description(self.server_version, checksum=self.checksum, created=self.created)
        self._append(EventType.FORMAT_DESCRIPTION, body, checksum=True, flags=0)

    def add(
        self,
        type_code: int,
        body: bytes = b"",
        *,
        flags: int = 0,
        server_id: int | None = None,
        timestamp: int | None = None,
        log_pos: int | None = None,
    ) -> int:
        """Add an event and return its offset; `log_pos` is its end, unless another is given."""
        return self._append(
            type_code,
            body,
            checksum=self.checksum,
            flags=flags,
            server_id=server_id,
            timestamp=timestamp,
            log_pos=log_pos,
        )

    def add_transaction(
        self,
        number: int,
        events: Sequence[tuple[int, bytes]],
        *,
        server: str | None = SERVER_UUID,
        tag: str = "",
        commit_timestamp_us: int = 1_700_000_000_000_000,
    ) -> int:
        """Add MySQL's GTID, BEGIN, `events` and XID, and return the offset of the first."""
        inner = [(int(EventType.QUERY), query("BEGIN")), *events, (int(EventType.XID), xid(number))]
        overhead = HEADER_SIZE + (4 if self.checksum else 0)
        size = sum(overhead + len(body) for _, body in inner)
        code, head = EventType.GTID, b""
        for _ in range(3):  # the length counts the event that holds it
            length = size + overhead + len(head)
            if tag:
                code = EventType.GTID_TAGGED
                head = gtid_tagged(
                    number,
                    tag,
                    server=server or SERVER_UUID,
                    transaction_length=length,
                    commit_timestamp_us=commit_timestamp_us,
                )
            else:
                code = EventType.ANONYMOUS_GTID if server is None else EventType.GTID
                head = gtid(
                    number if server else 0,
                    server=server,
                    transaction_length=length,
                    commit_timestamp_us=commit_timestamp_us,
                )
        offset = self.add(code, head)
        for type_code, body in inner:
            self.add(type_code, body)
        return offset

    def add_mariadb_transaction(
        self, sequence: int, events: Sequence[tuple[int, bytes]], *, domain: int = 0
    ) -> int:
        """Add MariaDB's GTID, `events` and XID, and return the offset of the first."""
        offset = self.add(EventType.MARIADB_GTID, mariadb_gtid(sequence, domain=domain))
        for type_code, body in events:
            self.add(type_code, body)
        self.add(EventType.XID, xid(sequence))
        return offset

    def __bytes__(self) -> bytes:
        """Return the file."""
        return bytes(self.data)

    def _append(
        self,
        type_code: int,
        body: bytes,
        *,
        checksum: bool,
        flags: int,
        server_id: int | None = None,
        timestamp: int | None = None,
        log_pos: int | None = None,
    ) -> int:
        offset = len(self.data)
        end = offset + HEADER_SIZE + len(body) + (4 if checksum else 0)
        self.data += event(
            type_code,
            body,
            checksum=checksum,
            timestamp=self.timestamp if timestamp is None else timestamp,
            server_id=self.server_id if server_id is None else server_id,
            log_pos=end & 0xFFFFFFFF if log_pos is None else log_pos,
            flags=flags,
        )
        self.offsets.append(offset)
        return offset
