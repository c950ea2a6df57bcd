"""Stage one bounded range of the log.

source ─blocks─▶ transactions, table maps ─rows events─▶ parts ─▶ manifest
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.header import event_name
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.blocks.captured import CapturedBlock, TransactionBlock
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.commits import CommitReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids, StagedTransactions
from airflow_provider_binlog.capture.log_range import LogRange, TableFilter
from airflow_provider_binlog.capture.part_maker import PartMaker
from airflow_provider_binlog.capture.quarantine import Quarantines
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.segments import Segment, SegmentReader, captured_statements
from airflow_provider_binlog.capture.table_parts import RowsColumns
from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest, Prepared, TableChanges
from airflow_provider_binlog.position import FIRST_OFFSET, Position, SourceIdentity
from airflow_provider_binlog.read_progress import ProgressReporter
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas, schema_before
from airflow_provider_binlog.schema_history.schemas import SchemaReader
from airflow_provider_binlog.schema_history.statements import ServerSchemas
from airflow_provider_binlog.schema_history.tables import TableLookup, Tables
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.part_writer import PartQueue
from airflow_provider_binlog.stored_json import utc_now
from airflow_provider_binlog.transport.block_stream import BlockStream


def capture_range(log_range: LogRange, source: BlockStream, store: ObjectStore) -> Manifest:
    """Write the parts of a range, and return the manifest that will make them visible.

    The same range always gives the same parts: a repeated call overwrites them with what they
    hold. What concerns single tables quarantines them, or is raised under `OnTableError.FAIL`.

    Raises:
        ServerSetupError: The columns of a table cannot be determined.
        UnsupportedError: The range holds changes that are not decoded, and it is not certain of
            which tables, or commits an XA transaction that was prepared before its start and is
            not in `prepared`.
        ForeignPositionError: Its stop is no boundary between transactions of this log, or a
            transaction was executed before its start.
        FormatError: An event is damaged, or not what its header says, or transactions are missing,
            or its start is no boundary.
        SourceError: The source, or the way to it, failed.
        StagingError: A part could not be written.
    """
    opened = OpenRange(log_range, source)
    with PartQueue(store) as queue:
        maker = PartMaker(log_range.request, queue, opened.reader, opened.quarantines)
        for logged in opened.blocks():
            for captured, columns in opened.read(logged):
                maker.add(captured.block, columns, opened.segments)
                opened.report(captured, rows=maker.rows)
        return opened.finish(maker.finish(opened.tables.touched))


class OpenRange:
    """A range that is being read, block by block.

    Attributes:
        server: Tables of information_schema.
        reader: Reads the captured rows events.
        tables: Tables and their names up to the last block.
        quarantines: Tables that cannot be captured.
    """

    def __init__(self, log_range: LogRange, source: BlockStream) -> None:
        request = log_range.request
        captured = request.tables.matches
        self.server = ServerSchemas(
            source,
            log_range.changes_stop or request.stop,
            read_server_tables=request.read_server_tables,
            wants_defaults=request.wants_defaults,
            named=log_range.changes,
            tables=log_range.server_tables,
        )
        self.tables = Tables(
            log_range.known,
            captured=captured,
            identity=request.identity,
            sequence=request.sequence,
            columns=request.columns,
        )
        self.quarantines = Quarantines(fails=request.on_table_error is OnTableError.FAIL)
        self.reader = _open(log_range, source, self.server, self.quarantines)
        self._log_range = log_range
        self._source = source
        self._segments = SegmentReader(
            self.tables, request.policies, self.quarantines, request.columns
        )
        self._progress = ProgressReporter(request.bytes_total, "bytes", request.on_progress)
        self._at = self._reported = request.start

    @property
    def segments(self) -> Sequence[Segment]:
        """Segments so far, which `table` of the columns indexes."""
        return self._segments.segments

    def blocks(self) -> Iterator[EventBlock]:
        """Yield the blocks of the range; read each before the next one."""
        start, stop = self._log_range.request.start, self._log_range.request.stop
        for logged in bounded(self._source.blocks(start, stop), stop):
            self._at = Position(logged.file, logged.next_offset, file_created=logged.format.created)
            yield logged

    def read(self, logged: EventBlock) -> Iterator[tuple[CapturedBlock, RowsColumns]]:
        """Yield what is captured of a block, with the rows events that can be decoded."""
        for captured in self.reader.read(logged):
            statements = captured_statements(
                captured, self._log_range.request.tables, refuse_tables=self.quarantines.refuse
            )
            columns = self._segments.read(captured, statements, self.reader.schemas.refused)
            yield captured, columns

    def report(self, captured: CapturedBlock, *, rows: int) -> None:
        """Report the progress: `rows` of the range so far."""
        at, before = Position(captured.block.file, captured.block.next_offset), self._reported
        size = at.offset - (before.offset if before.file == at.file else 0)
        self._progress.add(size, rows=rows - self._progress.rows, at=f"{at.file}:{at.offset}")
        self._reported = at

    def finish(self, tables: tuple[TableChanges, ...]) -> Manifest:
        """Return the manifest, once all blocks are read.

        Raises:
            ConnectionLostError, ForeignPositionError: The log does not end where the range does.
        """
        request, reader, at = self._log_range.request, self.reader, self._at
        _check_end(at, request.stop, reader.transactions)
        if request.on_tables is not None:
            named = {table.state.name for table in self.tables.touched.values()}
            request.on_tables(request.sequence, reader.tables | named)
        is_in_file = at.file == request.stop.file
        stop = replace(request.stop, file_created=at.file_created if is_in_file else None)
        return Manifest(
            sequence=request.sequence,
            identity=request.identity,
            start=request.start,
            stop=reader.executed_at(stop),
            before_images=request.before_images,
            zero_dates=request.policies.zero_dates,
            invalid_text=request.policies.invalid_text,
            include=tuple(request.tables.include),
            exclude=tuple(request.tables.exclude),
            columns=request.columns.options,
            captured_since=self._log_range.captured_since,
            tables=tables,
            statements=(*self._segments.in_order(), *self.quarantines.statements()),
            dropped_databases=tuple(sorted(self.tables.dropped_databases)),
            events={event_name(code): count for code, count in sorted(reader.events.items())},
            skipped_events=dict(sorted(reader.transactions.skipped.items())),
            created_at=utc_now(),
            created_by=request.created_by,
            prepared=reader.in_doubt,
        )


def _open(
    log_range: LogRange,
    source: BlockStream,
    server: ServerSchemas,
    quarantines: Quarantines,
) -> RangeReader:
    request, start = log_range.request, log_range.request.start
    flavor, matches = request.identity.flavor, request.tables.matches
    staged: StagedTransactions | None = None
    if start.logged is not None:
        keep = [xa.gtid for xa in log_range.prepared]
        staged = StagedTransactions(flavor, start, keep=keep)
    return RangeReader(
        captured=matches,
        schemas=SchemaReader(
            server, log_range.schemas or tracked_schemas(log_range.known, request.tables)
        ),
        commits=CommitReader(
            lambda begin: expanded(source.blocks(begin)),
            wanted=matches,
            in_doubt=log_range.prepared,
            refuse_tables=quarantines.refuse,
            buffered_bytes_max=request.limits.prepared_bytes_max,
        ),
        gtids=ExecutedGtids(flavor, start.gtid) if staged is None else None,
        staged=staged,
        skips=request.tables.leaves_out,
        files=log_range.files,
    )


def tracked_schemas(known: TableLookup, tables: TableFilter) -> TrackedSchemas:
    """Return the schemas of the captured ones of known tables, for statements to change."""
    return TrackedSchemas(
        lambda name: schema_before(known, name) if tables.matches(*name) else None
    )


def _check_end(at: Position, stop: Position, transactions: TransactionReader) -> None:
    if at.coordinates < stop.coordinates and not _is_next_file(at, stop):
        raise errors.ConnectionLostError("the log ended before the range did", at=at, stop=stop)
    if not transactions.at_boundary:
        raise errors.ForeignPositionError("the range ends inside a transaction", stop=stop)


def _is_next_file(at: Position, stop: Position) -> bool:
    return stop.offset == FIRST_OFFSET and stop.file_number == at.file_number + 1


def executed_at(source: BlockStream, identity: SourceIdentity, position: Position) -> str | None:
    """Return the GTIDs executed before a position, by reading its file up to there.

    None where the log was written before the server had GTIDs, and at the beginning of a file: its
    first events say it when the range itself is read.

    Raises:
        BinlogError: No event begins at the position, or as `capture_range`; but no event is
            refused: the position may have been chosen to skip it.
    """
    if position.offset == FIRST_OFFSET:
        return None
    transactions, gtids = TransactionReader(), ExecutedGtids(identity.flavor, None)
    for block in bounded(source.blocks(position.file_start, position), position):
        prefix, number = transactions.read_names(block)
        gtids.read(block, prefix, number, transactions.prefixes)
    return gtids.text


def prepared_between(source: BlockStream, start: Position, stop: Position) -> tuple[Prepared, ...]:
    """Return the XA transactions that are prepared after one position and in doubt at another.

    Empty where that part of the log cannot be decoded: the stop may have been chosen to skip it.

    Raises:
        ForeignPositionError: No event begins at the stop.
        SourceError: The source, or the way to it, failed.
    """
    if start.coordinates == stop.coordinates:
        return ()
    transactions = TransactionReader(refuse=lambda _: None)
    commits = CommitReader(
        lambda begin: expanded(source.blocks(begin)),
        wanted=lambda *_: False,
        refuse=lambda *_: None,
        buffered_bytes_max=Limits().prepared_bytes_max,
    )
    try:
        for block in expanded(bounded(source.blocks(start, stop), stop)):
            for _ in commits.arrange(TransactionBlock(block, transactions.read(block))):
                pass
    except (errors.FormatError, errors.UnsupportedError):
        return ()
    return commits.in_doubt


def expanded(blocks: Iterator[EventBlock]) -> Iterator[EventBlock]:
    """Yield the events of a log, with those of its compressed transactions."""
    return chain.from_iterable(map(Expander().expand, blocks))


def bounded(blocks: Iterator[EventBlock], stop: Position) -> Iterator[EventBlock]:
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
    if block.file != stop.file or block.next_offset <= stop.offset:
        return block
    count = int(np.searchsorted(block.offset, stop.offset))
    if count == len(block) or int(block.offset[count]) != stop.offset:
        raise errors.ForeignPositionError("no event begins at this position", position=stop)
    return block.part(0, count)
