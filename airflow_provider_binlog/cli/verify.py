"""`rows --verify`: read all of a log as capture does, and say what was seen.

Nothing is printed of the rows, but all of their values are decoded, by the same code as in capture.
What capture would refuse is noted, and reading goes on: behind a refused event with the next
transaction, without a table that is not decoded at all, and behind a damaged file with the next
one. As in capture, the log is read once more where a later event tells how to read an earlier one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from airflow_provider_binlog.binlog.event_types import (
    GROUP_STARTS,
    ROWS,
    EventType,
    event_name,
)
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.binlog.statements import StatementKind
from airflow_provider_binlog.binlog.transactions import Place, TransactionScanner
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.table_maps import TableMapReader
from airflow_provider_binlog.blocks.transactions import TransactionReader, Transactions
from airflow_provider_binlog.capture.capture_range import undecided_reason
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.capture.prepared import PreparedTransactions, refuse_unknown
from airflow_provider_binlog.capture.rollbacks import RollbackReader, Undone
from airflow_provider_binlog.capture.statements import StatementReader
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.cli.refusals import Refusals
from airflow_provider_binlog.cli.row_check import RowCheck
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.schema_history.schemas import Past

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.cli.source import Log, Range
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema_history.schemas import CatalogReader

Pasts: TypeAlias = "tuple[Past, Past]"

_IS_START = np.zeros(256, dtype=bool)
_IS_START[[int(each) for each in GROUP_STARTS]] = True
# They say nothing of where transactions begin and end.
_IS_INNER = np.zeros(256, dtype=bool)
_IS_INNER[[int(each) for each in ROWS]] = True
_IS_INNER[[EventType.TABLE_MAP, EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS]] = True


def verify(chosen: Range, tables: Sequence[str] | None) -> None:
    """Read a range, and print what it holds.

    Raises:
        UnsupportedError: Something in it would be refused.
    """
    server, captured = chosen.log.server, TableFilter(tuple(tables or ("*.*",)))
    if server is not None and chosen.stop is None:
        chosen = replace(chosen, stop=server.end())
    read_catalog = None if server is None else server.read_catalog
    past = _past(chosen, captured, read_catalog), _past(chosen, captured, None)
    undone = Undone()
    while True:
        verifier = Verifier(chosen.log, captured, past, undone)
        _read(chosen, verifier)
        statements = verifier.rows.statements_needed()
        if statements is not None:
            past[0].changes = statements
        elif not verifier.rollbacks.late:
            break
    for line in verifier.report():
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if verifier.refusals.count:
        raise UnsupportedError(
            "capture would refuse this log, for what is listed as refused",
            refused=verifier.refusals.count,
        )


def _past(chosen: Range, captured: TableFilter, read_catalog: CatalogReader | None) -> Past:
    return Past(
        chosen.log,
        chosen.stop or chosen.start,
        captured=captured.matches,
        read_catalog=read_catalog,
        former=None,
    )


def _read(chosen: Range, verifier: Verifier) -> None:
    """Read a range, behind a file that cannot be read the next one."""
    start: Position | None = chosen.start
    while start is not None:
        file, begin, start = start.file, start, None
        try:
            for block in chosen.blocks(begin):
                file = block.file
                verifier.read(block)
        except BinlogError as error:
            verifier.refusals.add(error, file)
            verifier.begin_anew()
            start = chosen.log.behind(str(error.context.get("file", file)))


@dataclass
class _Span:
    """How far the reading has come.

    Attributes:
        first, last: Where the first event begins and the last one ends.
        earliest, latest: Of all timestamps, seconds since 1970; 0 where there is none.
    """

    first: str = ""
    last: str = ""
    bytes: int = 0
    earliest: int = 0
    latest: int = 0
    files: list[str] = field(default_factory=list)

    def add(self, block: EventBlock) -> None:
        if not self.files or self.files[-1] != block.file:
            self.files.append(block.file)
        self.first = self.first or f"{block.file}:{block.offset[0]}"
        self.last = f"{block.file}:{block.next_offset}"
        self.bytes += block.next_offset - int(block.offset[0])
        stamps = block.timestamp[block.timestamp > 0]
        if len(stamps):
            low, high = int(stamps.min()), int(stamps.max())
            self.earliest = min(self.earliest or low, low)
            self.latest = max(self.latest, high)


class Verifier:
    """Follows a log from a transaction boundary on, past whatever would be refused.

    Attributes:
        refusals: What would be.
        rollbacks: What was undone, and whether that was known in time.
        rows: Decodes what is left.
    """

    def __init__(self, log: Log, tables: TableFilter, past: Pasts, undone: Undone) -> None:
        """Begin with a log.

        Args:
            log: Where changes are read again that were prepared long before they were committed.
            tables: Which ones capture would take.
            past: What is known of them: with the server, if there is one, and without.
            undone: What was rolled back, as far as a former reading found out.
        """
        self.refusals = Refusals()
        self.rollbacks = RollbackReader(undone)
        self.rows = RowCheck(*past, self.refusals)
        self._filter = tables
        self._log = log
        self._expander = Expander()
        self._two_phase = self._new_two_phase()
        self._names = TransactionReader()
        self._flavor = log.flavor()
        self._gtids: ExecutedGtids | None = ExecutedGtids(self._flavor, None)
        self._statements = StatementReader(self._filter)
        self._scanner = TransactionScanner()
        self._lost = False
        self._maps = TableMapReader()
        self._wanted: list[bool] = []
        self._span = _Span()
        self._open_has_rows = False

    def read(self, logged: EventBlock) -> None:
        """Read the next block of the log."""
        self._span.add(logged)
        try:
            for expanded in self._expander.expand(logged):
                for block in self._two_phase.arrange(expanded):
                    self._read(block)
        except BinlogError as error:
            self.refusals.add(error, logged.file)
            self._two_phase = self._new_two_phase()
            self._lose()

    def begin_anew(self) -> None:
        """Go on behind a gap in the log: at the beginning of a file."""
        self._gtids = ExecutedGtids(self._flavor, None)
        self._two_phase = self._new_two_phase()
        self._open_has_rows = False
        self._lose()

    def _new_two_phase(self) -> PreparedTransactions:
        return PreparedTransactions(
            self._read_again,
            wanted=self._filter.matches,
            refuse=self._refuse_commit,
            held_bytes_max=Limits().prepared_bytes_max,
        )

    def _read_again(self, start: Position) -> Iterator[EventBlock]:
        return chain.from_iterable(map(Expander().expand, self._log.blocks(start)))

    def _refuse_commit(self, xid: str, file: str, offset: int) -> None:
        try:
            refuse_unknown(xid, file, offset)
        except BinlogError as error:
            self.refusals.add(error, file)

    def _read(self, block: EventBlock) -> None:
        self._read_gtids(block)
        of_event = np.cumsum(_IS_START[block.type], dtype=np.int64)
        ends = self._scan(block)
        rows, table = self._find_tables(block, of_event)
        for each in self._maps.table_maps[len(self._wanted) :]:
            self._wanted.append(self._filter.matches(each.database, each.table))
        wanted = [each >= 0 and self._wanted[each] for each in table.tolist()]
        rows, table = rows[wanted], table[wanted]
        self._check_decided(block, of_event, rows, ends)
        file_index = len(self._span.files) - 1
        stayed = self._stayed(block, ends, rows, file_index)
        self.rows.read(
            block,
            _transactions(ends),
            rows[stayed],
            table[stayed],
            logged=self._maps.table_maps,
            file_index=file_index,
        )

    def _read_gtids(self, block: EventBlock) -> None:
        if block.format.flavor is not self._flavor:  # files that are not of one log
            self._flavor = block.format.flavor
            self._gtids = ExecutedGtids(self._flavor, None)
        if self._gtids is None:
            return
        try:
            prefix, number = self._names.read_names(block)
            self._gtids.read(block, prefix, number, self._names.prefixes)
        except BinlogError as error:
            self.refusals.add(error, block.file)
            self._gtids = None  # what is behind would be refused for the same reason

    def _scan(self, block: EventBlock) -> dict[int, Scanned]:
        """Follow the transactions; return what is to be said of events, by event."""
        found: dict[int, Scanned] = {}
        inner = np.append(np.flatnonzero(_IS_INNER[block.type]), len(block))
        at = 0
        for index in np.flatnonzero(~_IS_INNER[block.type]).tolist():
            # Of changes one after another, the first says as much as all of them.
            first = int(inner[np.searchsorted(inner, at)])
            if first < index:
                self._feed(block, first, found)
            self._feed(block, index, found)
            at = index + 1
        first = int(inner[np.searchsorted(inner, at)])
        if first < len(block):
            self._feed(block, first, found)
        return found

    def _feed(self, block: EventBlock, index: int, found: dict[int, Scanned]) -> None:
        header = EventHeader.parse(block.event(index))
        if self._lost:
            if header.type not in GROUP_STARTS:
                return
            self._lost = False
        try:
            seen = self._scanner.feed(header, block.body(index), block.format)
            if seen.query is not None or seen.gtid is not None:
                self._statements.read(block, _transactions({index: seen}), 0)
        except BinlogError as error:
            error.context |= {"file": block.file, "offset": int(block.offset[index])}
            self.refusals.add(error, block.file)
            self._lose()
            return
        if seen.end is not None or seen.query is not None or seen.place is Place.BEGIN:
            found[index] = seen

    def _lose(self) -> None:
        """Go on with the next transaction."""
        self._scanner, self._lost = TransactionScanner(), True

    def _find_tables(
        self, block: EventBlock, of_event: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows events of a block and their tables, without those that name none."""
        left = block
        events = np.arange(len(block))
        while True:
            try:
                rows, table = self._maps.read(left, of_event[events], ends_open=True)
                return events[rows], table
            except BinlogError as error:
                self.refusals.add(error, block.file)
                # The changes of that transaction cannot be told apart any more.
                at = np.flatnonzero(left.offset == error.context.get("offset", -1))
                gone = of_event[events] == of_event[events[at[0]]] if len(at) else events >= 0
                changes = _IS_INNER[left.type] & gone
                if not changes.any():
                    return events[:0], events[:0]
                self.rows.skip(block, events[changes & np.isin(left.type, list(ROWS))])
                events = events[~changes]
                left = _chosen(block, events)

    def _check_decided(
        self,
        block: EventBlock,
        of_event: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        ends: dict[int, Scanned],
    ) -> None:
        """Refuse changes of transactions that may not have come to stay."""
        of_rows = of_event[rows]
        for event, seen in ends.items():
            reason = undecided_reason(seen)
            if reason is None:
                continue
            transaction = int(of_event[event])
            carried = transaction == 0 and self._open_has_rows
            if carried or (of_rows[rows < event] == transaction).any():
                offset = int(block.offset[event])
                self.refusals.add(
                    UnsupportedError(reason, file=block.file, offset=offset, xid=seen.xid),
                    block.file,
                )
        last = int(of_event[-1])
        has_rows = bool((of_rows == last).any()) or (last == 0 and self._open_has_rows)
        self._open_has_rows = not self._scanner.at_boundary and has_rows

    def _stayed(
        self,
        block: EventBlock,
        scanned: dict[int, Scanned],
        rows: npt.NDArray[np.int64],
        file_index: int,
    ) -> npt.NDArray[np.bool_]:
        """Return which rows events have stayed; those of which that cannot be told have."""
        while True:
            try:
                return self.rollbacks.stayed(block, _transactions(scanned), rows, file_index)
            except BinlogError as error:
                self.refusals.add(error, block.file)
                here = block.offset == error.context.get("offset")
                refused = min(each for each in scanned if here[each] and _goes_back(scanned[each]))
                scanned = {each: seen for each, seen in scanned.items() if each > refused}

    def report(self) -> Iterator[str]:
        """Yield what was seen, line by line."""
        span = self._span
        yield f"read      {len(span.files)} files, {span.bytes} bytes: {span.first} to {span.last}"
        yield f"time      {_moment(span.earliest)} to {_moment(span.latest)} UTC"
        gtids = self._gtids.text if self._gtids is not None else None
        yield f"executed  {gtids or '-'}"
        events = self._expander.events
        yield f"events    {events.total()}"
        for code, count in sorted(events.items(), key=lambda each: (-each[1], each[0])):
            yield f"  {event_name(code):<30}{count:>12}"
        yield from self.rows.lines()
        for each in self._two_phase.undecided:
            names = ", ".join(".".join(name) for name in each.tables)
            yield f"prepared  {each.xid} at {each.file}:{each.offset}, undecided: {names or '-'}"
        yield f"refused   {self.refusals.count}"
        yield from self.refusals.lines()
        for kind, count in sorted(self.rows.skipped.items()):
            yield f"  not decoded: {kind}, {count} events"
        for kind, count in sorted(self._scanner.skipped.items()):
            yield f"  passed over, as it may be: {kind}, {count} events"


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else "-"


def _goes_back(seen: Scanned) -> bool:
    return seen.kind is StatementKind.ROLLBACK_TO


def _transactions(scanned: dict[int, Scanned]) -> Transactions:
    """Return what was said of a block's events for readers that look at nothing else."""
    nothing = np.empty(0, dtype=np.int64)
    return Transactions(
        of_event=nothing,
        start=nothing,
        prefix=nothing,
        number=nothing,
        commit_ts=nothing,
        scanned=scanned,
        ends_open=False,
    )


def _chosen(block: EventBlock, events: npt.NDArray[np.int64]) -> EventBlock:
    columns: dict[str, Any] = {
        name: getattr(block, name)[events]
        for name in (
            "start",
            "size",
            "type",
            "timestamp",
            "server_id",
            "flags",
            "offset",
            "expanded_offset",
        )
    }
    return replace(block, **columns)
