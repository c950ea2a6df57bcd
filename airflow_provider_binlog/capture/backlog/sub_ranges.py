"""The plan of a backlog: its sub-ranges, what each of them starts with, and how one is staged.

    <source>/backlogs/0000000000000042-9f86d081884c/plan.json

The range is read once to plan it, without decoding its rows. A sub-range starts at the beginning of
a binlog file, where no transaction is open. What it has from the log before it is in the plan: the
tables and their schemas, the XA transactions in doubt, the executed GTIDs; and of the whole range
its DDL statements, and the tables of information_schema that its rows need. The sub-ranges do not
query a server, which has other tables by then, and which files lack.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from airflow_provider_binlog import errors
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.capture.capture_range import (
    OpenRange,
    capture_range,
    tracked_schemas,
)
from airflow_provider_binlog.capture.extract import known_tables
from airflow_provider_binlog.capture.log_range import ExtractRequest, LogRange, TableFilter
from airflow_provider_binlog.changes import (
    ROW_FILE_SHIFT,
    BeforeImages,
    InvalidText,
    OnTableError,
    Policies,
    ZeroDates,
)
from airflow_provider_binlog.limits import Limits, limits_in_bytes
from airflow_provider_binlog.manifest import Manifest, Prepared
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import FIRST_OFFSET, Position, SourceIdentity
from airflow_provider_binlog.protected_columns import ColumnRules, HashSecret
from airflow_provider_binlog.read_progress import OnProgress, ignore_progress
from airflow_provider_binlog.schema import TableName, TableState
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas
from airflow_provider_binlog.schema_history.protected_fields import (
    schema_without_values,
    without_values,
)
from airflow_provider_binlog.schema_history.statements import LoggedChange, changes_of
from airflow_provider_binlog.schema_history.tables import NO_TABLE, NoTable, TableLookup
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import backlog_folder, backlogs_folder, manifest_name
from airflow_provider_binlog.stored_json import LEFT_OUT, StoredFormat, stored_as
from airflow_provider_binlog.table_options import ColumnOptions
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.server.information_schema import ServerTables

FORMAT = StoredFormat("airflow-provider-binlog/backlog", 1, "the plan of a backlog")

_ID_DIGITS = 12
_NUMBER_DIGITS = 6


@dataclass(frozen=True)
class NamedTable:
    """The table of a name; no state where no table has the name any more."""

    database: str
    table: str
    state: TableState | None


@dataclass(frozen=True)
class ServerTable:
    """A table of information_schema at the stop of the range; see `ServerTables`.

    Attributes:
        schema: Its columns and its key; None where they are unknown, or there is no such table.
        is_versioned: Whether it keeps previous rows.
        unknown: Why its columns are unknown.
    """

    database: str
    table: str
    schema: PartialSchema | None
    is_versioned: bool
    unknown: str | None

    @classmethod
    def of(
        cls, tables: ServerTables | None, protected: Mapping[TableName, Mapping[str, bool]]
    ) -> tuple[ServerTable, ...] | None:
        """Return the tables that were queried; None where there was no server.

        No value of their `protected` columns is in them, which `_find_protected` returns.
        """
        if tables is None:
            return None
        schemas = {
            name: schema_without_values(schema, protected.get(name, {}))
            for name, schema in tables.tables.items()
        }
        names = sorted(tables.tables.keys() | tables.refused.keys() | tables.versioned)
        return tuple(
            cls(*name, schemas.get(name), name in tables.versioned, tables.refused.get(name))
            for name in names
        )


@dataclass(frozen=True)
class SubRange:
    """Start of a sub-range, and the state that the log before it leaves.

    Attributes:
        start: The beginning of a binlog file; of the first one, the start of the range.
        files: How many of the plan's files are before it.
        bytes: Bytes of log in it.
        prepared: The XA transactions that are in doubt there.
        names: What stands for other tables, or for tables in another schema, than at the start of
            the previous sub-range.
        dropped_databases: Those that were dropped in the range before.
    """

    start: Position
    files: int
    bytes: int
    prepared: tuple[Prepared, ...]
    names: tuple[NamedTable, ...]
    dropped_databases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BacklogPlan:
    """A range in sub-ranges, with all that their tasks have to know: see `ExtractRequest`.

    Attributes:
        limits: By their names, in bytes.
        captured_since: As in the manifest.
        files: The range's files, in order.
        columns, hash_secret: Which columns are excluded or hashed, and the id of the secret.
        statements: What its statements did to schemas, without the values of protected columns.
        sub_ranges: In order; each stops where the next one starts.
        server_tables: Tables of information_schema; None where the plan had no server.
    """

    source_name: str
    identity: SourceIdentity = field(metadata=stored_as("source"))
    sequence: int
    start: Position
    stop: Position
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    before_images: BeforeImages
    zero_dates: ZeroDates
    invalid_text: InvalidText
    on_table_error: OnTableError
    limits: dict[str, int]
    wants_defaults: bool
    created_by: str
    captured_since: int
    columns: tuple[ColumnOptions, ...] = field(default=(), metadata=LEFT_OUT)
    hash_secret: str | None = field(default=None, metadata=LEFT_OUT)
    files: tuple[str, ...]
    statements: tuple[LoggedChange, ...]
    sub_ranges: tuple[SubRange, ...]
    server_tables: tuple[ServerTable, ...] | None

    @cached_property
    def id(self) -> str:
        """Name of its folder: another plan has another one."""
        digest = hashlib.sha256(self.encode()).hexdigest()[:_ID_DIGITS]
        return f"{manifest_name(self.sequence).removesuffix('.json')}-{digest}"

    def stop_of(self, number: int) -> Position:
        """Return where a sub-range stops."""
        later = self.sub_ranges[number + 1 :]
        return later[0].start if later else self.stop

    def column_rules(self, secret: HashSecret | None) -> ColumnRules:
        """Return the rules of the plan.

        Raises:
            ConfigurationError: The plan's hashes are of another secret.
        """
        rules = ColumnRules(self.columns, None if self.hash_secret is None else secret)
        if self.hash_secret != rules.secret_id:
            raise errors.ConfigurationError(
                "the backlog was planned with another hash_secret than the connection has: give "
                "both the same one, or plan the backlog again",
                plan=self.id,
            )
        return rules

    def request(self, start: Position, stop: Position) -> ExtractRequest:
        """Return a request for some of the range, by the plan's settings, but for columns."""
        return ExtractRequest(
            start,
            stop,
            identity=self.identity,
            sequence=self.sequence,
            source_name=self.source_name,
            tables=TableFilter(self.include, self.exclude),
            before_images=self.before_images,
            created_by=self.created_by,
            limits=Limits(**self.limits),
            policies=Policies(self.zero_dates, self.invalid_text),
            on_table_error=self.on_table_error,
            wants_defaults=self.wants_defaults,
        )

    def names_at(self, number: int) -> dict[TableName, TableState | None]:
        """Return what is known of names at the start of a sub-range from the range before it."""
        return {
            (name.database, name.table): name.state
            for sub_range in self.sub_ranges[: number + 1]
            for name in sub_range.names
        }

    def known_at(self, number: int, before: TableLookup) -> TableLookup:
        """Return the tables known at the start of a sub-range; `before`: before the range."""
        names = self.names_at(number)
        dropped = frozenset(self.sub_ranges[number].dropped_databases)

        def find(name: TableName) -> TableState | NoTable | None:
            if name in names:
                return names[name] or NO_TABLE
            return NO_TABLE if name[0] in dropped else before.find(name)

        def find_all(database: str) -> list[TableState]:
            earlier = () if database in dropped else before.find_all(database)
            own = (state for name, state in names.items() if name[0] == database)
            return [
                *(state for state in earlier if state.name not in names),
                *(state for state in own if state is not None),
            ]

        return TableLookup(find, find_all, before.find_schema)

    def find_server_tables(self) -> ServerTables | None:
        """Return the tables of information_schema; None where the plan had no server."""
        if self.server_tables is None:
            return None
        by_name = {(table.database, table.table): table for table in self.server_tables}
        return ServerTables(
            self.stop,
            {name: table.schema for name, table in by_name.items() if table.schema is not None},
            frozenset(name for name, table in by_name.items() if table.is_versioned),
            {name: table.unknown for name, table in by_name.items() if table.unknown is not None},
        )

    def encode(self) -> bytes:
        """Return the plan as it is stored; see `stored_json`."""
        return FORMAT.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> BacklogPlan:
        """Read what `encode` wrote.

        Raises:
            ManifestError: As `StoredFormat.decode`, or the plan has other limits.
        """
        plan = FORMAT.decode(cls, data)
        if plan.limits.keys() != limits_in_bytes(Limits()).keys():
            raise errors.ManifestError("a backlog with other limits", limits=sorted(plan.limits))
        return plan


def store_plan(plan: BacklogPlan, store: ObjectStore) -> None:
    """Write a plan into its folder, and delete the folders of plans whose ranges are committed."""
    store.write(_key(plan.source_name, plan.id), plan.encode())
    for plan_id in store.folders(backlogs_folder(plan.source_name)):
        if plan_id.partition("-")[0] < plan.id.partition("-")[0]:
            store.delete_folder(backlog_folder(plan.source_name, plan_id))


def load_plan(store: ObjectStore, source_name: str, plan_id: str) -> BacklogPlan:
    """Return a stored plan.

    Raises:
        ManifestError: There is none, or it is unreadable.
    """
    try:
        return BacklogPlan.decode(store.read(_key(source_name, plan_id)))
    except errors.ObjectMissingError as error:
        raise errors.ManifestError(
            "there is no such plan of a backlog: a later plan removes it, once its range is "
            "committed; run the task that plans, and those after it",
            plan=plan_id,
        ) from error


def result_key(plan: BacklogPlan, number: int) -> str:
    """Return the key of what a sub-range was staged as: a manifest that is not committed."""
    return f"{backlog_folder(plan.source_name, plan.id)}/{number:0{_NUMBER_DIGITS}}.json"


def _key(source_name: str, plan_id: str) -> str:
    return f"{backlog_folder(source_name, plan_id)}/plan.json"


def plan_backlog(log_range: LogRange, source: BlockStream, *, target_bytes: int) -> BacklogPlan:
    """Return the sub-ranges of a range, with what each of them starts with.

    A sub-range is cut at the first boundary of two binlog files after `target_bytes` of log.

    Raises:
        BinlogError: As `capture_range`, for all but the values of rows.
    """
    opened, request = OpenRange(log_range, source), log_range.request
    cutter = _Cutter(opened, log_range, target_bytes)
    statements: list[LoggedStatement] = []
    for logged in opened.blocks():
        cutter.begin(logged)
        for captured, _ in opened.read(logged):
            statements += captured.statements
            opened.report(captured, rows=0)
    manifest = opened.finish(())
    protected = _find_protected(opened, request.columns)
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
        files=tuple(opened.reader.files),
        columns=request.columns.options,
        hash_secret=request.columns.secret_id,
        statements=tuple(
            replace(logged, change=without_values(logged.change, protected))
            for statement in statements
            for logged in changes_of(statement)
        ),
        sub_ranges=cutter.finished(),
        server_tables=ServerTable.of(opened.server.queried(), protected),
    )


def _find_protected(opened: OpenRange, rules: ColumnRules) -> dict[TableName, dict[str, bool]]:
    """Return the protected columns of each table of a range, by its names.

    That is, by folded names, whether each column is excluded; else it is hashed.
    """
    protected: dict[TableName, dict[str, bool]] = {}
    for name in opened.reader.tables | opened.tables.names.keys():
        protected[name] = rules.names(name)
    for table in opened.tables.touched.values():
        states = [state for state in (table.before, table.state) if state is not None]
        fields = [own for state in states if state.schema for own in state.schema.fields]
        own = {fold_name(field.name): field.excluded for field in fields if field.origin}
        for state in states:
            protected[state.name] = protected.get(state.name, {}) | own
    return {name: columns for name, columns in protected.items() if columns}


class _Cutter:
    """Cuts a range at boundaries of files, and keeps the state of the range there."""

    def __init__(self, opened: OpenRange, log_range: LogRange, target_bytes: int) -> None:
        start = log_range.request.start
        self._reader = opened.reader
        self._tables = opened.tables
        self._target_bytes = target_bytes
        self._sub_ranges = [SubRange(start, 0, 0, tuple(log_range.prepared), (), ())]
        self._names: dict[TableName, TableState | NoTable] = {}
        self._file, self._at, self._bytes = start.file, start.offset, 0

    def begin(self, logged: EventBlock) -> None:
        """Start a sub-range where a file begins, if the one before it is large enough."""
        if logged.file != self._file:
            at_boundary = self._reader.transactions.at_boundary
            if self._bytes >= self._target_bytes and at_boundary:
                self._cut(logged)
            self._file, self._at = logged.file, FIRST_OFFSET
        self._bytes += logged.next_offset - self._at
        self._at = logged.next_offset

    def finished(self) -> tuple[SubRange, ...]:
        """Sub-ranges so far, the last one with its size."""
        return (*self._sub_ranges[:-1], replace(self._sub_ranges[-1], bytes=self._bytes))

    def _cut(self, logged: EventBlock) -> None:
        position = Position(logged.file, FIRST_OFFSET, file_created=logged.format.created)
        names = self._tables.names
        changed = {name: state for name, state in names.items() if self._names.get(name) != state}
        self._sub_ranges = [
            *self.finished(),
            SubRange(
                start=self._reader.executed_at(position),
                files=len(self._reader.files),
                bytes=0,
                prepared=self._reader.in_doubt,
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
    secret: HashSecret | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Manifest:
    """Stage a sub-range, and return its manifest; the result of an earlier try is reused."""
    done = find_result(plan, number, store)
    if done is not None:
        return done
    log, sub_range = ManifestLog(store, plan.source_name), plan.sub_ranges[number]
    request = replace(
        plan.request(sub_range.start, plan.stop_of(number)),
        columns=plan.column_rules(secret),
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
        plan.statements,
        plan.stop,
        plan.find_server_tables(),
    )
    manifest = capture_range(log_range, source, store)
    store.write(result_key(plan, number), manifest.encode())
    return manifest


def _schemas_at(plan: BacklogPlan, number: int, before: TableLookup) -> TrackedSchemas:
    """Return the schemas at the start of a sub-range; `before`: tables before the backlog."""
    schemas = tracked_schemas(before, TableFilter(plan.include, plan.exclude))
    first_row = plan.sub_ranges[number].files << ROW_FILE_SHIFT
    for logged in plan.statements:
        if logged.row < first_row:
            schemas.apply(logged, plan.identity.flavor)
    return schemas


def find_result(plan: BacklogPlan, number: int, store: ObjectStore) -> Manifest | None:
    """Return the manifest of a sub-range; None if it is not staged yet."""
    try:
        return Manifest.decode(store.read(result_key(plan, number)))
    except errors.ObjectMissingError:
        return None
