"""Stage one bounded range of the log.

source ─blocks─▶ transactions, table maps ─rows events─▶ parts ─▶ manifest
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np

from airflow_provider_binlog.binlog.header import event_name
from airflow_provider_binlog.blocks.captured import TransactionBlock
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.commits import CommitReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids, StagedTransactions
from airflow_provider_binlog.capture.log_range import ProgressReporter
from airflow_provider_binlog.capture.part_maker import PartMaker
from airflow_provider_binlog.capture.quarantine import Quarantines
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.segments import SegmentReader, StatementReader
from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    FormatError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas, schema_before
from airflow_provider_binlog.schema_history.schemas import SchemaReader
from airflow_provider_binlog.schema_history.statements import ServerSchemas
from airflow_provider_binlog.schema_history.tables import Tables
from airflow_provider_binlog.staging.part_writer import PartQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.capture.log_range import ExtractRequest, LogRange
    from airflow_provider_binlog.capture.segments import Segment
    from airflow_provider_binlog.capture.table_parts import RowsColumns
    from airflow_provider_binlog.manifest import Prepared, Statement, TableChanges
    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.schema import TableId
    from airflow_provider_binlog.schema_history.tables import TableInRange
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


def capture_range(log_range: LogRange, source: BlockStream, store: ObjectStore) -> Manifest:
    """Write the parts of a range, and return the manifest that will make them visible.

    The same range always gives the same parts: a repeated call overwrites them with what they
    hold. What the log leaves out of the tables' schemas comes from `read_server_tables` and the
    tables `known` before the range; see `schema_history/schemas.py`.

    What concerns single tables quarantines them: the manifest has none of their rows, and says why.
    Under `OnTableError.FAIL` it is raised instead.

    Raises:
        ServerSetupError: The log does not say enough of a table's columns, and nothing else
            makes it certain.
        UnsupportedError: The range holds changes that are not decoded, and it is not certain of
            which tables, or commits an XA transaction that was prepared before its start and is
            not in `prepared`; the text says what to change.
        ForeignPositionError: Its stop is no boundary between transactions of this log, or a
            transaction was executed before its start.
        FormatError: An event is damaged, or not what its header says, or transactions are missing,
            or its start is no boundary.
        SourceError: The source, or the way to it, failed.
        StagingError: A part could not be written.
    """
    server = open_server_schemas(log_range, source)

    with PartQueue(store) as queue:
        return read_range(log_range, source, server, PartSink(log_range.request, queue))


def open_server_schemas(log_range: LogRange, source: BlockStream) -> ServerSchemas:
    """Return the tables of information_schema, for a range."""
    request = log_range.request
    return ServerSchemas(
        source,
        log_range.changes_stop or request.stop,
        captured=request.tables.matches,
        read_server_tables=request.read_server_tables,
        wants_defaults=request.wants_defaults,
        named=log_range.changes,
        tables=log_range.server_tables,
    )


def read_range(
    log_range: LogRange,
    source: BlockStream,
    server: ServerSchemas,
    parts: RangeSink,
) -> Manifest:
    """Read the range into a sink, and return its manifest.

    Raises:
        BinlogError: As `capture_range`.
    """
    request, stop = log_range.request, log_range.request.stop
    progress = ProgressReporter(request.start, request.bytes_total, request.on_progress)
    fails = request.on_table_error is OnTableError.FAIL
    quarantines = Quarantines(fails=fails)
    reader = _open(log_range, source, server, quarantines)
    statements = StatementReader(request.tables, refuse_tables=quarantines.refuse)
    history = Tables(
        log_range.known,
        captured=request.tables.matches,
        identity=request.identity,
        sequence=request.sequence,
    )
    segments = SegmentReader(history, request.policies, quarantines)
    parts.open(reader, history, quarantines)
    at = request.start
    for logged in bounded(source.blocks(at, stop), stop):
        parts.begin(logged)
        at = Position(logged.file, logged.next_offset, file_created=logged.format.created)
        for captured in reader.read(logged):
            acting = statements.read(captured)
            columns = segments.read(captured, acting, reader.schemas.refused)
            parts.add(captured, columns, segments.segments)
            progress.report(
                Position(captured.block.file, captured.block.next_offset),
                events=reader.events.total(),
                parts=parts.parts,
                rows=parts.rows,
            )
    _check_end(at, stop, reader.transactions)
    tables = parts.finish(history.touched)
    if request.on_tables is not None:
        named = {table.state.name for table in history.touched.values()}
        request.on_tables(request.sequence, reader.tables | named)
    stop = replace(stop, file_created=at.file_created if at.file == stop.file else None)
    return _manifest(
        log_range,
        reader.executed_at(stop),
        reader,
        tables=tables,
        statements=(*segments.in_order(), *quarantines.statements()),
        dropped_databases=tuple(sorted(history.dropped_databases)),
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
        schemas=SchemaReader(server, log_range.schemas or _known_schemas(log_range)),
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


def _known_schemas(log_range: LogRange) -> TrackedSchemas:
    """Return the schemas of captured tables that were known before a range."""
    known, captured = log_range.known, log_range.request.tables.matches
    return TrackedSchemas(lambda name: schema_before(known, name) if captured(*name) else None)


def _manifest(
    log_range: LogRange,
    stop: Position,
    reader: RangeReader,
    *,
    tables: tuple[TableChanges, ...],
    statements: tuple[Statement, ...],
    dropped_databases: tuple[str, ...],
) -> Manifest:
    request = log_range.request
    return Manifest(
        sequence=request.sequence,
        identity=request.identity,
        start=request.start,
        stop=stop,
        before_images=request.before_images,
        zero_dates=request.policies.zero_dates,
        invalid_text=request.policies.invalid_text,
        include=tuple(request.tables.include),
        exclude=tuple(request.tables.exclude),
        captured_since=log_range.captured_since,
        tables=tables,
        statements=statements,
        dropped_databases=dropped_databases,
        events={event_name(code): count for code, count in sorted(reader.events.items())},
        skipped_events=dict(sorted(reader.transactions.skipped.items())),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        created_by=request.created_by,
        prepared=reader.in_doubt,
    )


def _check_end(at: Position, stop: Position, transactions: TransactionReader) -> None:
    if at.coordinates < stop.coordinates and not _is_next_file(at, stop):
        raise ConnectionLostError("the log ended before the range did", at=at, stop=stop)
    if not transactions.at_boundary:
        raise ForeignPositionError("the range ends inside a transaction", stop=stop)


def _is_next_file(at: Position, stop: Position) -> bool:
    """Whether nothing lies between the end of a file and the beginning of the next one."""
    return stop.offset == FIRST_OFFSET and stop.file_number == at.file_number + 1


def executed_at(source: BlockStream, identity: SourceIdentity, position: Position) -> str | None:
    """Return the GTIDs executed before a position, by reading its file up to there.

    None where the log does not say: it was written before the server had GTIDs. Nor does it for the
    beginning of a file, whose first events say it when the range itself is read.

    Raises:
        ForeignPositionError: No event begins at the position.
        BinlogError: As `capture_range`, but no event is refused: the position may have been chosen
            so as to skip those.
    """
    if position.offset == FIRST_OFFSET:
        return None
    transactions, gtids = TransactionReader(), ExecutedGtids(identity.flavor, None)
    for block in bounded(source.blocks(position.file_start, position), position):
        prefix, number = transactions.read_names(block)
        gtids.read(block, prefix, number, transactions.prefixes)
    return gtids.text


def prepared_at(source: BlockStream, position: Position) -> tuple[Prepared, ...]:
    """Return the XA transactions that are in doubt at a position, by reading its file up to there.

    Those that were prepared in an earlier file are not among them. Nor is any where that part of
    the file cannot be decoded: the position may have been chosen so as to skip it.

    Raises:
        ForeignPositionError: No event begins at the position.
        SourceError: The source, or the way to it, failed.
    """
    return prepared_between(source, position.file_start, position)


def prepared_between(source: BlockStream, start: Position, stop: Position) -> tuple[Prepared, ...]:
    """Return the XA transactions that are prepared after one position and in doubt at another.

    Raises:
        As `prepared_at`.
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
    except (FormatError, UnsupportedError):
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
    """Return the events of the block before `stop`."""
    if block.file != stop.file or block.next_offset <= stop.offset:
        return block
    count = int(np.searchsorted(block.offset, stop.offset))
    if count == len(block) or int(block.offset[count]) != stop.offset:
        raise ForeignPositionError("no event begins at this position", position=stop)
    return block.part(0, count)


class RangeSink(Protocol):
    """Consumer of a range: writes its parts, or plans its sub-ranges.

    Attributes:
        parts: Number of parts written.
        rows: Number of change rows in the parts.
    """

    parts: int
    rows: int

    def open(self, reader: RangeReader, tables: Tables, quarantines: Quarantines) -> None:
        """Start the range, with the objects that follow it."""

    def begin(self, logged: EventBlock) -> None:
        """Note that the log was read up to the beginning of a block."""

    def add(
        self, captured: CapturedBlock, columns: RowsColumns, segments: Sequence[Segment]
    ) -> None:
        """Add the captured events of a block; see `PartMaker.add`."""

    def finish(self, touched: Mapping[TableId, TableInRange]) -> tuple[TableChanges, ...]:
        """Finish, and return the tables for the manifest, by name."""


class PartSink(RangeSink):
    """Sink that writes parts."""

    def __init__(self, request: ExtractRequest, queue: PartQueue) -> None:
        self.parts = self.rows = 0
        self._request = request
        self._queue = queue

    def open(self, reader: RangeReader, tables: Tables, quarantines: Quarantines) -> None:  # noqa: ARG002
        """Create the part maker."""
        self._maker = PartMaker(
            self._request,
            self._queue,
            files=reader.files,
            prefixes=reader.transactions.prefixes,
            quarantines=quarantines,
        )

    def begin(self, logged: EventBlock) -> None:
        """Do nothing."""

    def add(
        self, captured: CapturedBlock, columns: RowsColumns, segments: Sequence[Segment]
    ) -> None:
        """Write the parts that are full."""
        self._maker.add(captured.block, columns, segments)
        self.parts, self.rows = self._maker.parts, self._maker.rows

    def finish(self, touched: Mapping[TableId, TableInRange]) -> tuple[TableChanges, ...]:
        """Write the remaining events."""
        return self._maker.finish(touched)
