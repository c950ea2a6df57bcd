"""MySQL's GTID events: a transaction's name, and what is known of it before it is read.

Source: mysql-server, libs/mysql/binlog/event/control_events.{h,cpp}, Gtid_event, and
libs/mysql/serialization for GTID_TAGGED.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.event_types import EventType, event_name
from airflow_provider_binlog.binlog.gtid_set import decode_tag
from airflow_provider_binlog.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.format_description import FormatDescription

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
            known = _TAGGED_FIELDS.get(buffer.varlen_uint())
            if known is None:
                break
            name, read = known
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
