"""The parts of one table: its waiting rows events, its rows as staged, its entry in the manifest.

A table with three rows in each block must not mean a tiny decode per block: the events of a table
wait as bytes, over blocks and files, and are decoded together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.blocks.arrays import bytes_of, dictionary, gather, of_numbers, of_texts
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.captured import CapturedBlock
from airflow_provider_binlog.blocks.transactions import NO_NAME
from airflow_provider_binlog.changes import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
    ChangeType,
)
from airflow_provider_binlog.manifest import TableChanges
from airflow_provider_binlog.rows.decode import DecodedRows, RowsEvents
from airflow_provider_binlog.rows.images.partial import first_rows
from airflow_provider_binlog.rows.layout import RowLayout
from airflow_provider_binlog.rows.values import Array, Int64Array
from airflow_provider_binlog.schema import Schema
from airflow_provider_binlog.schema_history.tables import TableInRange
from airflow_provider_binlog.staging.part_writer import QueuedPart

CHANGE_TYPES = tuple(ChangeType)
"""The change types in the order of `DecodedRows.change`."""

_TYPE_NAMES = [change_type.value for change_type in CHANGE_TYPES]


class StagedPart(NamedTuple):
    """The rows of one part, at least one, with their totals for the manifest: see `Part`."""

    table: pa.Table
    first_row: int
    last_row: int
    first_commit: int
    last_commit: int
    changes: dict[str, int]


class StagedRows:
    """Decoded rows with their change columns, of one table or of several with equal columns."""

    def __init__(
        self,
        layout: RowLayout,
        pieces: Sequence[DecodedRows],
        events: RowsColumns,
        image: npt.NDArray[np.int32],
        *,
        files: Sequence[str],
        prefixes: Sequence[str],
        firsts: Sequence[int] = (0,),
    ) -> None:
        """Join decoded rows, one piece at least, with the columns of their events.

        Args:
            layout: The columns of the table.
            pieces: Decoded rows, in order.
            events: The events that `event` of the rows indexes.
            image: Per row, its table's number for the set of columns in it.
            files: The range's files, by `events.file`.
            prefixes: Prefixes of GTIDs, by `events.prefix`.
            firsts: The first event of each table.
        """
        event, offset, self._change = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("event", "offset", "change")
        )
        self._bounds = np.append(np.searchsorted(event, firsts), len(event))
        self._row = events.row[event] + offset
        self._commit_ts = events.commit_ts[event]
        columns: list[pa.ChunkedArray[Any]] = [
            pa.chunked_array([piece.columns[index] for piece in pieces])
            for index in range(len(layout.read))
        ]
        change = {
            CHANGE_TYPE: dictionary(
                of_numbers(self._change.astype(np.int8)), of_texts(CHANGE_TYPES)
            ),
            COMMIT_TS: of_numbers(self._commit_ts).view(pa.timestamp("us", "UTC")),
            FILE: dictionary(of_numbers(events.file[event].astype(np.int32)), of_texts(files)),
            POSITION: of_numbers(events.position[event]),
            ROW: of_numbers(self._row),
            IMAGE: of_numbers(image),
        }
        self._gtids = _Gtids(events, prefixes, firsts)
        self._transaction = self._gtids.transaction[event]
        self._with_gtids = self._gtids.differ(np.diff(self._bounds))
        self._gtids_at = len(columns) + CHANGE_COLUMNS.index(GTID)
        if self._with_gtids:
            change[GTID] = self._gtids.plain(self._transaction)
        names = [name for name in CHANGE_COLUMNS if name in change]
        self._rows = pa.Table.from_arrays(
            [*columns, *(change[name] for name in names)],
            names=[*layout.schema.names, *names],
        )

    def parts(self) -> Iterator[tuple[int, StagedPart]]:
        """Yield the part of each table that has rows, with the table's index in `firsts`."""
        tables = np.flatnonzero(np.diff(self._bounds))
        if not len(tables):
            return
        begin, stop = self._bounds[tables], self._bounds[tables + 1]
        kind = len(CHANGE_TYPES) * np.repeat(np.arange(len(tables)), stop - begin) + self._change
        changes = np.bincount(kind, minlength=len(CHANGE_TYPES) * len(tables))
        facts = zip(
            self._row[begin].tolist(),
            self._row[stop - 1].tolist(),
            np.minimum.reduceat(self._commit_ts, begin).tolist(),
            np.maximum.reduceat(self._commit_ts, begin).tolist(),
            map(_by_type, changes.reshape(len(tables), -1).tolist()),
            strict=True,
        )
        for number, at, end, own in zip(
            tables.tolist(), begin.tolist(), stop.tolist(), facts, strict=True
        ):
            rows = self._rows.slice(at, end - at)
            if not self._with_gtids:
                gtids = self._gtids.of(number, self._transaction[at:end])
                rows = rows.add_column(self._gtids_at, GTID, gtids)
            yield number, StagedPart(rows, *own)


class _Gtids:
    """GTIDs of events; `transaction` is int32, per event the index of its text.

    The text is built once per transaction and table.
    """

    def __init__(self, events: RowsColumns, prefixes: Sequence[str], firsts: Sequence[int]) -> None:
        prefix, number = events.prefix, events.number
        begins = np.ones(len(prefix), dtype=bool)
        np.logical_or(prefix[1:] != prefix[:-1], number[1:] != number[:-1], out=begins[1:])
        begins[np.array(firsts)] = True
        self.transaction = np.cumsum(begins, dtype=np.int32) - np.int32(1)
        self._bounds = np.append(self.transaction[np.array(firsts)], self.transaction[-1] + 1)
        first = prefix[begins]
        self._nameless = first == NO_NAME
        # Transactions without a GTID have a text as well, though no row shows it. It is always the
        # same: it is in the part's bytes, and the numbers of prefixes depend on block boundaries.
        starts: Array = of_numbers(np.where(self._nameless, len(prefixes), first))
        ends: Array = of_numbers(np.where(self._nameless, 0, number[begins]))
        named: Array = of_texts([*prefixes, ""]).take(starts)
        self._texts: Array = pc.binary_join_element_wise(
            named, ends.cast(pa.string()), of_texts([""])[0]
        )

    def differ(self, rows: npt.NDArray[np.int64]) -> bool:
        """Whether no table has two rows or more of each transaction, given how many rows it has."""
        return bool((2 * np.diff(self._bounds) > rows).all())

    def plain(self, transaction: npt.NDArray[np.int32]) -> Array:
        return self._texts.take(of_numbers(transaction, self._nameless[transaction]))

    def of(self, table: int, transaction: npt.NDArray[np.int32]) -> Array:
        begin, stop = self._bounds[table : table + 2].tolist()
        if 2 * (stop - begin) > len(transaction):
            return self.plain(transaction)
        # Parquet takes no dictionary with a null in it.
        index: Array = of_numbers(transaction - np.int32(begin), self._nameless[transaction])
        return dictionary(index, self._texts.slice(begin, stop - begin))


def _by_type(counts: Sequence[int]) -> dict[str, int]:
    return {name: count for name, count in zip(_TYPE_NAMES, counts, strict=True) if count}


# Events of one table are not copied if a block has at most so many times their bytes.
_DENSE = 1.5

# Columns of `RowsColumns`, stacked.
_START, _SIZE = 0, 1


@dataclass(frozen=True)
class RowsColumns:
    """Columns about rows events; one entry per event, in log order.

    Attributes:
        start: int64; offset of the event in the bytes that hold it.
        size: int64; bytes of the event, without its checksum.
        type: int64; type code.
        table: int64; index of the table map, or of the segment.
        file: int64; index into the range's files.
        position: int64; offset in the file.
        row: int64; the number from which its rows are numbered.
        prefix, number: int64; its transaction's GTID, as in `Transactions`.
        commit_ts: int64; microseconds since 1970.
    """

    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    type: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    file: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    prefix: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    commit_ts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, captured: CapturedBlock) -> RowsColumns:
        """Return the columns of a block's captured rows events."""
        block, events, transactions = captured.block, captured.events, captured.transactions
        transaction = captured.transaction
        return cls(
            start=block.start[events],
            size=block.size[events] - block.format.checksum_size,
            type=block.type[events].astype(np.int64),
            table=captured.table,
            file=np.full(len(events), captured.file_index, dtype=np.int64),
            position=block.offset[events],
            row=captured.row,
            prefix=transactions.prefix[transaction],
            number=transactions.number[transaction],
            commit_ts=transactions.commit_ts[transaction],
        )

    def __len__(self) -> int:
        """Number of events."""
        return len(self.start)

    def choose(self, chosen: slice | npt.NDArray[np.int64]) -> RowsColumns:
        """Return the columns of some of the events."""
        return RowsColumns(*(column[chosen] for column in vars(self).values()))

    @property
    def stacked(self) -> Int64Array:
        """The columns as int64[events, columns]; the inverse is `RowsColumns(*stacked.T)`."""
        # Many tables take a slice of each block: one slice of one array, not one per column.
        return np.stack(list(vars(self).values()), axis=1)


class PendingPiece(NamedTuple):
    """Rows events of one table and one block.

    Attributes:
        data: uint8; bytes from the first event on.
        span: Bytes from the start of the first event to the end of the last one.
        size: Bytes without the gaps between events.
        events: `RowsColumns`, stacked; `start` counts from the beginning of `data`.
    """

    data: npt.NDArray[np.uint8]
    span: int
    size: int
    events: Int64Array


class PendingEvents:
    """The waiting rows events of one table with one schema, and their bytes without gaps."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Discard all events."""
        self.bytes = 0
        self.pieces: list[PendingPiece] = []

    def append(self, piece: PendingPiece) -> None:
        """Add events; the memory that holds them stays alive."""
        self.pieces.append(piece)
        self.bytes += piece.size

    def take(self) -> tuple[RowsEvents, RowsColumns]:
        """Return the events, ready to be decoded, and discard them here."""
        pieces = self.pieces
        self.forget()
        return _join(pieces)


def join(tables: Sequence[PendingEvents]) -> tuple[RowsEvents, RowsColumns, list[int]]:
    """Return the events of tables of equal columns, table after table, without discarding any.

    The list has the index of each table's first event, then the number of events.
    """
    counts = [sum([len(piece.events) for piece in table.pieces]) for table in tables]
    events, columns = _join([piece for table in tables for piece in table.pieces])
    return events, columns, list(accumulate(counts, initial=0))


def _join(pieces: Sequence[PendingPiece]) -> tuple[RowsEvents, RowsColumns]:
    """Return the events of all pieces, copied if there are several."""
    data, stacked = pieces[0].data, pieces[0].events
    if len(pieces) > 1:
        spans = [piece.data[: piece.span] for piece in pieces]
        data = np.concatenate([*spans, np.zeros(SLACK, dtype=np.uint8)])
        stacked = np.concatenate([piece.events for piece in pieces])
        begin = list(accumulate([piece.span for piece in pieces[:-1]], initial=0))
        stacked[:, _START] += np.repeat(begin, [len(piece.events) for piece in pieces])
    columns = RowsColumns(*np.ascontiguousarray(stacked.T))
    end, types = columns.start + columns.size, columns.type.astype(np.uint8)
    return RowsEvents(data, columns.start, end, types), columns


def by_table(block: EventBlock, columns: RowsColumns) -> Iterator[tuple[int, PendingPiece]]:
    """Yield events of a block table by table.

    Events of one table that fill most of the block are not copied. Otherwise the events of all
    tables are copied at once, so that waiting events keep no other bytes alive.
    """
    order = np.argsort(columns.table, kind="stable")
    table = columns.table[order]
    first = np.flatnonzero(np.diff(table, prepend=-1))
    size, end = int(columns.size.sum()), columns.start + columns.size
    if len(first) == 1 and size * _DENSE > len(block.data):
        at, stacked = int(columns.start[0]), columns.stacked
        stacked[:, _START] -= at
        piece = PendingPiece(block.data[at:], int(end[-1]) - at, size, stacked)
        yield int(table[0]), piece
        return
    data = bytes_of(gather(block.data, columns.start, end, order))
    stacked = columns.stacked[order]
    upto = np.cumsum(stacked[:, _SIZE])
    start = upto - stacked[:, _SIZE]
    begin = start[first]
    stacked[:, _START] = start - np.repeat(begin, np.diff(first, append=len(order)))
    events = pairwise([*first.tolist(), len(order)])
    spans = pairwise([*begin.tolist(), len(data)])
    for index, own, (at, stop) in zip(table[first].tolist(), events, spans, strict=True):
        piece_data, piece_events = data[at:stop], stacked[slice(*own)]
        if len(first) > 1:
            # Tables are written at different times: a slice would keep the others' bytes alive.
            piece_data, piece_events = piece_data.copy(), piece_events.copy()
        yield index, PendingPiece(piece_data, stop - at, stop - at, piece_events)


@dataclass
class ManifestEntry:
    """Manifest entry of a table, collected as its parts are written.

    Attributes:
        images: Number of each set of columns in row images, by the fields' ids.
        parts: Parts that lack the size and hash of their files, which are still being written.
        unrepresentable, invalid_text: Number of values that no lake type holds, by column.
    """

    schemas: dict[int, Schema] = field(default_factory=dict)
    images: dict[tuple[int, ...], int] = field(default_factory=dict)
    parts: list[QueuedPart] = field(default_factory=list)
    unrepresentable: Counter[str] = field(default_factory=Counter)
    invalid_text: Counter[str] = field(default_factory=Counter)

    def number_images(
        self, schema: Schema, image: npt.NDArray[np.int32], images: Sequence[tuple[int, ...]]
    ) -> npt.NDArray[np.int32]:
        """Return the number of each row's set of columns; new sets are numbered in row order.

        `images` are sets of indexes of columns, and `image` is int32, the index of each row's set.
        """
        first = first_rows(image, len(images))
        numbers = np.zeros(len(first), dtype=np.int32)
        for index in np.argsort(first)[: np.count_nonzero(first < len(image))].tolist():
            numbers[index] = self.number(schema, images[index])
        return numbers[image]

    def number(self, schema: Schema, image: tuple[int, ...]) -> int:
        """Return the number of a set of columns, given by their indexes; number a new set."""
        fields = schema.fields
        ids = tuple([fields[column].id for column in image])
        return self.images.setdefault(ids, len(self.images))

    def finish(self, touched: TableInRange, *, quarantined: bool) -> TableChanges:
        """Return the entry of a table whose parts are all queued; wait for their files.

        Raises:
            StagingError: A part could not be written.
        """
        state, schemas = touched.state, dict(self.schemas)
        if quarantined:  # the log does not hold all rows since the table was created
            state = replace(state, created=None)
        if state.schema is not None:
            schemas[state.schema.id] = state.schema.staged
        return TableChanges(
            id=state.id,
            database=state.name[0],
            table=state.name[1],
            dropped=touched.dropped,
            created=state.created,
            schemas=tuple(schema for _, schema in sorted(schemas.items())),
            current=None if state.schema is None else state.schema.id,
            last_field_id=state.last_field_id,
            logged=state.logged,
            changed=touched.dropped or state != touched.before,
            images=tuple(self.images),
            # A segment of few rows may be written after a segment that follows it in the log.
            parts=tuple(sorted(map(QueuedPart.wait, self.parts), key=lambda part: part.first_row)),
            unrepresentable=dict(sorted(self.unrepresentable.items())),
            invalid_text=dict(sorted(self.invalid_text.items())),
        )


def count_replaced(pieces: Sequence[DecodedRows]) -> dict[str, int]:
    """Return the number of values that no lake type holds, by column."""
    counts: Counter[str] = Counter()
    for rows in pieces:
        counts.update(rows.unrepresentable)
        counts.update(rows.invalid_text)
    return dict(sorted(counts.items()))
