"""Write the rows events of a range as parts, table by table.

A part ends where the bytes of its table's events since the last part reach a bound, or where the
waiting bytes of all tables do. Both are counted event by event in log order, so that parts end at
the same events however the log was cut into blocks. The events are decoded slice by slice, and
written as several parts where the rows take much more memory than the events did. An event that
fills a part is a part by itself: to join it with others would take its memory once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.capture.log_range import ExtractRequest
from airflow_provider_binlog.capture.quarantine import Quarantines, concerns_one_table
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.segments import Segment
from airflow_provider_binlog.capture.table_parts import (
    ManifestEntry,
    PendingEvents,
    RowsColumns,
    StagedPart,
    StagedRows,
    by_table,
    count_replaced,
    join,
)
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.manifest import Part, TableChanges
from airflow_provider_binlog.rows.decode import GROUP_BYTES, DecodedRows, RowsEvents, decode_pieces
from airflow_provider_binlog.rows.layout import RowLayout
from airflow_provider_binlog.rows.values import batches
from airflow_provider_binlog.schema import Schema, TableId
from airflow_provider_binlog.schema_history.tables import EventRow, TableInRange
from airflow_provider_binlog.staging.part_writer import PartQueue, QueuedPart
from airflow_provider_binlog.staging.paths import part_key, part_path

# Per row: its change columns, and what the decoder keeps of its offset.
_CHANGE_BYTES = 64


@dataclass
class _Waiting:
    """The waiting events of one segment."""

    table: TableId
    entry: ManifestEntry
    layout: RowLayout
    schema: Schema
    pending: PendingEvents = field(default_factory=PendingEvents)


class PartMaker:
    """Collects rows events and writes parts; counts the parts and their rows."""

    def __init__(
        self,
        request: ExtractRequest,
        queue: PartQueue,
        reader: RangeReader,
        quarantines: Quarantines,
    ) -> None:
        self.parts = 0
        self.rows = 0
        self._request = request
        self._quarantines = quarantines
        self._range_id = request.range_id
        self._read_through = -1
        self._limits = request.limits
        self._queue = queue
        # The reader adds to both.
        self._files = reader.files
        self._prefixes = reader.transactions.prefixes
        self._entries: dict[TableId, ManifestEntry] = {}
        # Tables with rows that could not be decoded: none of their later rows is decoded.
        self._undecodable: set[TableId] = set()
        # By segment, in the order of the first events: the order in which parts are written.
        self._waiting: dict[int, _Waiting] = {}
        self._pending_bytes = 0

    def add(self, block: EventBlock, columns: RowsColumns, segments: Sequence[Segment]) -> None:
        """Add the captured rows events of a block, in log order; `table` indexes `segments`.

        Raises:
            FormatError: A row image breaks the format.
            StagingError: A part could not be written.
        """
        while len(columns):
            if columns.size[0] >= self._limits.part_bytes_max:
                self._write(self._wait(int(columns.table[0]), segments))
            count = self._until_full(columns, segments)
            now = columns.choose(slice(count))
            for table, piece in by_table(block, now):
                self._wait(table, segments).pending.append(piece)
            self._pending_bytes += int(now.size.sum())
            self._read_through = int(now.row[-1])
            self._flush_full()
            columns = columns.choose(slice(count, None))

    def finish(self, touched: Mapping[TableId, TableInRange]) -> tuple[TableChanges, ...]:
        """Write the remaining events; return the touched tables for the manifest, by name."""
        self._write_all(self._waiting.values())
        self._queue.flush()
        empty, quarantined = ManifestEntry(), self._quarantines.tables
        changes = [
            empty.finish(touched_table, quarantined=True)
            if table in quarantined
            else self._entries.get(table, empty).finish(touched_table, quarantined=False)
            for table, touched_table in touched.items()
        ]
        return tuple(sorted(changes, key=lambda entry: entry.name))

    def _until_full(self, columns: RowsColumns, segments: Sequence[Segment]) -> int:
        left = self._limits.pending_bytes_max - self._pending_bytes
        count = 1 + int(np.searchsorted(np.cumsum(columns.size), left))
        alone = np.flatnonzero(columns.size >= self._limits.part_bytes_max)
        if len(alone):
            count = min(count, max(1, int(alone[0])))
        tables, first, group = np.unique(columns.table, return_index=True, return_inverse=True)
        total = np.bincount(group, weights=columns.size)
        # In the order of the first events: `_wait` keeps it, and parts are written in it.
        order, part_bytes_max = np.argsort(first), self._limits.part_bytes_max
        sizes = zip(order.tolist(), tables[order].tolist(), total[order].tolist(), strict=True)
        for number, index, size in sizes:
            left = part_bytes_max - self._wait(index, segments).pending.bytes
            if size >= left:
                own = np.flatnonzero(group == number)
                full = int(np.searchsorted(np.cumsum(columns.size[own]), left))
                count = min(count, int(own[full]) + 1)
        return min(count, len(columns))

    def _flush_full(self) -> None:
        part_bytes_max = self._limits.part_bytes_max
        for waiting in self._waiting.values():
            if waiting.pending.bytes >= part_bytes_max:
                self._write(waiting)
        if self._pending_bytes < self._limits.pending_bytes_max:
            return
        # The largest first, down to half the limit: few parts are written before they are full.
        largest = sorted(self._waiting.values(), key=lambda waiting: -waiting.pending.bytes)
        left = self._pending_bytes - np.cumsum([waiting.pending.bytes for waiting in largest])
        is_enough = left <= self._limits.pending_bytes_max // 2
        self._write_all(largest[: 1 + int(is_enough.argmax())])

    def _wait(self, index: int, segments: Sequence[Segment]) -> _Waiting:
        waiting = self._waiting.get(index)
        if waiting is None:
            table, schema, layout = segments[index]
            entry = self._entries.setdefault(table, ManifestEntry())
            entry.schemas[schema.id] = schema
            waiting = self._waiting[index] = _Waiting(table, entry, layout, schema)
        return waiting

    def _write_all(self, segments: Iterable[_Waiting]) -> None:
        """Write waiting events; small tables of equal columns are decoded together."""
        # Many small tables of equal columns, as shards have, then cost one decode and not many.
        by_columns: dict[tuple[object, ...], list[_Waiting]] = {}
        for waiting in segments:
            if waiting.table in self._undecodable:
                self._forget(waiting)
            elif waiting.pending.bytes:
                by_columns.setdefault(waiting.layout.columns_and_key, []).append(waiting)
        for alike in by_columns.values():
            sizes = np.array([waiting.pending.bytes for waiting in alike])
            for first, last in batches(sizes, GROUP_BYTES):
                group = alike[first:last]
                if len(group) > 1 and self._write_together(group):
                    continue
                for waiting in group:
                    self._write(waiting)

    def _write_together(self, group: Sequence[_Waiting]) -> bool:
        """Decode tables of equal columns together, and write a part of each.

        False, and nothing is written, where a table takes several parts, or has values to count or
        to refuse.
        """
        layout, memory, pieces = group[0].layout, 0, []
        events, columns, firsts = join([waiting.pending for waiting in group])
        try:
            for _, _, rows in self._pieces(layout, events):
                memory += _memory(rows)
                replaced = rows.unrepresentable or rows.invalid_text
                if replaced or memory >= self._limits.decoded_bytes_max:
                    return False
                pieces.append(rows)
        except BinlogError:
            return False
        for waiting in group:
            self._forget(waiting)
        image = np.concatenate([_number_images(group, rows, firsts) for rows in pieces])
        staged = self._stage(layout, pieces, columns, image, firsts[:-1])
        for number, part in staged.parts():
            self._write_part(group[number], part, small=True)
        return True

    def _forget(self, waiting: _Waiting) -> None:
        self._pending_bytes -= waiting.pending.bytes
        waiting.pending.forget()

    def _write(self, waiting: _Waiting) -> None:
        if waiting.table in self._undecodable:
            self._forget(waiting)
        if not waiting.pending.bytes:
            return
        self._pending_bytes -= waiting.pending.bytes
        events, columns = waiting.pending.take()
        pieces: list[DecodedRows] = []
        begin = stop = memory = 0
        try:
            for first, last, rows in self._pieces(waiting.layout, events):
                waiting.entry.unrepresentable.update(rows.unrepresentable)
                waiting.entry.invalid_text.update(rows.invalid_text)
                # Rows of one event stay in one part: `first` is below `stop` inside an event.
                if memory >= self._limits.decoded_bytes_max and first >= stop:
                    self._write_pieces(waiting, pieces, columns.choose(slice(begin, first)))
                    pieces, begin, memory = [], first, 0
                pieces.append(replace(rows, event=rows.event - np.int32(begin)))
                stop = last
                memory += _memory(rows)
        except BinlogError as error:
            self._quarantine(waiting.table, error, columns)
        else:
            self._write_pieces(waiting, pieces, columns.choose(slice(begin, None)))

    def _quarantine(self, table: TableId, error: BinlogError, columns: RowsColumns) -> None:
        event = error.context.pop("event", None)
        at = event if isinstance(event, int) else 0
        file, offset = self._files[int(columns.file[at])], int(columns.position[at])
        if event is not None:
            error.context |= {"file": file, "offset": offset}
        if not concerns_one_table(error):
            raise error
        self._quarantines.add(table, error, EventRow(int(columns.row[at]), file, offset))
        self._undecodable.add(table)

    def _pieces(
        self, layout: RowLayout, events: RowsEvents
    ) -> Iterator[tuple[int, int, DecodedRows]]:
        return decode_pieces(
            layout,
            events,
            before_images=self._request.before_images,
            rows_max=max(1, self._limits.decoded_bytes_max // (_CHANGE_BYTES + layout.row_bytes)),
        )

    def _stage(
        self,
        layout: RowLayout,
        pieces: Sequence[DecodedRows],
        columns: RowsColumns,
        image: npt.NDArray[np.int32],
        firsts: Sequence[int] = (0,),
    ) -> StagedRows:
        files, prefixes = self._files, self._prefixes
        return StagedRows(
            layout, pieces, columns, image, files=files, prefixes=prefixes, firsts=firsts
        )

    def _write_pieces(
        self, waiting: _Waiting, pieces: Sequence[DecodedRows], columns: RowsColumns
    ) -> None:
        if not pieces:
            return
        number = partial(waiting.entry.number_images, waiting.schema)
        image = [number(rows.image, rows.images) for rows in pieces]
        staged = self._stage(waiting.layout, pieces, columns, np.concatenate(image))
        for _, part in staged.parts():
            self._write_part(waiting, part, replaced=count_replaced(pieces))

    def _write_part(
        self,
        waiting: _Waiting,
        staged: StagedPart,
        *,
        small: bool = False,
        replaced: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        path = part_path(
            waiting.layout.database,
            waiting.layout.table,
            self._request.sequence,
            self.parts,
            self._quarantines.name_range(self._range_id, self._read_through),
        )
        key = part_key(self._request.source_name, path)
        written = self._queue.write(key, staged.table, waiting.schema, small=small)
        part = partial(
            Part,
            path=path,
            schema=waiting.schema.id,
            rows=staged.table.num_rows,
            first_row=staged.first_row,
            last_row=staged.last_row,
            first_commit=staged.first_commit,
            last_commit=staged.last_commit,
            changes=staged.changes,
            replaced=dict(replaced),
        )
        waiting.entry.parts.append(QueuedPart(part, written))
        self.parts += 1
        self.rows += staged.table.num_rows


def _number_images(
    group: Sequence[_Waiting], rows: DecodedRows, firsts: Sequence[int]
) -> npt.NDArray[np.int32]:
    """Return for each row the number of its set of columns; every table has its own numbers."""
    bounds = np.searchsorted(rows.event, firsts)
    if len(rows.images) > 1:
        spans = zip(group, pairwise(bounds.tolist()), strict=True)
        numbers = [
            waiting.entry.number_images(waiting.schema, rows.image[begin:stop], rows.images)
            for waiting, (begin, stop) in spans
        ]
        return np.concatenate(numbers)
    counts = np.diff(bounds)
    [images] = rows.images
    own = zip(group, counts.tolist(), strict=True)
    number = [
        waiting.entry.number(waiting.schema, images) if count else 0 for waiting, count in own
    ]
    return np.repeat(np.array(number, dtype=np.int32), counts)


def _memory(rows: DecodedRows) -> int:
    """Return the bytes of decoded rows with their change columns."""
    return _CHANGE_BYTES * len(rows) + sum(column.nbytes for column in rows.columns)
