"""MariaDB's own events: GTID, the list of GTIDs a file begins with, its checkpoint.

Source: mariadb, sql/log_event.h and sql/log_event.cc: Gtid_log_event, Gtid_list_log_event,
Binlog_checkpoint_log_event.
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
