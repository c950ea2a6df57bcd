"""The transactions of a block: which events belong to which, their names and commit times.

Transactions of GTID, BEGIN, TABLE_MAPs, rows events and XID that lie whole in a block are read by
the column. All other events are fed to `TransactionScanner`, one after another.

Source: as binlog/transactions.py and binlog/events/gtid.py.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.gtid import COMPLETED_XA, PREPARED_XA, STANDALONE, Gtid
from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.header import EventHeader, EventType
from airflow_provider_binlog.binlog.transactions import CHANGES, Scanned, TransactionScanner
from airflow_provider_binlog.blocks.arrays import unaligned_view
from airflow_provider_binlog.blocks.block import IS_GROUP_START, EventBlock, type_mask
from airflow_provider_binlog.errors import BinlogError, Refuse, UnsupportedError, raise_error

# GTIDs of a fixed layout, which are read by the column.
IS_PLAIN_START = type_mask((EventType.GTID, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID))
IS_CHANGE = type_mask(CHANGES)
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


NO_NAME = -1
"""In place of a prefix: the transaction has no GTID (`gtid_mode=OFF`)."""

_TIMESTAMP_MASK = np.uint64((1 << 55) - 1)
_SEQUENCE_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Transactions:
    """The transactions that a block has a part of, in the order of the log.

    The first entry is the transaction that was open when the block began, whether or not there was
    one; entry `k` begins with event `start[k]`. Events between two transactions count to the one
    before.

    Attributes:
        of_event: The transaction of each event.
        start: Index of each transaction's first event; -1 for the first entry.
        prefix: Start of each GTID, an index into the reader's `prefixes`, or `NO_NAME`.
        number: The number each GTID ends with.
        commit_ts: Microseconds since 1970.
        scanned: Results of `TransactionScanner` that are not empty, by event.
        ends_open: Whether the last transaction continues after the block.
    """

    of_event: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    prefix: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    commit_ts: npt.NDArray[np.int64]
    scanned: dict[int, Scanned]
    ends_open: bool


_Columns: TypeAlias = npt.NDArray[np.int64]


def _columns(start: Any, prefix: Any, number: Any, commit_ts: Any) -> _Columns:
    """Return columns of some transactions: int64, of shape (4, transaction_count)."""
    columns = [np.atleast_1d(values) for values in (start, prefix, number, commit_ts)]
    return np.array(columns, dtype=np.int64)


def _in_order(columns: list[_Columns]) -> _Columns:
    """Join columns in the order of the log."""
    joined = np.concatenate(columns, axis=1)
    return joined[:, np.argsort(joined[0])]


class TransactionReader:
    """Follows the transactions of a log, block after block, from a transaction boundary on.

    Args:
        refuse: Takes the error of an event that is refused. Where it returns, reading continues
            with the next transaction.
        skips: As of `TransactionScanner`.

    Attributes:
        prefixes: Of the GTIDs, see `Gtid`.
    """

    def __init__(
        self,
        *,
        refuse: Refuse = raise_error,
        skips: Callable[[Query], bool] = lambda _: False,
    ) -> None:
        self._refuse = refuse
        # After a refused event, until the next transaction begins.
        self._lost = False
        self.prefixes: list[str] = []
        self._prefix_index: dict[str, int] = {}
        self._scanner = TransactionScanner(skips)
        # Of the transaction that is open: prefix, number, commit timestamp.
        self._last = (NO_NAME, 0, 0)

    @property
    def at_boundary(self) -> bool:
        """Whether everything read so far ends with the end of a transaction."""
        return self._scanner.at_boundary

    @property
    def skipped(self) -> Counter[str]:
        """Number of events that were skipped as their flag allows, by type name."""
        return self._scanner.skipped

    def skip_to_next_transaction(self) -> None:
        """Continue at the next transaction that begins: events before it may be missing."""
        self._scanner.reset()
        self._lost = True

    def read(self, block: EventBlock) -> Transactions:
        """Return the transactions of the next block.

        Raises:
            UnsupportedError: An event carries row changes, or may, and is not decoded.
            FormatError: An event cannot follow the one before.
        """
        columns = [_columns(-1, *self._last)]
        scanned: dict[int, Scanned] = {}
        begin, end = find_plain_transactions(block)
        self._read_columns(block, begin, columns)
        at = 0
        for first, last in zip(*_joined(begin, end), strict=True):
            self._scan(block, at, first, columns, scanned)
            if not self._scanner.at_boundary:
                self._feed(block, first, columns, scanned)  # refused: it begins inside another
            self._lost = False
            at = last
        self._scan(block, at, len(block), columns, scanned)

        start, prefix, number, commit_ts = _in_order(columns)
        self._last = (int(prefix[-1]), int(number[-1]), int(commit_ts[-1]))
        return Transactions(
            of_event=np.cumsum(np.bincount(start[1:], minlength=len(block))),
            start=start,
            prefix=prefix,
            number=number,
            commit_ts=commit_ts,
            scanned=scanned,
            ends_open=self._lost or not self._scanner.at_boundary,
        )

    def read_names(self, block: EventBlock) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return prefix and number of the transactions that begin in a block: of GTIDs alone."""
        columns = [np.empty((4, 0), dtype=np.int64)]
        self._read_columns(block, np.flatnonzero(IS_PLAIN_START[block.type]), columns)
        for event in np.flatnonzero(block.type == EventType.GTID_TAGGED).tolist():
            header = EventHeader.parse(block.event(event))
            gtid = Gtid.parse(header, block.body(event))
            columns.append(_columns(event, *self._name(gtid, header)))
        _, prefix, number, _ = _in_order(columns)
        return prefix, number

    def _read_columns(
        self, block: EventBlock, begin: npt.NDArray[np.int64], columns: list[_Columns]
    ) -> None:
        mariadb = block.type[begin] == EventType.MARIADB_GTID
        for family, read in ((mariadb, self._read_mariadb), (~mariadb, self._read_mysql)):
            chosen = begin[family]
            if len(chosen):
                columns.append(_columns(chosen, *read(block, chosen)))

    def _read_mysql(self, block: EventBlock, begin: npt.NDArray[np.int64]) -> tuple[object, ...]:
        at = block.start[begin]
        named = block.type[begin] == EventType.GTID
        number = np.where(named, unaligned_view(block.data, "<i8")[at + NUMBER], 0)
        committed = unaligned_view(block.data, "<u8")[at + COMMITTED] & _TIMESTAMP_MASK
        servers = unaligned_view(block.data, "V16")[at + UUID]
        prefix = self._index(servers, lambda value: f"{uuid.UUID(bytes=value.tobytes())}:")
        return np.where(named, prefix, NO_NAME), number, committed.astype(np.int64)

    def _read_mariadb(self, block: EventBlock, begin: npt.NDArray[np.int64]) -> tuple[object, ...]:
        at = block.start[begin]
        number = unaligned_view(block.data, "<i8")[at + SEQUENCE]
        if (number < 0).any():
            _refuse_sequence(block, int(begin[np.flatnonzero(number < 0)[0]]))
        domain = unaligned_view(block.data, "<u4")[at + DOMAIN].astype(np.uint64)
        names = domain << np.uint64(32) | block.server_id[begin]
        prefix = self._index(names, lambda value: f"{int(value) >> 32}-{int(value) & 0xFFFFFFFF}-")
        return prefix, number, block.timestamp[begin].astype(np.int64) * 1_000_000

    def _index(
        self, values: npt.NDArray[Any], text_of: Callable[[Any], str]
    ) -> npt.NDArray[np.int64]:
        """Return the index of each value's prefix: a log has few, and runs of the same."""
        result = np.empty(len(values), dtype=np.int64)
        left = np.arange(len(values))
        while len(left):
            first = values[left[0]]
            same = values[left] == first
            result[left[same]] = self._prefix(text_of(first))
            left = left[~same]
        return result

    def _prefix(self, text: str) -> int:
        index = self._prefix_index.get(text)
        if index is None:
            index = self._prefix_index[text] = len(self.prefixes)
            self.prefixes.append(text)
        return index

    def _scan(
        self,
        block: EventBlock,
        first: int,
        last: int,
        columns: list[_Columns],
        scanned: dict[int, Scanned],
    ) -> None:
        """Feed the events from `first` up to `last` to the plain scanner."""
        if first == last:
            return
        kind = block.type[first:last]
        others = np.flatnonzero(~IS_INNER[kind]).tolist()
        changes = np.flatnonzero(IS_CHANGE[kind])
        at = 0
        for other in [*others, last - first]:
            # Several changes in sequence do to the state what the first does.
            next_change = int(np.searchsorted(changes, at))
            if next_change < len(changes) and changes[next_change] < other:
                self._feed(block, first + int(changes[next_change]), columns, scanned)
            if other < last - first:
                self._feed(block, first + other, columns, scanned)
            at = other + 1

    def _feed(
        self, block: EventBlock, index: int, columns: list[_Columns], scanned: dict[int, Scanned]
    ) -> None:
        header = EventHeader.parse(block.event(index))
        if self._lost and not IS_GROUP_START[header.type]:
            return
        self._lost = False
        try:
            seen = self._scanner.feed(header, block.body(index), block.format)
        except BinlogError as error:
            error.context.pop("log_pos", None)
            error.context |= {"file": block.file, "offset": int(block.offset[index])}
            self._refuse(error)
            self.skip_to_next_transaction()
            return
        if seen.gtid is not None:
            if seen.gtid.number > _SEQUENCE_MAX:
                _refuse_sequence(block, index)
            columns.append(_columns(index, *self._name(seen.gtid, header)))
        if seen.end is not None or seen.query is not None or seen.gtid is not None:
            scanned[index] = seen

    def _name(self, gtid: Gtid, header: EventHeader) -> tuple[int, int, int]:
        timestamp = gtid.commit_timestamp_us
        if timestamp is None:
            timestamp = header.timestamp * 1_000_000
        prefix = NO_NAME if gtid.prefix is None else self._prefix(gtid.prefix)
        return prefix, gtid.number, timestamp


def _refuse_sequence(block: EventBlock, event: int) -> NoReturn:
    raise UnsupportedError(
        "a GTID's sequence number of 2**63 or more: a session set gtid_seq_no so",
        file=block.file,
        offset=int(block.offset[event]),
    )


def _joined(
    begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> tuple[list[int], list[int]]:
    """Join ranges that touch."""
    if not len(begin):
        return [], []
    apart = begin[1:] != end[:-1]
    first = np.concatenate([[True], apart])
    last = np.concatenate([apart, [True]])
    return begin[first].tolist(), end[last].tolist()
