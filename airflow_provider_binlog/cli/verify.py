"""`rows --verify`: read all of a log as capture does, and say what was seen.

Nothing is printed of the rows, but all of their values are decoded, by the same code as in capture.
What capture would refuse is noted, and reading goes on: behind a refused event with the next
transaction, without a table that is not decoded at all, and behind a damaged file with the next
one.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.binlog.event_types import (
    GROUP_STARTS,
    ROWS,
    EventType,
    event_name,
)
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.table_maps import TableMapReader
from airflow_provider_binlog.blocks.transactions import TransactionReader, Transactions
from airflow_provider_binlog.capture.capture_range import undecided_reason
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.capture.limits import Limits
from airflow_provider_binlog.capture.part_maker import check_names
from airflow_provider_binlog.capture.prepared import PreparedTransactions, refuse_unknown
from airflow_provider_binlog.capture.statements import StatementReader
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.rows.decode import decode
from airflow_provider_binlog.rows.events import RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.table_map import TableMap
    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.cli.source import Log, Range
    from airflow_provider_binlog.position import Position

_CHANGES = tuple(ChangeType)
_REFUSALS_MAX = 100
"""A table whose events are refused so often is not decoded any more: each costs a decoding."""

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
    verifier = Verifier(tables, chosen.log)
    start: Position | None = chosen.start
    while start is not None:
        file = start.file
        try:
            for block in chosen.blocks(start):
                file = block.file
                verifier.read(block)
            break
        except BinlogError as error:
            verifier.refuse(error, file)
            verifier.begin_anew()
            start = chosen.log.behind(str(error.context.get("file", file)))
    for line in verifier.report():
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if verifier.refusals:
        raise UnsupportedError(
            "capture would refuse this log, for what is listed as refused",
            refused=sum(each.count for each in verifier.refusals.values()),
        )


@dataclass
class Refusal:
    """What would be refused, and how often for the same reason."""

    text: str
    count: int = 0


@dataclass
class _Table:
    """A table in one shape."""

    table_map: TableMap
    wanted: bool
    layout: RowLayout | None = None
    error: BinlogError | None = None
    misnamed: BinlogError | None = None
    refused: int = 0

    @property
    def name(self) -> str:
        return f"{self.table_map.database}.{self.table_map.table}"


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
        self.first = self.first or f"{block.file}:{block.position[0]}"
        self.last = f"{block.file}:{block.next_position}"
        self.bytes += block.next_position - int(block.position[0])
        stamps = block.timestamp[block.timestamp > 0]
        if len(stamps):
            low, high = int(stamps.min()), int(stamps.max())
            self.earliest = min(self.earliest or low, low)
            self.latest = max(self.latest, high)


class Verifier:
    """Follows a log from a transaction boundary on, past whatever would be refused.

    Attributes:
        refusals: In the order of the log; by what was refused, and why.
    """

    def __init__(self, tables: Sequence[str] | None, log: Log) -> None:
        self.refusals: dict[tuple[object, ...], Refusal] = {}
        self._filter = TableFilter(tuple(tables or ("*.*",)), ())
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
        self._tables: list[_Table] = []
        self._rows: dict[str, Counter[str]] = {}
        self._nulls: Counter[str] = Counter()
        self._asks_for: set[str] = set()
        self._skipped: Counter[str] = Counter()
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
            self.refuse(error, logged.file)
            self._two_phase = self._new_two_phase()
            self._lose()

    def refuse(self, error: BinlogError, file: str) -> None:
        """Take note of what would be refused."""
        context = {
            key: value
            for key, value in error.context.items()
            if key != "log_pos" and value is not None
        }
        where = context.pop("file", file), context.pop("offset", None)
        key = (error.args[0], context.get("table"), context.get("column"))
        known = self.refusals.get(key)
        if known is None:
            place = str(where[0]) if where[1] is None else f"{where[0]}:{where[1]}"
            known = Refusal(f"{place}  {type(error)(error.args[0], **context)}")
            self.refusals[key] = known
        known.count += 1

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
            self.refuse(error, file)

    def _read(self, block: EventBlock) -> None:
        self._read_gtids(block)
        of_event = np.cumsum(_IS_START[block.type], dtype=np.int64)
        ends = self._scan(block)
        rows, table = self._find_tables(block, of_event)
        for each in self._maps.table_maps[len(self._tables) :]:
            wanted = self._filter.matches(each.database, each.table)
            self._tables.append(_Table(each, wanted))
        wanted_rows = [self._tables[each].wanted if each >= 0 else False for each in table.tolist()]
        rows, table = rows[wanted_rows], table[wanted_rows]
        self._check_decided(block, of_event, rows, ends)
        for index in np.unique(table).tolist():
            self._decode(block, self._tables[index], rows[table == index])

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
            self.refuse(error, block.file)
            self._gtids = None  # what is behind would be refused for the same reason

    def _scan(self, block: EventBlock) -> dict[int, Scanned]:
        """Follow the transactions; return what is to be said of events that end one."""
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
                self._statements.read(block, _alone(index, seen), 0)
        except BinlogError as error:
            error.context |= {"file": block.file, "offset": int(block.position[index])}
            self.refuse(error, block.file)
            self._lose()
            return
        if seen.end is not None or seen.kind is not None:
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
                self.refuse(error, block.file)
                # The changes of that transaction cannot be told apart any more.
                at = np.flatnonzero(left.position == error.context.get("offset", -1))
                gone = of_event[events] == of_event[events[at[0]]] if len(at) else events >= 0
                changes = _IS_INNER[left.type] & gone
                if not changes.any():
                    return events[:0], events[:0]
                self._skip(left.type[changes & (left.type != EventType.TABLE_MAP)])
                events = events[~changes]
                left = _chosen(block, events)

    def _skip(self, types: npt.NDArray[np.uint8]) -> None:
        for code in types.tolist():
            if code in ROWS:
                self._skipped[event_name(code)] += 1

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
                offset = int(block.position[event])
                self.refuse(
                    UnsupportedError(reason, file=block.file, offset=offset, xid=seen.xid),
                    block.file,
                )
        last = int(of_event[-1])
        has_rows = bool((of_rows == last).any()) or (last == 0 and self._open_has_rows)
        self._open_has_rows = not self._scanner.at_boundary and has_rows

    def _decode(self, block: EventBlock, table: _Table, rows: npt.NDArray[np.int64]) -> None:
        """Decode all rows of a table in a block, and count them."""
        if table.layout is None and table.error is None:
            self._compile(table)
        if table.misnamed is not None:
            for each in rows.tolist():
                self._refuse_event(table, block, each, table.misnamed)
        while len(rows) and table.layout is not None and table.refused < _REFUSALS_MAX:
            try:
                self._count(table, block, rows)
            except BinlogError as error:
                event = error.context.pop("event", 0)
                at = event if isinstance(event, int) and event < len(rows) else 0
                self._skipped[event_name(int(block.type[rows[at]]))] += 1
                self._refuse_event(table, block, int(rows[at]), error)
                if at:
                    self._count(table, block, rows[:at])
                rows = rows[at + 1 :]
                table.refused += 1
            else:
                return
        for each in rows.tolist():
            self._skipped[event_name(int(block.type[each]))] += 1
            if table.error is not None:
                self._refuse_event(table, block, each, table.error)

    def _compile(self, table: _Table) -> None:
        """Find out how to read a table's rows, whether or not capture would."""
        try:
            table.layout = compile_layout(table.table_map)
            check_names(table.layout)
        except BinlogError as error:
            if table.layout is not None or not table.table_map.has_names:
                table.misnamed = error
            else:
                table.error = error
        if table.table_map.has_names:
            return
        if self._log.has_catalogue:
            self._asks_for.add(table.name)
            table.misnamed = None
        try:
            table.layout = compile_layout(table.table_map, unnamed_ok=True)
        except BinlogError as error:
            table.error = error

    def _count(self, table: _Table, block: EventBlock, rows: npt.NDArray[np.int64]) -> None:
        start = block.start[rows]
        end = start + block.size[rows] - block.format.checksum_size
        events = RowsEvents(data=block.data, start=start, end=end, type=block.type[rows])
        if table.layout is None:
            return
        decoded = decode(table.layout, events)
        counts = self._rows.setdefault(table.name, Counter())
        found = np.bincount(decoded.change, minlength=len(_CHANGES)).tolist()
        counts.update({str(name): count for name, count in zip(_CHANGES, found, strict=True)})
        for name, count in decoded.unrepresentable.items():
            self._nulls[f"{table.name}.{name}"] += count

    def _refuse_event(
        self, table: _Table, block: EventBlock, event: int, error: BinlogError
    ) -> None:
        place = {"table": table.name, "file": block.file, "offset": int(block.position[event])}
        self.refuse(type(error)(error.args[0], **(error.context | place)), block.file)

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
        total: Counter[str] = sum(self._rows.values(), Counter())
        yield f"rows      {_count_changes(total)} in {len(self._rows)} tables"
        for name, counts in sorted(self._rows.items()):
            yield f"  {name:<30}{_count_changes(counts):>12}  {_words(counts)}"
        for name, count in sorted(self._nulls.items()):
            yield f"  {name:<30}{count:>12}  dates that are none, read as NULL"
        for name in sorted(self._asks_for):
            yield f"  {name:<30}{'':>12}  named by the catalogue, which was not looked at"
        for each in self._two_phase.undecided:
            names = ", ".join(".".join(name) for name in each.tables)
            yield f"prepared  {each.xid} at {each.file}:{each.offset}, undecided: {names or '-'}"
        yield f"refused   {sum(each.count for each in self.refusals.values())}"
        for refusal in self.refusals.values():
            often = f"  ({refusal.count} times)" if refusal.count > 1 else ""
            yield f"  {refusal.text}{often}"
        for kind, count in sorted(self._skipped.items()):
            yield f"  not decoded: {kind}, {count} events"
        for kind, count in sorted(self._scanner.skipped.items()):
            yield f"  passed over, as it may be: {kind}, {count} events"


def _count_changes(counts: Counter[str]) -> int:
    """Return how many rows were changed: an update's two images are of one change."""
    return counts.total() - counts[ChangeType.UPDATE_PREIMAGE]


def _words(counts: Counter[str]) -> str:
    names = {
        ChangeType.INSERT: "inserts",
        ChangeType.UPDATE_POSTIMAGE: "updates",
        ChangeType.DELETE: "deletes",
    }
    return ", ".join(f"{counts[kind]} {word}" for kind, word in names.items() if counts[kind])


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else "-"


def _alone(event: int, seen: Scanned) -> Transactions:
    """Return one event as that of a transaction which has no other."""
    nothing = np.empty(0, dtype=np.int64)
    return Transactions(
        of_event=nothing,
        start=nothing,
        prefix=nothing,
        number=nothing,
        commit_ts=nothing,
        scanned={event: seen},
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
            "position",
            "place",
        )
    }
    return replace(block, **columns)
