"""Transactions that can be read by the column: most of a log, which look alike.

A GTID, BEGIN, TABLE_MAPs and rows events, an XID: those that lie whole in a block are recognised by
comparing type codes, and what must stand at fixed offsets.

Source: as binlog/transactions.py and binlog/events/gtid.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.mariadb import COMPLETED_XA, PREPARED_XA, STANDALONE
from airflow_provider_binlog.binlog.transaction_states import STEPS, Step
from airflow_provider_binlog.blocks.type_masks import type_mask
from airflow_provider_binlog.blocks.unaligned import unaligned_view

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock

# GTIDs of a fixed layout, which are read by the column.
IS_PLAIN_START = type_mask((EventType.GTID, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID))
IS_CHANGE = type_mask(code for code, step in STEPS.items() if step is Step.CHANGE)
# What may be in a transaction that is read by the column: of it, nothing changes the state.
IS_INNER = IS_CHANGE | type_mask((EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS))

# GTID, offsets from the event's start: | 19 header | 1 flags | 16 uuid | 8 number | 1 clock type |
# | 16 clock | 7 commit timestamp |
UUID, NUMBER, _CLOCK_TYPE, COMMITTED = 20, 36, 44, 61
_COMMITTED_END = COMMITTED + 7
_LOGICAL_CLOCK = 2

# MariaDB's: | 19 header | 8 sequence | 4 domain | 1 flags |
SEQUENCE, DOMAIN, _FLAGS = 19, 27, 31
_MARIADB_END = 32

# QUERY: | 19 header | 4 thread | 4 seconds | 1 size of database | 2 error | 2 size of status | ...
_DATABASE_SIZE, _STATUS_SIZE, _STATUS = 27, 30, 32
_BEGIN = int.from_bytes(b"BEGIN", "little")
_BEGIN_MASK = np.uint64((1 << 40) - 1)


def find_plain_transactions(
    block: EventBlock,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the transactions begin and end that can be read by the column."""
    kind = block.type
    begin = np.flatnonzero(IS_PLAIN_START[kind])
    if not len(begin):
        return begin, begin
    end = np.append(begin[1:], len(block))
    first_inner = begin + 1
    mariadb = kind[begin] == EventType.MARIADB_GTID
    plain = kind[end - 1] == EventType.XID
    if mariadb.any():
        plain &= ~mariadb | _opens_transaction(block, begin)
    if not mariadb.all():
        plain &= mariadb | (_is_complete(block, begin) & _is_begin(block, begin, end))
        first_inner = np.where(mariadb, first_inner, first_inner + 1)
    # Nothing but changes between.
    inner = np.concatenate([[0], np.cumsum(IS_INNER[kind])])
    plain &= first_inner <= end - 1
    inner_count = inner[end - 1] - inner[np.minimum(first_inner, end - 1)]
    plain &= inner_count == end - 1 - first_inner
    return begin[plain], end[plain]


def _opens_transaction(block: EventBlock, begin: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each of MariaDB's GTIDs begins a transaction of its own, no statement, no XA."""
    long_enough: npt.NDArray[np.bool_] = (
        block.size[begin] >= _MARIADB_END + block.format.checksum_size
    )
    flags = block.data[block.start[begin] + _FLAGS]
    opens: npt.NDArray[np.bool_] = flags & (STANDALONE | PREPARED_XA | COMPLETED_XA) == 0
    return long_enough & opens


def _is_complete(block: EventBlock, begin: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each GTID has a commit timestamp, which MySQL writes since 8.0, and a number."""
    complete: npt.NDArray[np.bool_] = (
        block.size[begin] >= _COMMITTED_END + block.format.checksum_size
    )
    at = block.start[begin]
    complete &= block.data[at + _CLOCK_TYPE] == _LOGICAL_CLOCK
    number = unaligned_view(block.data, "<i8")[at + NUMBER]
    complete &= (number > 0) | (block.type[begin] != EventType.GTID)
    return complete


def _is_begin(
    block: EventBlock, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether the event after each GTID is QUERY with the text BEGIN."""
    query = np.minimum(begin + 1, end - 1)
    at = block.start[query]
    text_end = at + block.size[query] - block.format.checksum_size
    database_size = block.data[at + _DATABASE_SIZE].astype(np.int64)
    status_size = unaligned_view(block.data, "<u2")[at + _STATUS_SIZE].astype(np.int64)
    text = at + _STATUS + status_size + database_size + 1
    last_five = unaligned_view(block.data, "<u8")[np.maximum(text_end - 5, 0)] & _BEGIN_MASK
    begins: npt.NDArray[np.bool_] = (last_five == _BEGIN) & (text_end - text == 5)
    begins &= block.type[query] == EventType.QUERY
    return begins
