"""`rows --verify`: read all of a log as capture does, and print what was seen.

The rows are decoded, by the same code as in capture, and counted. What capture would refuse is
noted, and reading continues: after a refused event with the next transaction, without a table that
is not decoded at all, and after a damaged file with the next one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.event_types import event_name
from airflow_provider_binlog.capture.capture_range import expanded
from airflow_provider_binlog.capture.commits import CommitReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.capture.prepared import PreparedTransactions
from airflow_provider_binlog.capture.range_facts import read_with_facts
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.statements import StatementReader
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.cli.refusals import Refusals
from airflow_provider_binlog.cli.row_counts import RowCounts
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.schema_history.past import Past
from airflow_provider_binlog.schema_history.schemas import SchemaReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.capture.range_facts import RangeFacts
    from airflow_provider_binlog.cli.source import Range
    from airflow_provider_binlog.position import Flavor, Position


def verify(chosen: Range, tables: Sequence[str] | None) -> None:
    """Read a range, and print what it holds.

    Raises:
        UnsupportedError: Something in it would be refused.
    """
    captured = TableFilter(tuple(tables or ("*.*",)))
    if chosen.stop is None and chosen.log.read_server_tables is not None:
        chosen = replace(chosen, stop=chosen.log.end())
    past = Past(
        chosen.log,
        chosen.stop or chosen.start,
        captured=captured.matches,
        read_server_tables=chosen.log.read_server_tables,
    )
    verifier = read_with_facts(lambda facts: _read(chosen, Verifier(chosen, captured, past, facts)))
    for line in verifier.report():
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if verifier.refusals.count:
        raise UnsupportedError(
            "capture would refuse this log, for what is listed as refused",
            refused=verifier.refusals.count,
        )


def _read(chosen: Range, verifier: Verifier) -> Verifier:
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
    verifier.reader.finish()
    return verifier


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
    """Reads a range from a transaction boundary on, past whatever would be refused.

    Attributes:
        refusals: What would be.
        reader: Reads the range.
    """

    def __init__(self, chosen: Range, tables: TableFilter, past: Past, facts: RangeFacts) -> None:
        """Begin a range.

        Args:
            chosen: The range.
            tables: Which tables capture would take.
            past: What is known of them from outside of the range.
            facts: What an earlier reading of the range found out.
        """
        self.refusals = Refusals()
        refuse = self.refusals.add
        self.reader = RangeReader(
            captured=tables.matches,
            schemas=SchemaReader(past, facts.changes, refuse=refuse),
            commits=CommitReader(
                PreparedTransactions(
                    lambda begin: expanded(chosen.log.blocks(begin)),
                    wanted=tables.matches,
                    refuse=refuse,
                    held_bytes_max=Limits().prepared_bytes_max,
                ),
                facts.rolled_back,
                refuse=lambda error, _: refuse(error),
            ),
            gtids=ExecutedGtids(chosen.log.flavor(), None),
            refuse=refuse,
            skips=tables.leaves_out,
        )
        self._statements = StatementReader(
            tables, refuse=refuse, refuse_tables=lambda error, _: refuse(error)
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
        """Yield what was seen, line by line."""
        span, reader = self._span, self.reader
        yield f"read      {len(span.files)} files, {span.bytes} bytes: {span.first} to {span.last}"
        yield f"time      {_moment(span.earliest)} to {_moment(span.latest)} UTC"
        yield f"executed  {reader.executed or '-'}"
        yield f"events    {reader.events.total()}"
        for code, count in sorted(reader.events.items(), key=lambda each: (-each[1], each[0])):
            yield f"  {event_name(code):<30}{count:>12}"
        yield from self._rows.lines()
        for each in reader.in_doubt:
            names = ", ".join(".".join(name) for name in each.tables)
            yield f"prepared  {each.xid} at {each.file}:{each.offset}, in doubt: {names or '-'}"
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
