"""One bounded range of the log, staged: the way of a change on one page.

source ─blocks─▶ transactions, table maps ─rows events─▶ parts ─▶ manifest
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import event_name
from airflow_provider_binlog.binlog.transactions import GroupEnd
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.table_maps import NO_TABLE, TableMapReader
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.capture.known import KnownTransactions
from airflow_provider_binlog.capture.part_maker import PartMaker
from airflow_provider_binlog.capture.pending import RowsColumns
from airflow_provider_binlog.capture.prepared import PreparedTransactions
from airflow_provider_binlog.capture.progress import Progress
from airflow_provider_binlog.capture.rollbacks import RollbackReader, Undone
from airflow_provider_binlog.capture.statements import StatementReader
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    FormatError,
    UnsupportedError,
)
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.schema_history.schemas import Past, SchemaReader

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.capture.log_range import LogRange
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.manifest import Prepared
    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.schema_history.history import LoggedChange
    from airflow_provider_binlog.schema_history.schemas import CatalogReader
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream

_PROGRESS_SECONDS = 5.0

_UNDECIDED = {
    # `PreparedTransactions` takes their changes out.
    GroupEnd.PREPARED: "an XA transaction was prepared in a form that is not known here: report it",
    GroupEnd.CUT: (
        "the file ends inside a transaction: its server crashed, and rolled it back; "
        "take a new snapshot, and begin behind it"
    ),
}
"""Ends of transactions whose changes may not have stayed."""


def capture_range(
    log_range: LogRange,
    source: BlockStream,
    store: ObjectStore,
    *,
    read_catalog: CatalogReader | None = None,
    bytes_total: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Write the parts of a range, and return the manifest that will make them visible.

    The same range always gives the same parts: a repeated call overwrites them with what they
    hold. What the log leaves out of the tables' schemas is told from `read_catalog` and the range's
    `former` manifest; see `schema_history/schemas.py`.

    Raises:
        ServerSetupError: The log does not say enough of a table's columns, and nothing else tells
            it for certain.
        UnsupportedError: The range holds changes that are not decoded, or commits an XA transaction
            that was prepared before its start and is not in `prepared`; the text says what to
            change.
        ForeignPositionError: Its stop is no boundary between transactions of this log, or a
            transaction was executed before its start.
        FormatError: An event is damaged, or not what its header says, or transactions are missing,
            or its start is no boundary.
        SourceError: The source, or the way to it, failed.
        StagingError: A part could not be written.
    """
    past = Past(
        source,
        log_range.stop,
        captured=log_range.tables.matches,
        read_catalog=read_catalog,
        former=log_range.former,
        wants_defaults=log_range.wants_defaults,
    )
    undone = Undone()
    while True:
        staged = _stage(
            log_range,
            source,
            store,
            past=past,
            undone=undone,
            bytes_total=bytes_total,
            on_progress=on_progress,
        )
        if isinstance(staged, Manifest):
            return staged
        if staged is not None:
            past.changes = staged


def _stage(
    log_range: LogRange,
    source: BlockStream,
    store: ObjectStore,
    *,
    past: Past,
    undone: Undone,
    bytes_total: int | None,
    on_progress: Callable[[Progress], None] | None,
) -> Manifest | list[LoggedChange] | None:
    """Stage the range.

    Or return what its statements did, where that had to be known before; or None where what was
    rolled back had to be.
    """
    start, stop, tables = log_range.start, log_range.stop, log_range.tables
    prepared, flavor = log_range.prepared, log_range.identity.flavor
    transactions, table_maps = TransactionReader(), TableMapReader()
    gtids = ExecutedGtids(flavor, start.gtid)
    parts = PartMaker(log_range, store, prefixes=transactions.prefixes)
    report = _Reporter(parts, start, bytes_total, on_progress)
    captured, statements, schemas = _Captured(tables), StatementReader(tables), SchemaReader(past)
    expander, rollbacks = Expander(), RollbackReader(undone)
    known: KnownTransactions | None = None
    if start.logged is not None:
        known = KnownTransactions(flavor, start, keep=[each.gtid for each in prepared])
    two_phase = PreparedTransactions(
        lambda begin: _expanded(source.blocks(begin)),
        wanted=tables.matches,
        undecided=prepared,
        held_bytes_max=log_range.limits.prepared_bytes_max,
    )
    at = start
    for logged in _bounded(source.blocks(start, stop), stop):
        at = Position(logged.file, logged.next_offset)
        fresh = [logged] if known is None else known.fresh(logged)
        expanded = chain.from_iterable(map(expander.expand, fresh))
        for block in chain.from_iterable(map(two_phase.arrange, expanded)):
            if block.file not in parts.files:
                parts.files.append(block.file)
            read = transactions.read(block)
            if known is None:
                # The first entry began in an earlier block.
                gtids.read(block, read.prefix[1:], read.number[1:], transactions.prefixes)
            rows, table = table_maps.read(block, read.of_event, ends_open=read.ends_open)
            chosen = captured.of(table, table_maps)
            rows, table = rows[chosen], table[chosen]
            captured.check_decided(block, read, rows)
            file_index = len(parts.files) - 1
            stayed = rollbacks.stayed(block, read, rows, file_index)
            rows, table = rows[stayed], table[stayed]
            statements.read(block, read, file_index)
            table = schemas.read(
                block, read, rows, table, logged=table_maps.table_maps, file_index=file_index
            )
            if schemas.gave_up:
                continue
            columns = _rows_columns(block, read, rows, table, file_index)
            parts.add(block, columns, schemas.table_maps)
            statements.see_rows(columns, schemas.table_maps, parts.schema_of)
            report(Position(block.file, block.next_offset), expander.events)
    _check_end(at, stop, transactions)
    if schemas.gave_up:
        return schemas.changes
    if rollbacks.late:
        return None
    return Manifest(
        sequence=log_range.sequence,
        identity=log_range.identity,
        start=start,
        stop=replace(stop, gtid=gtids.text) if known is None else known.at(stop),
        before_images=log_range.before_images,
        zero_dates=log_range.policies.zero_dates,
        invalid_text=log_range.policies.invalid_text,
        include=tuple(tables.include),
        exclude=tuple(tables.exclude),
        tables=parts.finish(),
        statements=tuple(statements.found),
        events={event_name(code): count for code, count in sorted(expander.events.items())},
        skipped_events=dict(sorted(transactions.skipped.items())),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        created_by=log_range.created_by,
        prepared=two_phase.undecided,
    )


def _check_end(at: Position, stop: Position, transactions: TransactionReader) -> None:
    if at.coordinates < stop.coordinates and not _is_next_file(at, stop):
        raise ConnectionLostError("the log ended before the range did", at=at, stop=stop)
    if not transactions.at_boundary:
        raise ForeignPositionError("the range ends inside a transaction", stop=stop)


def executed_at(source: BlockStream, identity: SourceIdentity, position: Position) -> str | None:
    """Return the GTIDs executed before a position, by reading its file up to there.

    None where the log does not say: it was written before the server had GTIDs. Nor does it for the
    beginning of a file, whose first events say it when the range itself is read.

    Raises:
        ForeignPositionError: No event begins at the position.
        BinlogError: As `capture_range`, but no event is refused: the position may have been chosen
            to leave those behind.
    """
    if position.offset == FIRST_OFFSET:
        return None
    transactions, gtids = TransactionReader(), ExecutedGtids(identity.flavor, None)
    for block in _bounded(source.blocks(Position(position.file, FIRST_OFFSET), position), position):
        prefix, number = transactions.read_names(block)
        gtids.read(block, prefix, number, transactions.prefixes)
    return gtids.text


def prepared_at(source: BlockStream, position: Position) -> tuple[Prepared, ...]:
    """Return the XA transactions that are undecided at a position, by reading its file up to there.

    Those that were prepared in an earlier file are not among them. Nor is any where that part of
    the file cannot be decoded: the position may have been chosen to leave it behind.

    Raises:
        ForeignPositionError: No event begins at the position.
        SourceError: The source, or the way to it, failed.
    """
    return prepared_between(source, Position(position.file, FIRST_OFFSET), position)


def prepared_between(source: BlockStream, begin: Position, end: Position) -> tuple[Prepared, ...]:
    """Return the XA transactions that are prepared behind one position and undecided at another.

    Raises:
        As `prepared_at`.
    """
    if begin.coordinates == end.coordinates:
        return ()
    two_phase = PreparedTransactions(
        lambda _: iter(()),
        wanted=lambda *_: False,
        refuse=lambda *_: None,
        held_bytes_max=0,
    )
    try:
        for block in _expanded(_bounded(source.blocks(begin, end), end)):
            for _ in two_phase.arrange(block):
                pass
    except (FormatError, UnsupportedError):
        return ()
    return two_phase.undecided


def _expanded(blocks: Iterator[EventBlock]) -> Iterator[EventBlock]:
    return chain.from_iterable(map(Expander().expand, blocks))


def _bounded(blocks: Iterator[EventBlock], stop: Position) -> Iterator[EventBlock]:
    """Yield the blocks up to `stop`, the last one cut there."""
    for block in blocks:
        if Position(block.file, FIRST_OFFSET).coordinates >= stop.coordinates:
            return
        bounded = _cut(block, stop)
        if len(bounded):
            yield bounded
        if len(bounded) < len(block):
            return


def _cut(block: EventBlock, stop: Position) -> EventBlock:
    """Return the events of the block before `stop`."""
    if block.file != stop.file or block.next_offset <= stop.offset:
        return block
    count = int(np.searchsorted(block.offset, stop.offset))
    if count == len(block) or int(block.offset[count]) != stop.offset:
        raise ForeignPositionError("no event begins at this position", position=stop)
    return block.part(0, count)


def _is_next_file(at: Position, stop: Position) -> bool:
    """Whether nothing lies between the end of a file and the beginning of the next one."""
    return stop.offset == FIRST_OFFSET and stop.file_number == at.file_number + 1


class _Captured:
    """Tells the rows events of captured tables, and refuses those whose fate is open."""

    def __init__(self, tables: TableFilter) -> None:
        self._tables = tables
        self._wanted: list[bool] = []
        self._open_has_rows = False

    def of(self, table: npt.NDArray[np.int64], table_maps: TableMapReader) -> npt.NDArray[np.bool_]:
        """Return which of these rows events are of captured tables."""
        for table_map in table_maps.table_maps[len(self._wanted) :]:
            self._wanted.append(self._tables.matches(table_map.database, table_map.table))
        if not self._wanted:
            return np.zeros(len(table), dtype=bool)
        wanted: npt.NDArray[np.bool_] = np.array(self._wanted)[table] & (table != NO_TABLE)
        return wanted

    def check_decided(
        self, block: EventBlock, read: Transactions, rows: npt.NDArray[np.int64]
    ) -> None:
        """Refuse captured changes in transactions that may not have come to stay.

        Raises:
            UnsupportedError: There is such a transaction; says what to change.
        """
        of_rows = read.of_event[rows]
        for event, seen in read.scanned.items():
            reason = undecided_reason(seen)
            if reason is None:
                continue
            transaction = int(read.of_event[event])
            carried = transaction == 0 and self._open_has_rows
            if carried or (of_rows[rows < event] == transaction).any():
                raise UnsupportedError(
                    reason, file=block.file, offset=int(block.offset[event]), xid=seen.xid
                )
        last = int(read.of_event[-1])
        has_rows = bool((of_rows == last).any()) or (last == 0 and self._open_has_rows)
        self._open_has_rows = read.ends_open and has_rows


def undecided_reason(seen: Scanned) -> str | None:
    """Return why changes of the transaction that ends here may not have stayed; None if they have.

    `RollbackReader` knows of those that were rolled back.
    """
    return _UNDECIDED.get(seen.end) if seen.end is not None else None


def _rows_columns(
    block: EventBlock,
    read: Transactions,
    rows: npt.NDArray[np.int64],
    table: npt.NDArray[np.int64],
    file_index: int,
) -> RowsColumns:
    transaction = read.of_event[rows]
    return RowsColumns(
        event=rows,
        size=block.size[rows] - block.format.checksum_size,
        table=table,
        file=np.full(len(rows), file_index, dtype=np.int64),
        position=block.offset[rows],
        place=block.expanded_offset[rows],
        prefix=read.prefix[transaction],
        number=read.number[transaction],
        commit_ts=read.commit_ts[transaction],
    )


class _Reporter:
    """Tells now and then how far the range has come."""

    def __init__(
        self,
        parts: PartMaker,
        start: Position,
        bytes_total: int | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._parts = parts
        self._bytes_total = bytes_total
        self._on_progress = on_progress
        self._began = self._told = time.monotonic()
        self._read = 0
        self._last = start

    def __call__(self, at: Position, events: Counter[int]) -> None:
        """Take note of where the range has come to."""
        self._read += at.offset - (self._last.offset if self._last.file == at.file else 0)
        self._last = at
        now = time.monotonic()
        if self._on_progress is None or now - self._told < _PROGRESS_SECONDS:
            return
        self._told = now
        self._on_progress(
            Progress(
                file=at.file,
                offset=at.offset,
                bytes=self._read,
                bytes_total=self._bytes_total,
                events=events.total(),
                parts=self._parts.parts,
                rows=self._parts.rows,
                seconds=now - self._began,
            )
        )
