"""`rows --verify`: read all of a log as capture does, and print counts and refusals.

What capture would refuse is noted, and reading continues: after a refused event with the next
transaction, without a table once its rows cannot be decoded, and after a damaged file with the next
one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import event_name
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.blocks.captured import CapturedBlock
from airflow_provider_binlog.capture.capture_range import expanded
from airflow_provider_binlog.capture.commits import CommitReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.segments import captured_statements, check_names
from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.cli.source import Range
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.rows.decode import RowsEvents, decode_pieces
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.schema_history.schemas import SchemaReader, TableRefusal
from airflow_provider_binlog.schema_history.statements import ServerSchemas

_CHANGES = tuple(ChangeType)
_WORDS = {
    ChangeType.INSERT: "inserts",
    ChangeType.UPDATE_POSTIMAGE: "updates",
    ChangeType.DELETE: "deletes",
}


def verify(chosen: Range, tables: Sequence[str] | None) -> None:
    """Read a range, and print its counts and refusals.

    Raises:
        UnsupportedError: Something in it would be refused.
    """
    verifier = Verifier(chosen, TableFilter(tuple(tables or ("*.*",))))
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
    sys.stdout.writelines(f"{line}\n" for line in verifier.report())
    sys.stdout.flush()
    if refused := verifier.refusals.counts.total():
        raise UnsupportedError(
            "capture would refuse this log, for what is listed as refused", refused=refused
        )


class Refusals:
    """Errors that capture would fail with, each reason with its first position and its count.

    Errors of one reason about one column of one table count as the same.

    Attributes:
        counts: By reason, in order of first occurrence.
        file: The file that is read now, for errors whose context lacks one.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[object, ...]] = Counter()
        self.file = ""
        self._texts: dict[tuple[object, ...], str] = {}

    def add(self, error: BinlogError, *, times: int = 1) -> None:
        """Count an error; a `Refuse`."""
        context = {name: value for name, value in error.context.items() if value is not None}
        context.pop("log_pos", None)
        file, offset = context.pop("file", self.file), context.pop("offset", None)
        reason = (error.args[0], context.get("table"), context.get("column"))
        if reason not in self.counts:
            location = file if offset is None else f"{file}:{offset}"
            self._texts[reason] = f"{location}  {type(error)(error.args[0], **context)}"
        self.counts[reason] += times

    def lines(self) -> Iterator[str]:
        """Yield a line for each reason."""
        for reason, count in self.counts.items():
            yield f"  {self._texts[reason]}{f'  ({count} times)' if count > 1 else ''}"


class Verifier:
    """Reads a range from a transaction boundary on, past whatever would be refused."""

    def __init__(self, chosen: Range, tables: TableFilter) -> None:
        self.refusals = Refusals()
        refuse = self.refusals.add
        server = ServerSchemas(
            chosen.log,
            chosen.start,
            read_server_tables=chosen.log.read_server_tables,
        )
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
        self._tables = tables
        self._flavor: Flavor | None = None
        self._files: set[str] = set()
        self._first, self._last, self._bytes = "", "", 0
        # Of the earliest and of the latest event, seconds since 1970.
        self._times: list[int] = []
        # By the index of their table maps; None where rows cannot be decoded.
        self._layouts: dict[int, RowLayout | None] = {}
        # Why capture would refuse the rows, whether or not they can be decoded.
        self._errors: dict[int, BinlogError] = {}
        self._rows: dict[str, Counter[ChangeType]] = {}
        self._not_decoded: Counter[str] = Counter()

    def read(self, block: EventBlock) -> None:
        """Read the next block of the log."""
        self._files.add(block.file)
        self._first = self._first or f"{block.file}:{block.offset[0]}"
        self._last = f"{block.file}:{block.next_offset}"
        self._bytes += block.next_offset - int(block.offset[0])
        if times := self._times + block.timestamp[block.timestamp > 0].tolist():
            self._times = [min(times), max(times)]
        self.refusals.file = block.file
        if self._flavor not in (None, block.format.flavor):  # files that are not of one log
            self.reader.resume()
        self._flavor = block.format.flavor
        for captured in self.reader.read(block):
            captured_statements(
                captured,
                self._tables,
                refuse=self.refusals.add,
                refuse_tables=lambda refused: self.refusals.add(refused.error),
            )
            for index in np.unique(captured.table).tolist():
                if index not in self._layouts:
                    refusal = self.reader.schemas.refused.get(index)
                    self._compile(captured.table_maps[index], index, refusal)
                self._count(captured, index, captured.events[captured.table == index])

    def _compile(self, table_map: TableMap, index: int, refusal: TableRefusal | None) -> None:
        self._layouts[index] = None
        try:
            layout = compile_layout(table_map, allow_missing_metadata=refusal is not None)
            self._layouts[index] = layout
            check_names(layout)
        except BinlogError as error:
            self._errors[index] = error
        if refusal is not None:
            self._errors[index] = refusal.error

    def _count(self, captured: CapturedBlock, index: int, events: npt.NDArray[np.int64]) -> None:
        """Decode and count the rows of a table in a block."""
        table_map, layout = captured.table_maps[index], self._layouts[index]
        name = ".".join(table_map.name)
        if index in self._errors:
            self._refuse(captured, name, events, self._errors[index])
        refused = 0
        if layout is not None:
            try:
                self._decode(name, layout, RowsEvents.of(captured.block, events))
            except BinlogError as error:
                event = error.context.pop("event", 0)
                refused = event if isinstance(event, int) and event < len(events) else 0
                self._decode(name, layout, RowsEvents.of(captured.block, events[:refused]))
                self._refuse(captured, name, events[refused : refused + 1], error)
                self._layouts[index] = None
            else:
                return
        self._not_decoded.update(map(event_name, captured.block.type[events[refused:]].tolist()))

    def _decode(self, name: str, layout: RowLayout, events: RowsEvents) -> None:
        # All before any is counted.
        pieces = list(decode_pieces(layout, events))
        counts = self._rows.setdefault(name, Counter())
        for _, _, rows in pieces:
            by_change = np.bincount(rows.change, minlength=len(_CHANGES)).tolist()
            counts.update(dict(zip(_CHANGES, by_change, strict=True)))

    def _refuse(
        self,
        captured: CapturedBlock,
        name: str,
        events: npt.NDArray[np.int64],
        error: BinlogError,
    ) -> None:
        context = {**error.context, "table": name, **captured.block.where(int(events[0]))}
        self.refusals.add(type(error)(error.args[0], **context), times=len(events))

    def report(self) -> Iterator[str]:
        """Yield counts and refusals, line by line."""
        reader = self.reader
        files = f"{len(self._files)} files, {self._bytes} bytes"
        yield f"read      {files}: {self._first} to {self._last}"
        span = " to ".join(f"{datetime.fromtimestamp(time, UTC):%F %T}" for time in self._times)
        yield f"time      {span or '-'} UTC"
        yield f"executed  {reader.executed or '-'}"
        yield f"events    {reader.events.total()}"
        for code, count in sorted(reader.events.items(), key=lambda item: (-item[1], item[0])):
            yield f"  {event_name(code):<30}{count:>12}"
        changes = sum(map(_count_changes, self._rows.values()))
        yield f"rows      {changes} in {len(self._rows)} tables"
        for name, counts in sorted(self._rows.items()):
            words = ", ".join(f"{counts[kind]} {_WORDS[kind]}" for kind in _WORDS if counts[kind])
            yield f"  {name:<30}{_count_changes(counts):>12}  {words}"
        for xa in reader.in_doubt:
            names = ", ".join(".".join(name) for name in xa.tables)
            yield f"prepared  {xa.xid} at {xa.file}:{xa.offset}, in doubt: {names or '-'}"
        yield f"refused   {self.refusals.counts.total()}"
        yield from self.refusals.lines()
        for code, count in reader.undecoded.items():
            self._not_decoded[event_name(code)] += count
        for kind, count in sorted(self._not_decoded.items()):
            yield f"  not decoded: {kind}, {count} events"
        for kind, count in sorted(reader.transactions.skipped.items()):
            yield f"  skipped, as its flag allows: {kind}, {count} events"


def _count_changes(counts: Counter[ChangeType]) -> int:
    """Return how many rows were changed: an update's two images are of one change."""
    return counts.total() - counts[ChangeType.UPDATE_PREIMAGE]
