"""What stands before the row images of WRITE_ROWS, (PARTIAL_)UPDATE_ROWS and DELETE_ROWS.

    | 6 table id | 2 flags | version 2: 2 size + extra data, the size's own bytes counted |
    | lenenc n columns | (n + 7) / 8 bytes: which are present |
    | updates: the same for the after-images | row images to the end |

Source: mysql-server, libs/mysql/binlog/event/rows_event.h, Rows_event;
mariadb, sql/log_event.cc, Rows_log_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.header import ROWS, EventType, event_name
from airflow_provider_binlog.errors import FormatError

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.control import FormatDescription

STATEMENT_END = 0x0001
"""Flag: the last rows event of its statement; the table maps before it end here."""

ROWS_V1 = frozenset({EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1})
"""Rows events with the header of version 1."""

ROWS_V2 = ROWS - ROWS_V1
"""Rows events with the header of version 2, which may carry extra data."""

_UPDATES = frozenset(
    {EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS, EventType.PARTIAL_UPDATE_ROWS}
)
# Of events without rows, whose only use is to end a statement.
# Source: mysql-server, sql/log_event.cc, Rows_log_event (dummy event); mariadb the same.
_DUMMY_TABLE_IDS = frozenset({0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF})


@dataclass(frozen=True, slots=True)
class RowsHeader:
    """A rows event up to its first row image.

    Attributes:
        table_id: As in the TABLE_MAP before it.
        flags: See `STATEMENT_END`.
        extra: Extra data of version 2, as it stands.
        width: Columns of the table.
        present: Bit i is set if column i is in the (before-)images; bits above `width` are 0.
        present_after: The same of the after-images of an update; else equal to `present`.
        images_offset: Where the first row image begins in the body.
    """

    table_id: int
    flags: int
    extra: bytes
    width: int
    present: int
    present_after: int
    images_offset: int

    @property
    def ends_statement(self) -> bool:
        """Whether the table maps before it end with this event."""
        return bool(self.flags & STATEMENT_END)

    @property
    def is_dummy(self) -> bool:
        """Whether the event holds no rows and only ends its statement."""
        return self.table_id in _DUMMY_TABLE_IDS and self.ends_statement

    @property
    def full(self) -> bool:
        """Whether all images hold all columns."""
        return self.present == self.present_after == (1 << self.width) - 1

    @classmethod
    def parse(
        cls, type_code: int, body: bytes | memoryview, file_format: FormatDescription
    ) -> RowsHeader:
        """Read the body of a rows event of this type.

        Raises:
            FormatError: The type is no rows event that is decoded, or a size is wrong.
        """
        if type_code not in ROWS:
            raise FormatError("not a rows event", event=event_name(type_code))
        fixed, buffer = file_format.split(type_code, body)
        table_id = fixed.uint(6)
        flags = fixed.uint(2)
        extra = b""
        if type_code in ROWS_V2:
            size = fixed.uint(2)
            if size < 2:
                raise FormatError("extra data smaller than its own size", size=size)
            extra = bytes(buffer.take(size - 2))
        width = buffer.lenenc()
        octets = (width + 7) // 8
        # MySQL sets the bits above the last column: masked here, once.
        mask = (1 << min(width, 8 * len(body))) - 1
        present = int.from_bytes(buffer.take(octets), "little") & mask
        present_after = present
        if type_code in _UPDATES:
            present_after = int.from_bytes(buffer.take(octets), "little") & mask
        offset = len(body) - buffer.remaining
        return cls(table_id, flags, extra, width, present, present_after, offset)
