"""`rows --verify`: read all of a log as capture does, and print counts and refusals.

What capture would refuse is noted, and reading continues: after a refused event with the next
transaction, without a table once its rows cannot be decoded, and after a damaged file with the next
one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

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
from airflow_provider_binlog.cli.output import print_record
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


def verify(chosen: Range, tables: Sequence[str] | None, form: str | None = None) -> None:
    """Read a range, and print its counts and refusals: as JSON, as YAML, or for people.

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
    report = verifier.describe()
    if form in ("json", "yaml"):
        print_record(report, form)
    else:
        sys.stdout.writelines(f"{line}\n" for line in _list_lines(report))
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
        self._texts: dict[tuple[object, ...], tuple[str, str]] = {}

    def add(self, error: BinlogError, *, times: int = 1) -> None:
        """Count an error; a `Refuse`."""
        context = {name: value for name, value in error.context.items() if value is not None}
        context.pop("log_pos", None)
        file, offset = context.pop("file", self.file), context.pop("offset", None)
        reason = (error.args[0], context.get("table"), context.get("column"))
        if reason not in self.counts:
            location = file if offset is None else f"{file}:{offset}"
            self._texts[reason] = str(location), str(type(error)(error.args[0], **context))
        self.counts[reason] += times

    def describe(self) -> list[dict[str, Any]]:
        """Return position, text and count of each reason."""
        return [
            {"position": position, "reason": text, "count": self.counts[reason]}
            for reason, (position, text) in self._texts.items()
        ]


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

    def describe(self) -> dict[str, Any]:
        """Return counts and refusals."""
        reader = self.reader
        for code, count in reader.undecoded.items():
            self._not_decoded[event_name(code)] += count
        events = sorted(reader.events.items(), key=lambda item: (-item[1], item[0]))
        return {
            "files": len(self._files),
            "bytes": self._bytes,
            "start": self._first,
            "stop": self._last,
            "times": [f"{datetime.fromtimestamp(time, UTC):%F %T}" for time in self._times],
            "executed": str(reader.executed or ""),
            "events": {event_name(code): count for code, count in events},
            "tables": {
                name: {word: counts[kind] for kind, word in _WORDS.items() if counts[kind]}
                for name, counts in sorted(self._rows.items())
            },
            "prepared": [
                {
                    "xid": str(xa.xid),
                    "position": f"{xa.file}:{xa.offset}",
                    "tables": [".".join(name) for name in xa.tables],
                }
                for xa in reader.in_doubt
            ],
            "refused": self.refusals.describe(),
            "not_decoded": dict(sorted(self._not_decoded.items())),
            "skipped": dict(sorted(reader.transactions.skipped.items())),
        }


def _list_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield counts and refusals, line by line."""
    files = f"{report['files']} files, {report['bytes']} bytes"
    yield f"read      {files}: {report['start']} to {report['stop']}"
    yield f"time      {' to '.join(report['times']) or '-'} UTC"
    yield f"executed  {report['executed'] or '-'}"
    yield f"events    {sum(report['events'].values())}"
    for name, count in report["events"].items():
        yield f"  {name:<30}{count:>12}"
    # An update's two images are of one change.
    changes = {name: sum(counts.values()) for name, counts in report["tables"].items()}
    yield f"rows      {sum(changes.values())} in {len(changes)} tables"
    for name, counts in report["tables"].items():
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield f"  {name:<30}{changes[name]:>12}  {words}"
    for xa in report["prepared"]:
        names = ", ".join(xa["tables"]) or "-"
        yield f"prepared  {xa['xid']} at {xa['position']}, in doubt: {names}"
    yield f"refused   {sum(refusal['count'] for refusal in report['refused'])}"
    for refusal in report["refused"]:
        times = f"  ({refusal['count']} times)" if refusal["count"] > 1 else ""
        yield f"  {refusal['position']}  {refusal['reason']}{times}"
    for kind, count in report["not_decoded"].items():
        yield f"  not decoded: {kind}, {count} events"
    for kind, count in report["skipped"].items():
        yield f"  skipped, as its flag allows: {kind}, {count} events"
