"""What a run stages, and one range of it: the log between two positions, as one manifest."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_binlog import __version__
from airflow_provider_binlog.changes import DEFAULT_POLICIES, OnTableError, Policies
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.schema_history.tables import NOTHING_KNOWN, TableLookup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.changes import BeforeImages
    from airflow_provider_binlog.manifest import Prepared
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas
    from airflow_provider_binlog.schema_history.statements import LoggedChange, ServerTablesReader
    from airflow_provider_binlog.transport.server.information_schema import ServerTables


@dataclass(frozen=True)
class ExtractRequest:
    """What to stage, and how.

    Attributes:
        start: Where to start, a boundary between two transactions: everything before it is staged.
        stop: Where to stop, another boundary.
        identity: The server that wrote the log.
        sequence: Number of the first manifest: one more than that of the last one before `start`.
        source_name: The source's folder in the store.
        tables: Which tables to capture.
        before_images: Which before-images of updates to stage.
        created_by: Noted in the manifest.
        limits: Bounds of memory and files.
        policies: How zero dates and invalid byte sequences are staged.
        on_table_error: Whether a table that cannot be captured is quarantined, or fails the range.
        read_server_tables: Queries the server's information_schema, where the log lacks the names
            of a table's columns, or those of their types that only MariaDB has. None: the log
            must have them.
        wants_defaults: Whether that query includes the defaults of all columns: inserts may lack
            columns under another `binlog_row_image` than FULL.
        issued_by: The server that issued `start`, if that is not `identity`, which was promoted.
        find_gtids: Finds the position in this server's log where a GTID set ends; needed if
            `issued_by` is another server.
        bytes_total: Bytes of log in the range, if known; only reported.
        on_progress: Called every few seconds.
        on_tables: Called before a manifest is committed, with its number and the tables that the
            range's log names, captured or not. What it raises keeps the range from being staged.
        even_empty: Whether a range without transactions is staged, too, if nothing else is: one
            manifest says then how far the log is known.
        sub_range: Of which plan, and which of its sub-ranges; empty for a range of its own.
    """

    start: Position
    stop: Position
    _: KW_ONLY
    identity: SourceIdentity
    sequence: int
    source_name: str
    tables: TableFilter
    before_images: BeforeImages
    created_by: str
    limits: Limits = field(default_factory=Limits)
    policies: Policies = DEFAULT_POLICIES
    on_table_error: OnTableError = OnTableError.QUARANTINE
    read_server_tables: ServerTablesReader | None = None
    wants_defaults: bool = False
    issued_by: SourceIdentity | None = None
    find_gtids: Callable[[str], Position] | None = None
    bytes_total: int | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_tables: Callable[[int, Collection[TableName]], None] | None = None
    even_empty: bool = False
    sub_range: str = ""

    @property
    def range_id(self) -> str:
        """A name for the range's parts: that of another range under the same number differs.

        Two runs may stage at once, up to different stops, before one of them commits the number:
        neither may overwrite what the other's manifest names.
        """
        deciding = (
            __version__,
            self.identity.to_json(),
            (self.start.file, self.start.offset),
            (self.stop.file, self.stop.offset),
            (list(self.tables.include), list(self.tables.exclude)),
            self.before_images.value,
            (self.policies.zero_dates.value, self.policies.invalid_text.value),
            asdict(self.limits),
            # Another release of Arrow may write the same rows in other bytes.
            pa.__version__,
            self.sub_range,
        )
        return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class LogRange:
    """A range of the log, and what is known at its start.

    Attributes:
        request: What to stage, from the range's start and under the manifest's number.
        prepared: The XA transactions that are in doubt at the start.
        known: The tables that were known before the range.
        captured_since: Number of the first manifest, without a gap, that has the same `tables`.
        files: Files of the log before the range that its rows are numbered after.
        schemas: Schemas of tables at the start; None for those of `known`.
        changes: What statements did to schemas up to `changes_stop`, in log order, where that is
            known already.
        changes_stop: A position at or after the stop; None for the stop.
        server_tables: The tables of information_schema at `changes_stop`, in place of a server.
    """

    request: ExtractRequest
    prepared: Sequence[Prepared] = ()
    known: TableLookup = NOTHING_KNOWN
    captured_since: int = 1
    files: Sequence[str] = ()
    schemas: TrackedSchemas | None = None
    changes: Sequence[LoggedChange] = ()
    changes_stop: Position | None = None
    server_tables: ServerTables | None = None


_INTERVAL_SECONDS = 5.0


@dataclass(frozen=True)
class Progress:
    """One line of a log while a long range is staged.

    Attributes:
        file, offset: Position up to which the log was read.
        bytes: Bytes of the log read so far.
        bytes_total: Bytes of the log in the range; None where the files' sizes are not known.
        events: Events read so far.
        parts: Parts written so far.
        rows: Change rows in the parts.
        seconds: Time since the start of the range.
    """

    file: str
    offset: int
    bytes: int
    bytes_total: int | None
    events: int
    parts: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        """Return `binlog.000007:1048576, 12.3 MB of 80.0 MB (15 %), 900 events, 77 rows in ...`."""
        share = ""
        if self.bytes_total:
            percent = 100 * self.bytes // self.bytes_total
            share = f" of {self.bytes_total / 1e6:.1f} MB ({percent} %)"
        return (
            f"{self.file}:{self.offset}, {self.bytes / 1e6:.1f} MB{share}, {self.events} events, "
            f"{self.rows} rows in {self.parts} parts, {self.seconds:.0f} s"
        )


class ProgressReporter:
    """Reports the progress of a range every few seconds."""

    def __init__(
        self,
        start: Position,
        bytes_total: int | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        """Create the reporter.

        Args:
            start: Where it is.
            bytes_total: Bytes of log in the range, where known.
            on_progress: Called every few seconds; None: never.
        """
        self._bytes_total = bytes_total
        self._on_progress = on_progress
        self._began = self._reported = time.monotonic()
        self._read = 0
        self._last = start

    def report(self, at: Position, *, events: int, parts: int, rows: int) -> None:
        """Note the position that was read up to; the counts are those of `Progress`."""
        self._read += at.offset - (self._last.offset if self._last.file == at.file else 0)
        self._last = at
        now = time.monotonic()
        if self._on_progress is None or now - self._reported < _INTERVAL_SECONDS:
            return
        self._reported = now
        self._on_progress(
            Progress(
                file=at.file,
                offset=at.offset,
                bytes=self._read,
                bytes_total=self._bytes_total,
                events=events,
                parts=parts,
                rows=rows,
                seconds=now - self._began,
            )
        )
