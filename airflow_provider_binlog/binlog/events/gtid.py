"""GTID events of both families: the name of a transaction, and the GTIDs that a file begins with.

Source: mysql-server, libs/mysql/binlog/event/control_events.{h,cpp}, Gtid_event, and
libs/mysql/serialization for GTID_TAGGED; mariadb, sql/log_event.h and sql/log_event.cc,
Gtid_log_event, Gtid_list_log_event.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.gtid_set import decode_tag
from airflow_provider_binlog.binlog.header import EventType, event_name
from airflow_provider_binlog.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.control import FormatDescription

MAY_HAVE_STATEMENTS = 0x01
"""Flag: the transaction may hold statements. Without it, it holds row changes only."""

_LOGICAL_CLOCK = 2
# Bit 55 of the immediate commit timestamp says that the original one follows.
_TIMESTAMP_FOLLOWS = 1 << 55


@dataclass(frozen=True, slots=True)
class GtidEvent:
    """GTID, GTID_TAGGED and ANONYMOUS_GTID: a transaction begins.

    Attributes:
        uuid: The server that named it, in text; None if it has no name (`gtid_mode=OFF`).
        tag: Empty for most; otherwise 1 to 32 of `a-z0-9_`.
        number: Counts from 1; 0 if it has no name.
        flags: See `MAY_HAVE_STATEMENTS`.
        commit_timestamp_us: When it was committed on this server, microseconds since 1970 in UTC;
            None from servers before MySQL 8.0.
        original_timestamp_us: When it was committed where it originated.
        transaction_length: Bytes from the start of this event to the end of the transaction,
            checksums included; None from servers before MySQL 8.0.
        last_committed, sequence_number: For parallel replicas; they start again in every file.
    """

    uuid: str | None
    tag: str
    number: int
    flags: int
    commit_timestamp_us: int | None
    original_timestamp_us: int | None
    transaction_length: int | None
    last_committed: int
    sequence_number: int

    @property
    def text(self) -> str | None:
        """`uuid:number` or `uuid:tag:number`; None if the transaction has no name."""
        if self.uuid is None:
            return None
        return ":".join(filter(None, (self.uuid, self.tag, str(self.number))))

    @classmethod
    def parse(
        cls,
        type_code: int,
        body: bytes | memoryview,
        file_format: FormatDescription,  # noqa: ARG003
    ) -> GtidEvent:
        """Read the body of one of the three.

        Their post-header is older than their fields: the FORMAT_DESCRIPTION is not needed.

        Raises:
            FormatError: The type is none of the three, or a field is out of its range.
            UnsupportedError: A GTID_TAGGED has an unknown field that must not be skipped.
        """
        if type_code == EventType.GTID_TAGGED:
            return cls._parse_tagged(body)
        if type_code not in (EventType.GTID, EventType.ANONYMOUS_GTID):
            raise FormatError("not a GTID event", event=event_name(type_code))
        buffer = Buffer(body)
        flags = buffer.uint(1)
        server = uuid.UUID(bytes=bytes(buffer.take(16)))
        number = buffer.sint(8)
        last_committed = sequence_number = 0
        committed = original = length = None
        if buffer.remaining and buffer.uint(1) == _LOGICAL_CLOCK:
            last_committed, sequence_number = buffer.sint(8), buffer.sint(8)
            if buffer.remaining:
                committed = original = buffer.uint(7)
                if committed & _TIMESTAMP_FOLLOWS:
                    committed ^= _TIMESTAMP_FOLLOWS
                    original = buffer.uint(7)
            if buffer.remaining:
                length = buffer.lenenc()
        anonymous = type_code == EventType.ANONYMOUS_GTID
        if not anonymous and number < 1:
            raise FormatError("a transaction number below 1", number=number)
        return cls(
            None if anonymous else str(server),
            "",
            0 if anonymous else number,
            flags,
            committed,
            original,
            length,
            last_committed,
            sequence_number,
        )

    @classmethod
    def _parse_tagged(cls, body: bytes | memoryview) -> GtidEvent:
        """Read a message that describes itself: `version | size | last needed field | fields`.

        Every number is a varlen; a field is its id, then its value, in the order of the ids. A
        value does not say its size, so nothing can be read after an unknown field.
        """
        buffer = Buffer(body)
        version = buffer.varlen_uint()
        size = buffer.varlen_uint()
        if version != 1 or size != len(body):
            raise FormatError(
                "not a GTID_TAGGED message", version=version, size=size, body=len(body)
            )
        # One more than the id of the last field that must not be skipped; 0 for none.
        needed = buffer.varlen_uint()
        if needed > _LAST_TAGGED_FIELD + 1:
            raise UnsupportedError(
                "a GTID event of a newer server: upgrade this package", needed_field=needed - 1
            )
        fields: dict[str, Any] = {}
        while buffer.remaining:
            entry = _TAGGED_FIELDS.get(buffer.varlen_uint())
            if entry is None:
                break
            name, read = entry
            fields[name] = read(buffer)
        number, committed = fields.get("number", 0), fields.get("committed")
        if "uuid" not in fields or number < 1:
            raise FormatError("a GTID without server or number", number=number)
        return cls(
            fields["uuid"],
            fields.get("tag", ""),
            number,
            fields.get("flags", 0),
            committed,
            fields.get("original", committed),
            fields.get("length"),
            fields.get("last_committed", 0),
            fields.get("sequence_number", 0),
        )


def _tagged_uuid(buffer: Buffer) -> str:
    """Read 16 varlens, one per byte."""
    octets = [buffer.varlen_uint() for _ in range(16)]
    if max(octets) > 0xFF:
        raise FormatError("not a UUID", octets=octets)
    return str(uuid.UUID(bytes=bytes(octets)))


def _tag(buffer: Buffer) -> str:
    return decode_tag(buffer.take(buffer.varlen_uint()))


_TAGGED_FIELDS: dict[int, tuple[str, Callable[[Buffer], Any]]] = {
    0: ("flags", Buffer.varlen_uint),
    1: ("uuid", _tagged_uuid),
    2: ("number", Buffer.varlen_sint),
    3: ("tag", _tag),
    4: ("last_committed", Buffer.varlen_sint),
    5: ("sequence_number", Buffer.varlen_sint),
    6: ("committed", Buffer.varlen_uint),
    7: ("original", Buffer.varlen_uint),
    8: ("length", Buffer.varlen_uint),
    9: ("server_version", Buffer.varlen_uint),
    10: ("original_server_version", Buffer.varlen_uint),
    11: ("commit_group_ticket", Buffer.varlen_uint),
}
_LAST_TAGGED_FIELD = max(_TAGGED_FIELDS)

# GTID, flags.
STANDALONE = 0x01
"""One statement follows and ends the group by itself."""
GROUP_COMMIT_ID = 0x02
TRANSACTIONAL = 0x04
DDL = 0x20
PREPARED_XA = 0x40
"""The group ends prepared."""
COMPLETED_XA = 0x80
"""The group is the XA COMMIT or XA ROLLBACK of one that was prepared."""

# GTID, extra flags.
_MULTI_ENGINE = 0x01
START_ALTER = 0x02
"""The first phase of an ALTER TABLE in two phases: nothing has changed yet."""
COMMIT_ALTER = 0x04
ROLLBACK_ALTER = 0x08
"""The second phase: the ALTER TABLE failed."""
_THREAD_ID = 0x10

_GTID_LIST_COUNT = (1 << 28) - 1
_UNTIL_REACHED = 1 << 28


@dataclass(frozen=True, slots=True)
class MariadbGtid:
    """GTID of MariaDB: a group begins, and no BEGIN follows.

        | 8 sequence | 4 domain | 1 flags | 8 commit id, if flagged |
        | 4 format | 1 size of gtrid | 1 size of bqual | both, if flagged | 1 extra flags ... |

    Zeros follow, up to 19 bytes or to a whole page.

    Attributes:
        domain, server_id, sequence: The name; the server's id is the one in the header.
        flags: See the constants above.
        flags_extra: 0 where there is none.
        commit_id: Groups that were committed together share it.
        xid: Name of the XA transaction, as `XA COMMIT` writes it.
        alter_sequence: Sequence number of the group with the first phase of this ALTER TABLE.
        thread_id: The session's connection id, from MariaDB 11.5 on.
    """

    domain: int
    server_id: int
    sequence: int
    flags: int
    flags_extra: int = 0
    commit_id: int | None = None
    xid: str | None = None
    alter_sequence: int | None = None
    thread_id: int | None = None

    @property
    def text(self) -> str:
        """`domain-server-sequence`."""
        return f"{self.domain}-{self.server_id}-{self.sequence}"

    @property
    def standalone(self) -> bool:
        """Whether one statement ends the group by itself."""
        return bool(self.flags & STANDALONE)

    @property
    def alters_nothing(self) -> bool:
        """Whether it logs the first phase of an ALTER TABLE, or a second phase that failed.

        Both phases log the statement; the table changes in the second.
        """
        return bool(self.flags_extra & (START_ALTER | ROLLBACK_ALTER))

    @classmethod
    def parse(
        cls,
        body: bytes | memoryview,
        file_format: FormatDescription,  # noqa: ARG003  (its post-header is not needed)
        *,
        server_id: int,
    ) -> MariadbGtid:
        """Read the event's body; `server_id` is the header's."""
        buffer = Buffer(body)
        sequence, domain, flags = buffer.uint(8), buffer.uint(4), buffer.uint(1)
        commit_id = buffer.uint(8) if flags & GROUP_COMMIT_ID else None
        xid = _xid(buffer) if flags & (PREPARED_XA | COMPLETED_XA) else None
        # The zeros after a shorter event read as no extra flags.
        extra = buffer.uint(1) if buffer.remaining else 0
        if extra & _MULTI_ENGINE:
            buffer.take(1)
        alter = buffer.uint(8) if extra & (COMMIT_ALTER | ROLLBACK_ALTER) else None
        thread_id = buffer.uint(4) if extra & _THREAD_ID else None
        return cls(domain, server_id, sequence, flags, extra, commit_id, xid, alter, thread_id)


def _xid(buffer: Buffer) -> str:
    format_id, gtrid_size, bqual_size = buffer.sint(4), buffer.uint(1), buffer.uint(1)
    gtrid, bqual = bytes(buffer.take(gtrid_size)), bytes(buffer.take(bqual_size))
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"


@dataclass(frozen=True, slots=True)
class MariadbGtidList:
    """GTID_LIST: the last GTID of every domain when the file began.

        | 4 count and flags | count times: 4 domain, 4 server id, 8 sequence |

    Attributes:
        gtids: (domain, server id, sequence); the last one of a domain is its newest.
        until_reached: The server sends no more: the requested end is reached.
    """

    gtids: tuple[tuple[int, int, int], ...]
    until_reached: bool

    @classmethod
    def parse(cls, body: bytes | memoryview, file_format: FormatDescription) -> MariadbGtidList:
        """Read the event's body.

        Raises:
            FormatError: The event is not as long as its count says.
        """
        fixed, rest = file_format.split(EventType.MARIADB_GTID_LIST, body)
        value = fixed.uint(4)
        count = value & _GTID_LIST_COUNT
        # An empty list is padded, as no event may be shorter than 6 bytes of body.
        if rest.remaining < 16 * count:
            raise FormatError("a GTID list shorter than its count", count=count)
        gtids = tuple((rest.uint(4), rest.uint(4), rest.uint(8)) for _ in range(count))
        return cls(gtids, bool(value & _UNTIL_REACHED))
