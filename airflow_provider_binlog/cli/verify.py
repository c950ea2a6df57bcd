"""`rows --verify`: read all of a log as capture does, and print counts and refusals.

The rows are decoded, by the same code as in capture, and counted. What capture would refuse is
noted, and reading continues: after a refused event with the next transaction, without a table that
is not decoded at all, and after a damaged file with the next one.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.header import event_name
from airflow_provider_binlog.capture.capture_range import expanded
from airflow_provider_binlog.capture.commits import CommitReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.segments import StatementReader, check_names
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.rows.decode import RowsEvents, decode_pieces
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.schema_history.schemas import SchemaReader
from airflow_provider_binlog.schema_history.statements import ServerSchemas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.cli.source import Range
    from airflow_provider_binlog.position import Flavor, Position
    from airflow_provider_binlog.schema_history.schemas import TableRefusal

    Events = npt.NDArray[np.int64]


_CHANGES = tuple(ChangeType)
_REFUSALS_MAX = 100
"""A table whose events are refused so often is not decoded any more: each costs a decoding."""


def verify(chosen: Range, tables: Sequence[str] | None) -> None:
    """Read a range, and print its counts and refusals.

    Raises:
        UnsupportedError: Something in it would be refused.
    """
    captured = TableFilter(tuple(tables or ("*.*",)))
    server = ServerSchemas(
        chosen.log,
        chosen.start,
        captured=captured.matches,
        read_server_tables=chosen.log.read_server_tables,
    )
    verifier = Verifier(chosen, captured, server)
    _read(chosen, verifier)
    for line in verifier.report():
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if verifier.refusals.count:
        raise UnsupportedError(
            "capture would refuse this log, for what is listed as refused",
            refused=verifier.refusals.count,
        )


def _read(chosen: Range, verifier: Verifier) -> None:
    """Read a range; after a file that cannot be read, the next one."""
    start: Position | None = chosen.start
    while start is not None:
        file, begin, start = start.file, start, None
        try:
            for block in chosen.blocks(begin):
                file = block.file
                verifier.read(block)
        except BinlogError as error:
            verifier.refusals.file = file
            verifier.refusals.add(error)
            verifier.reader.resume()
            start = chosen.log.after(str(error.context.get("file", file)))


@dataclass
class _Span:
    """The part of a log that was read.

    Attributes:
        first, last: Start of the first event and end of the last one.
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
    """Reads a range from a transaction boundary on, past whatever would be refused.

    Attributes:
        refusals: Errors of capture.
        reader: Reads the range.
    """

    def __init__(self, chosen: Range, tables: TableFilter, server: ServerSchemas) -> None:
        """Create the reader of a range.

        Args:
            chosen: The range.
            tables: Which tables capture would take.
            server: The tables of information_schema.
        """
        self.refusals = Refusals()
        refuse = self.refusals.add
        self.reader = RangeReader(
            captured=tables.matches,
            schemas=SchemaReader(server, refuse=refuse),
            commits=CommitReader(
                lambda begin: expanded(chosen.log.blocks(begin)),
                wanted=tables.matches,
                refuse=refuse,
                refuse_tables=lambda refused: refuse(refused.error),
                buffered_bytes_max=Limits().prepared_bytes_max,
            ),
            gtids=ExecutedGtids(chosen.log.flavor(), None),
            refuse=refuse,
            skips=tables.leaves_out,
        )
        self._statements = StatementReader(
            tables, refuse=refuse, refuse_tables=lambda refused: refuse(refused.error)
        )
        self._rows = RowCounts(self.refusals)
        self._span = _Span()
        self._flavor: Flavor | None = None

    def read(self, block: EventBlock) -> None:
        """Read the next block of the log."""
        self._span.add(block)
        self.refusals.file = block.file
        if self._flavor not in (None, block.format.flavor):  # files that are not of one log
            self.reader.resume()
        self._flavor = block.format.flavor
        for captured in self.reader.read(block):
            self._statements.read(captured)
            self._rows.add(captured, self.reader.schemas.refused)

    def report(self) -> Iterator[str]:
        """Yield counts and refusals, line by line."""
        span, reader = self._span, self.reader
        yield f"read      {len(span.files)} files, {span.bytes} bytes: {span.first} to {span.last}"
        yield f"time      {_moment(span.earliest)} to {_moment(span.latest)} UTC"
        yield f"executed  {reader.executed or '-'}"
        yield f"events    {reader.events.total()}"
        for code, count in sorted(reader.events.items(), key=lambda item: (-item[1], item[0])):
            yield f"  {event_name(code):<30}{count:>12}"
        yield from self._rows.lines()
        for xa in reader.in_doubt:
            names = ", ".join(".".join(name) for name in xa.tables)
            yield f"prepared  {xa.xid} at {xa.file}:{xa.offset}, in doubt: {names or '-'}"
        yield f"refused   {self.refusals.count}"
        yield from self.refusals.lines()
        skipped = self._rows.skipped.copy()
        for code, count in reader.undecoded.items():
            skipped[event_name(code)] += count
        for kind, count in sorted(skipped.items()):
            yield f"  not decoded: {kind}, {count} events"
        for kind, count in sorted(reader.transactions.skipped.items()):
            yield f"  skipped, as its flag allows: {kind}, {count} events"


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else "-"


@dataclass
class _Table:
    """A table with one schema.

    Attributes:
        layout: How its rows are decoded; None where they cannot be.
        error: Why capture would refuse the rows, whether or not they can be decoded.
        refused: How many of its events could not be decoded.
    """

    name: str
    layout: RowLayout | None = None
    error: BinlogError | None = None
    refused: int = 0


class RowCounts:
    """Counts the rows of a log, block after block.

    Attributes:
        rows: Counted by table and type of change.
        nulls: Invalid dates, by column.
        skipped: Rows events that were not decoded, by the name of their type.
    """

    def __init__(self, refusals: Refusals) -> None:
        """Count into empty tables; `refusals` collects what capture would refuse."""
        self.rows: dict[str, Counter[str]] = {}
        self.nulls: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._refusals = refusals
        # By the index of their table maps.
        self._tables: dict[int, _Table] = {}

    def add(self, captured: CapturedBlock, refused: Mapping[int, TableRefusal]) -> None:
        """Decode the rows of a block; `refused` has the tables that capture would refuse."""
        for index in np.unique(captured.table).tolist():
            table = self._tables.get(index)
            if table is None:
                table_map = captured.table_maps[index]
                table = self._tables[index] = _table(table_map, refused.get(index))
            self._decode(captured, table, captured.events[captured.table == index])

    def _decode(self, captured: CapturedBlock, table: _Table, events: Events) -> None:
        """Decode and count the rows of a table in a block."""
        if table.error is not None:
            self._refuse(captured, table, events, table.error)
        while len(events) and table.layout is not None and table.refused < _REFUSALS_MAX:
            try:
                self._count(captured, table.name, table.layout, events)
            except BinlogError as error:
                event = error.context.pop("event", 0)
                at = event if isinstance(event, int) and event < len(events) else 0
                self._skip(captured, events[at : at + 1])
                self._refuse(captured, table, events[at : at + 1], error)
                if at:
                    self._count(captured, table.name, table.layout, events[:at])
                events = events[at + 1 :]
                table.refused += 1
            else:
                return
        self._skip(captured, events)

    def _skip(self, captured: CapturedBlock, events: Events) -> None:
        self.skipped.update(map(event_name, captured.block.type[events].tolist()))

    def _count(self, captured: CapturedBlock, name: str, layout: RowLayout, events: Events) -> None:
        # All before any is counted: what follows an event that is refused is decoded again.
        pieces = list(decode_pieces(layout, RowsEvents.of(captured.block, events)))
        counts = self.rows.setdefault(name, Counter())
        for _, _, rows in pieces:
            by_change = np.bincount(rows.change, minlength=len(_CHANGES)).tolist()
            counts.update(dict(zip(map(str, _CHANGES), by_change, strict=True)))
            for column, count in rows.unrepresentable.items():
                self.nulls[f"{name}.{column}"] += count

    def _refuse(
        self, captured: CapturedBlock, table: _Table, events: Events, error: BinlogError
    ) -> None:
        where = {"table": table.name, **captured.block.where(int(events[0]))}
        located = type(error)(error.args[0], **(error.context | where))
        self._refusals.add(located, times=len(events))

    def lines(self) -> Iterator[str]:
        """Yield the counts, line by line."""
        total: Counter[str] = sum(self.rows.values(), Counter())
        yield f"rows      {_count_changes(total)} in {len(self.rows)} tables"
        for name, counts in sorted(self.rows.items()):
            yield f"  {name:<30}{_count_changes(counts):>12}  {_words(counts)}"
        for name, count in sorted(self.nulls.items()):
            yield f"  {name:<30}{count:>12}  invalid dates, read as NULL"


def _table(table_map: TableMap, refusal: TableRefusal | None) -> _Table:
    table = _Table(f"{table_map.database}.{table_map.table}")
    try:
        table.layout = compile_layout(table_map, allow_missing_metadata=refusal is not None)
        check_names(table.layout)
    except BinlogError as error:
        table.error = error
    if refusal is not None:
        table.error = refusal.error
    return table


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


@dataclass
class _Refusal:
    """A reason, and how often anything would be refused for it."""

    text: str
    count: int = 0


class Refusals:
    """Errors that capture would fail with, each reason with its first position and its count.

    Errors of one reason about one column of one table count as the same.

    Attributes:
        file: The file that is read now, for errors whose context lacks one.
    """

    def __init__(self) -> None:
        self.file = ""
        self._by_reason: dict[tuple[object, ...], _Refusal] = {}

    @property
    def count(self) -> int:
        """How often anything was refused."""
        return sum(refusal.count for refusal in self._by_reason.values())

    def add(self, error: BinlogError, *, times: int = 1) -> None:
        """Count an error; a `Refuse`."""
        context = {
            key: value
            for key, value in error.context.items()
            if key != "log_pos" and value is not None
        }
        where = context.pop("file", self.file), context.pop("offset", None)
        key = (error.args[0], context.get("table"), context.get("column"))
        refusal = self._by_reason.get(key)
        if refusal is None:
            location = str(where[0]) if where[1] is None else f"{where[0]}:{where[1]}"
            refusal = _Refusal(f"{location}  {type(error)(error.args[0], **context)}")
            self._by_reason[key] = refusal
        refusal.count += times

    def lines(self) -> Iterator[str]:
        """Yield a line for each reason, in order of first occurrence."""
        for refusal in self._by_reason.values():
            often = f"  ({refusal.count} times)" if refusal.count > 1 else ""
            yield f"  {refusal.text}{often}"
