"""The end of the log in a set of files: after its last whole transaction.

A file that its server still writes to, copied at any moment, ends anywhere: inside a transaction,
inside an event. What is whole of it is read; the rest comes with the next copy. A file that
is closed names the next one, and then the log ends at the start of that file, whether or not it
is there already.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.events.control import Rotate
from airflow_provider_binlog.binlog.header import (
    ARTIFICIAL,
    COMPRESSED,
    ROWS,
    EventHeader,
    EventType,
)
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.blocks.block import IS_GROUP_START
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.transport.files.reader import FileBlockStream

_QUERIES = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED})
# They neither begin nor end a transaction.
_INSIDE = (ROWS | COMPRESSED | {EventType.TABLE_MAP}) - _QUERIES - {EventType.TRANSACTION_PAYLOAD}


def find_log_end(source: FileBlockStream) -> Position:
    """Return where the log of some files ends; reads the last one of them.

    Raises:
        FormatError: That file is no binlog, or an event in it is damaged; that it is cut is no
            error.
        UnsupportedError: It is encrypted.
    """
    end = _End(source.last_position)
    with suppress(TruncatedError):
        for block in source.blocks(source.last_position):
            end.read(block)
    return end.position


class _End:
    """Follows a file to the end of its last whole transaction."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self._scanner = TransactionScanner()

    def read(self, block: EventBlock) -> None:
        """Move after the transactions that end in the next block of the file."""
        begins = np.flatnonzero(IS_GROUP_START[block.type])
        first = 0
        if len(begins):
            # What precedes a transaction is whole, or was abandoned by the server.
            first = int(begins[-1])
            self._move_to(block, first)
            self._scanner = TransactionScanner()
        for event in range(first, len(block)):
            if int(block.type[event]) not in _INSIDE:
                self._follow(block, event)

    def _follow(self, block: EventBlock, event: int) -> None:
        code = int(block.type[event])
        if code == EventType.TRANSACTION_PAYLOAD:
            self._scanner = TransactionScanner()  # it is the whole rest of its transaction
        else:
            (plain,) = Expander().expand(block.part(event, event + 1))
            try:
                header = EventHeader.parse(plain.event(0))
                self._scanner.feed(header, plain.body(0), plain.format)
            except BinlogError:
                # Readers of the log up to here get the error.
                self._scanner = TransactionScanner()
        if self._scanner.at_boundary:
            self._move_to(block, event + 1)
        if not int(block.flags[event]) & ARTIFICIAL:
            self._close(block, event)

    def _move_to(self, block: EventBlock, event: int) -> None:
        offset = int(block.offset[event]) if event < len(block) else block.next_offset
        self.position = Position(block.file, offset, file_created=block.format.created)

    def _close(self, block: EventBlock, event: int) -> None:
        """Continue in the file that the server opened, or will open, after this event."""
        code = int(block.type[event])
        try:
            log, number = split_file_name(block.file)
            if code == EventType.ROTATE:
                following = Rotate.parse(block.body(event), block.format).file
                # A relay log also holds those of the log that it was copied from.
                if split_file_name(following) == (log, number + 1):
                    self.position = Position(following, FIRST_OFFSET)
            elif code == EventType.STOP and event == len(block) - 1:
                digits = len(block.file) - len(log) - 1
                self.position = Position(f"{log}.{number + 1:0{digits}}", FIRST_OFFSET)
        except FormatError:
            return  # a file by a name of its own: nothing follows
