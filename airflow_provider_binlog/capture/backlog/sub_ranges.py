"""Divide a range into sub-ranges by reading it once, and stage one sub-range.

The plan decodes no rows. A sub-range is staged as parts and a manifest that is not committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.backlog.plan import (
    BacklogPlan,
    DdlStatement,
    NamedTable,
    ServerTable,
    SubRange,
    result_key,
)
from airflow_provider_binlog.capture.capture_range import (
    RangeSink,
    capture_range,
    open_server_schemas,
    read_range,
)
from airflow_provider_binlog.capture.known_tables import known_tables
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.limits import limits_in_bytes
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas, schema_before
from airflow_provider_binlog.schema_history.statements import changes_of
from airflow_provider_binlog.staging.manifest_log import ManifestLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock, LoggedStatement
    from airflow_provider_binlog.capture.log_range import Progress
    from airflow_provider_binlog.capture.quarantine import Quarantines
    from airflow_provider_binlog.capture.range_reader import RangeReader
    from airflow_provider_binlog.capture.segments import Segment
    from airflow_provider_binlog.capture.table_parts import RowsColumns
    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.schema import TableId, TableName
    from airflow_provider_binlog.schema_history.tables import (
        NoTable,
        TableInRange,
        TableLookup,
        Tables,
    )
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


def plan_backlog(log_range: LogRange, source: BlockStream, *, target_bytes: int) -> BacklogPlan:
    """Return the sub-ranges of a range, with what each of them starts with.

    A sub-range is cut at the first boundary of two binlog files after `target_bytes` of log.

    Raises:
        BinlogError: As `capture_range`, for all but the values of rows.
    """
    server, sink = open_server_schemas(log_range, source), _PlanSink(log_range, target_bytes)
    manifest = read_range(log_range, source, server, sink)
    request = log_range.request
    return BacklogPlan(
        source_name=request.source_name,
        identity=request.identity,
        sequence=request.sequence,
        start=request.start,
        stop=manifest.stop,
        include=tuple(request.tables.include),
        exclude=tuple(request.tables.exclude),
        before_images=request.before_images,
        zero_dates=request.policies.zero_dates,
        invalid_text=request.policies.invalid_text,
        on_table_error=request.on_table_error,
        limits=limits_in_bytes(request.limits),
        wants_defaults=request.wants_defaults,
        created_by=request.created_by,
        captured_since=log_range.captured_since,
        files=tuple(sink.reader.files),
        statements=tuple(
            DdlStatement(statement.row, statement.file, statement.offset, statement.query)
            for statement in sink.statements
            if changes_of(statement)
        ),
        sub_ranges=sink.finished(),
        server_tables=ServerTable.of(server.queried()),
    )


class _PlanSink(RangeSink):
    """Sink that keeps the state of the range at boundaries of files."""

    reader: RangeReader

    def __init__(self, log_range: LogRange, target_bytes: int) -> None:
        self.parts = self.rows = 0
        self.statements: list[LoggedStatement] = []
        self._log_range = log_range
        self._target_bytes = target_bytes

    def open(self, reader: RangeReader, tables: Tables, quarantines: Quarantines) -> None:  # noqa: ARG002
        """Start the plan at the beginning of the range."""
        self.reader, self._tables = reader, tables
        self.statements = []
        start = self._log_range.request.start
        self._sub_ranges = [SubRange(start, 0, 0, tuple(self._log_range.prepared), (), ())]
        self._names: dict[TableName, TableState | NoTable] = {}
        self._file, self._at, self._bytes = start.file, start.offset, 0

    def begin(self, logged: EventBlock) -> None:
        """Start a sub-range where a file begins, if the one before it is large enough."""
        if logged.file != self._file:
            at_boundary = self.reader.transactions.at_boundary
            if self._bytes >= self._target_bytes and at_boundary:
                self._cut(logged)
            self._file, self._at = logged.file, FIRST_OFFSET
        self._bytes += logged.next_offset - self._at
        self._at = logged.next_offset

    def add(
        self,
        captured: CapturedBlock,
        columns: RowsColumns,  # noqa: ARG002
        segments: Sequence[Segment],  # noqa: ARG002
    ) -> None:
        """Keep the statements."""
        self.statements += captured.statements

    def finish(self, touched: Mapping[TableId, TableInRange]) -> tuple[TableChanges, ...]:  # noqa: ARG002
        """Return no tables: there are no parts."""
        return ()

    def finished(self) -> tuple[SubRange, ...]:
        """Return the sub-ranges, the last one with its size."""
        return tuple(self._with_size())

    def _with_size(self) -> list[SubRange]:
        return [*self._sub_ranges[:-1], replace(self._sub_ranges[-1], bytes=self._bytes)]

    def _cut(self, logged: EventBlock) -> None:
        position = Position(logged.file, FIRST_OFFSET, file_created=logged.format.created)
        names = self._tables.names
        changed = {name: state for name, state in names.items() if self._names.get(name) != state}
        self._sub_ranges = [
            *self._with_size(),
            SubRange(
                start=self.reader.executed_at(position),
                files=len(self.reader.files),
                bytes=0,
                prepared=self.reader.in_doubt,
                names=tuple(
                    NamedTable(*name, state if isinstance(state, TableState) else None)
                    for name, state in sorted(changed.items(), key=lambda item: item[0])
                ),
                dropped_databases=tuple(sorted(self._tables.dropped_databases)),
            ),
        ]
        self._names, self._bytes = names, 0


def stage_sub_range(
    plan: BacklogPlan,
    number: int,
    source: BlockStream,
    store: ObjectStore,
    *,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Stage a sub-range, and return its manifest; the result of an earlier try is reused.

    Raises:
        BinlogError: As `capture_range`.
    """
    done = find_result(plan, number, store)
    if done is not None:
        return done
    log, sub_range = ManifestLog(store, plan.source_name), plan.sub_ranges[number]
    request = replace(
        plan.request(sub_range.start, plan.stop_of(number)),
        bytes_total=sub_range.bytes,
        on_progress=on_progress,
        sub_range=f"{plan.id}/{number}",
    )
    earlier = log.load(plan.sequence - 1) if plan.sequence > 1 else None
    before = known_tables(store, plan.source_name, log, earlier)
    log_range = LogRange(
        request,
        sub_range.prepared,
        plan.known_at(number, before),
        plan.captured_since,
        plan.files[: sub_range.files],
        _schemas_at(plan, number, before),
        plan.changes,
        plan.stop,
        plan.find_server_tables(),
    )
    manifest = capture_range(log_range, source, store)
    store.write(result_key(plan, number), manifest.encode())
    return manifest


def _schemas_at(plan: BacklogPlan, number: int, before: TableLookup) -> TrackedSchemas:
    """Return the schemas of tables at the start of a sub-range.

    Args:
        plan: The backlog.
        number: Number of the sub-range.
        before: The tables that were known before the backlog.
    """
    captured = TableFilter(plan.include, plan.exclude).matches
    schemas = TrackedSchemas(lambda name: schema_before(before, name) if captured(*name) else None)
    first_row = plan.sub_ranges[number].files << ROW_FILE_SHIFT
    for logged in plan.changes:
        if logged.row < first_row:
            schemas.apply(logged, plan.identity.flavor)
    return schemas


def find_result(plan: BacklogPlan, number: int, store: ObjectStore) -> Manifest | None:
    """Return the manifest of a sub-range; None if it is not staged yet."""
    try:
        return Manifest.decode(store.read(result_key(plan, number)))
    except ObjectMissingError:
        return None
