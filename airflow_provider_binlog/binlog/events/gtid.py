"""GTID events of both families: the name of a transaction, and the GTIDs that a file begins with.

Source: mysql-server, libs/mysql/binlog/event/control_events.{h,cpp}, Gtid_event, and
libs/mysql/serialization for GTID_TAGGED; mariadb, sql/log_event.h and sql/log_event.cc,
Gtid_log_event, Gtid_list_log_event.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.gtid_set import decode_tag
from airflow_provider_binlog.binlog.header import EventHeader, EventType, event_name
from airflow_provider_binlog.errors import FormatError, UnsupportedError

_LOGICAL_CLOCK = 2
_CLOCK_SIZE = 16
# Bit 55 of the immediate commit timestamp says that the original one follows.
_TIMESTAMP_FOLLOWS = 1 << 55

# GTID of MariaDB, flags.
STANDALONE = 0x01
"""One statement follows and ends the group by itself."""
_GROUP_COMMIT_ID = 0x02
PREPARED_XA = 0x40
"""The group ends prepared."""
COMPLETED_XA = 0x80
"""The group is the XA COMMIT or XA ROLLBACK of one that was prepared."""

# GTID of MariaDB, extra flags.
_MULTI_ENGINE = 0x01
START_ALTER = 0x02
"""The first phase of an ALTER TABLE in two phases: nothing has changed yet."""
COMMIT_ALTER = 0x04
ROLLBACK_ALTER = 0x08
"""The second phase: the ALTER TABLE failed."""

_GTID_LIST_COUNT = (1 << 28) - 1


@dataclass(frozen=True, slots=True)
class Gtid:
    """The event that begins a transaction.

    Attributes:
        prefix: The GTID without its number: `uuid:` or `uuid:tag:`, MariaDB's `domain-server-`;
            None if the transaction has no name (`gtid_mode=OFF`).
        number: Counts from 1; 0 if it has no name.
        commit_timestamp_us: When it was committed on this server, microseconds since 1970 in UTC;
            None from MariaDB, and from servers before MySQL 8.0.
        flags, flags_extra: MariaDB's, see the constants above.
        commit_id: MariaDB's groups that were committed together share it.
        xid: Name of MariaDB's XA transaction, as `XA COMMIT` writes it.
        alter_sequence: Sequence number of the group with the first phase of this ALTER TABLE.
    """

    prefix: str | None
    number: int
    commit_timestamp_us: int | None = None
    flags: int = 0
    flags_extra: int = 0
    commit_id: int | None = None
    xid: str | None = None
    alter_sequence: int | None = None

    @property
    def text(self) -> str | None:
        """The GTID; None if the transaction has no name."""
        return None if self.prefix is None else f"{self.prefix}{self.number}"

    @property
    def standalone(self) -> bool:
        """Whether one statement ends the group of MariaDB by itself."""
        return bool(self.flags & STANDALONE)

    @property
    def starts_xa(self) -> bool:
        """Whether it is the XA START of a transaction of MariaDB as well."""
        return bool(self.flags & PREPARED_XA) and not self.standalone

    @property
    def alters_nothing(self) -> bool:
        """Whether it logs the first phase of an ALTER TABLE, or a second phase that failed.

        Both phases log the statement; the table changes in the second.
        """
        return bool(self.flags_extra & (START_ALTER | ROLLBACK_ALTER))

    @classmethod
    def parse(cls, header: EventHeader, body: bytes | memoryview) -> Gtid:
        """Read the event's body, up to the last field that is used.

        The post-header of MySQL's is older than their fields: no FORMAT_DESCRIPTION is needed.

        Raises:
            FormatError: The event is no GTID, or a field is out of its range.
            UnsupportedError: A GTID_TAGGED has an unknown field that must not be skipped.
        """
        if header.type == EventType.GTID_TAGGED:
            return _parse_tagged(body)
        if header.type == EventType.MARIADB_GTID:
            return _parse_mariadb(Buffer(body), header.server_id)
        if header.type not in (EventType.GTID, EventType.ANONYMOUS_GTID):
            raise FormatError("not a GTID event", event=event_name(header.type))
        buffer = Buffer(body)
        buffer.take(1)
        server = uuid.UUID(bytes=bytes(buffer.take(16)))
        number = buffer.sint(8)
        committed = None
        if buffer.remaining and buffer.uint(1) == _LOGICAL_CLOCK:
            buffer.take(_CLOCK_SIZE)
            if buffer.remaining:
                committed = buffer.uint(7) & ~_TIMESTAMP_FOLLOWS
        if header.type == EventType.ANONYMOUS_GTID:
            return cls(None, 0, committed)
        if number < 1:
            raise FormatError("a transaction number below 1", number=number)
        return cls(f"{server}:", number, committed)


def _parse_tagged(body: bytes | memoryview) -> Gtid:
    """Read a message that describes itself: `version | size | last needed field | fields`.

    Every number is a varlen; a field is its id, then its value, in the order of the ids. A value
    does not say its size, so nothing can be read after an unknown field.
    """
    buffer = Buffer(body)
    version = buffer.varlen_uint()
    size = buffer.varlen_uint()
    if version != 1 or size != len(body):
        raise FormatError("not a GTID_TAGGED message", version=version, size=size, body=len(body))
    # One more than the id of the last field that must not be skipped; 0 for none.
    needed = buffer.varlen_uint()
    if needed > _LAST_TAGGED_FIELD + 1:
        raise UnsupportedError(
            "a GTID event of a newer server: upgrade this package", needed_field=needed - 1
        )
    fields: dict[int, Any] = {}
    while buffer.remaining:
        field = buffer.varlen_uint()
        if field > _LAST_TAGGED_FIELD:
            break
        fields[field] = _TAGGED_FIELDS.get(field, Buffer.varlen_uint)(buffer)
    number, tag = fields.get(_NUMBER, 0), fields.get(_TAG, "")
    if _UUID not in fields or number < 1:
        raise FormatError("a GTID without server or number", number=number)
    prefix = f"{fields[_UUID]}:{tag}:" if tag else f"{fields[_UUID]}:"
    return Gtid(prefix, number, fields.get(_COMMITTED))


def _tagged_uuid(buffer: Buffer) -> str:
    """Read 16 varlens, one per byte."""
    octets = [buffer.varlen_uint() for _ in range(16)]
    if max(octets) > 0xFF:
        raise FormatError("not a UUID", octets=octets)
    return str(uuid.UUID(bytes=bytes(octets)))


_UUID, _NUMBER, _TAG, _COMMITTED, _LAST_TAGGED_FIELD = 1, 2, 3, 6, 11
# The other fields are unsigned, or skipped as if they were.
_TAGGED_FIELDS: dict[int, Callable[[Buffer], Any]] = {
    _UUID: _tagged_uuid,
    _NUMBER: Buffer.varlen_sint,
    _TAG: lambda buffer: decode_tag(buffer.take(buffer.varlen_uint())),
}


def _parse_mariadb(buffer: Buffer, server_id: int) -> Gtid:
    """Read the GTID of MariaDB, after which no BEGIN follows.

        | 8 sequence | 4 domain | 1 flags | 8 commit id, if flagged |
        | 4 format | 1 size of gtrid | 1 size of bqual | both, if flagged | 1 extra flags ... |

    Zeros follow, up to 19 bytes or to a whole page.
    """
    sequence, domain, flags = buffer.uint(8), buffer.uint(4), buffer.uint(1)
    commit_id = buffer.uint(8) if flags & _GROUP_COMMIT_ID else None
    xid = None
    if flags & (PREPARED_XA | COMPLETED_XA):
        format_id, gtrid_size, bqual_size = buffer.sint(4), buffer.uint(1), buffer.uint(1)
        gtrid, bqual = buffer.take(gtrid_size), buffer.take(bqual_size)
        xid = f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"
    # The zeros after a shorter event read as no extra flags.
    extra = buffer.uint(1) if buffer.remaining else 0
    if extra & _MULTI_ENGINE:
        buffer.take(1)
    alter = buffer.uint(8) if extra & (COMMIT_ALTER | ROLLBACK_ALTER) else None
    prefix = f"{domain}-{server_id}-"
    return Gtid(prefix, sequence, None, flags, extra, commit_id, xid, alter)


def read_gtid_list(
    body: bytes | memoryview, file_format: FormatDescription
) -> list[tuple[int, int, int]]:
    """Return (domain, server id, sequence) of MariaDB's GTID_LIST: the last GTIDs before the file.

        | 4 count and flags | count times: 4 domain, 4 server id, 8 sequence |

    The last one of a domain is its newest.

    Raises:
        FormatError: The event is shorter than its count says.
    """
    fixed, rest = file_format.split(EventType.MARIADB_GTID_LIST, body)
    count = fixed.uint(4) & _GTID_LIST_COUNT
    # An empty list is padded, as no event may be shorter than 6 bytes of body.
    if rest.remaining < 16 * count:
        raise FormatError("a GTID list shorter than its count", count=count)
    return [(rest.uint(4), rest.uint(4), rest.uint(8)) for _ in range(count)]
