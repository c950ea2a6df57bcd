"""The plan of a backlog: its sub-ranges, and what each of them starts with.

    <source>/backlogs/0000000000000042-9f86d081884c/plan.json

A sub-range starts at the beginning of a binlog file, where no transaction is open. What it has from
the log before it is in the plan: the tables and their schemas, the XA transactions in doubt, the
executed GTIDs. What takes a reading of the whole range is there as well: its DDL statements, and
the tables of information_schema that its rows need. The sub-ranges do not query a server, which has
other tables by then, and which files lack.
"""

# ruff: noqa: TC001  `from_json` evaluates the types of fields.

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.capture.log_range import ExtractRequest
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import (
    BeforeImages,
    InvalidText,
    OnTableError,
    Policies,
    ZeroDates,
)
from airflow_provider_binlog.errors import ManifestError, ObjectMissingError
from airflow_provider_binlog.limits import Limits, limits_in_bytes
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.schema import TableName, TableState
from airflow_provider_binlog.schema_history.statements import LoggedChange, changes_of
from airflow_provider_binlog.schema_history.tables import NO_TABLE, NoTable, TableLookup
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import backlog_folder, backlogs_folder, manifest_name
from airflow_provider_binlog.stored_json import StoredFormat, stored_as
from airflow_provider_binlog.transport.server.information_schema import ServerTables

FORMAT = StoredFormat("airflow-provider-binlog/backlog", 1, "the plan of a backlog")

_ID_DIGITS = 12
_NUMBER_DIGITS = 6


@dataclass(frozen=True)
class NamedTable:
    """What a name stands for; no state where no table has it any more."""

    database: str
    table: str
    state: TableState | None


@dataclass(frozen=True)
class ServerTable:
    """A table of information_schema at the stop of the range; see `ServerTables`.

    Attributes:
        database, table: Its name.
        schema: Its columns and its key; None where they are unknown, or there is no such table.
        is_versioned: Whether it keeps previous rows.
        unknown: Why its columns are unknown; None where they are not, or there is no such table.
    """

    database: str
    table: str
    schema: PartialSchema | None
    is_versioned: bool
    unknown: str | None

    @classmethod
    def of(cls, tables: ServerTables | None) -> tuple[ServerTable, ...] | None:
        """Return the tables that were queried; None where there was no server."""
        if tables is None:
            return None
        names = sorted(tables.tables.keys() | tables.refused.keys() | tables.versioned)
        return tuple(
            cls(*name, tables.tables.get(name), name in tables.versioned, tables.refused.get(name))
            for name in names
        )


@dataclass(frozen=True)
class SubRange:
    """Where a sub-range starts, and what it has from the log before it.

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


@dataclass(frozen=True)
class DdlStatement:
    """A DDL statement of the range; see `LoggedStatement`."""

    row: int
    file: str
    offset: int
    query: Query


@dataclass(frozen=True, kw_only=True)
class BacklogPlan:
    """A range in sub-ranges, with all that their tasks have to know.

    Attributes:
        source_name, identity, sequence, start, stop: As in `ExtractRequest`; the start is the one
            of the manifest.
        include, exclude, before_images, zero_dates, invalid_text, on_table_error: Likewise.
        limits: By their names, in bytes.
        wants_defaults, created_by: Likewise.
        captured_since: As in the manifest.
        files: The range's files, in order.
        statements: Its DDL statements.
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
    files: tuple[str, ...]
    statements: tuple[DdlStatement, ...]
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

    def request(self, start: Position, stop: Position) -> ExtractRequest:
        """Return a request for some of the range, by the plan's settings."""
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
            (each.database, each.table): each.state
            for sub_range in self.sub_ranges[: number + 1]
            for each in sub_range.names
        }

    def known_at(self, number: int, before: TableLookup) -> TableLookup:
        """Return the tables that are known at the start of a sub-range.

        Args:
            number: Of the sub-range.
            before: The tables that were known before the range.
        """
        names = self.names_at(number)
        dropped = frozenset(self.sub_ranges[number].dropped_databases)

        def find(name: TableName) -> TableState | NoTable | None:
            if name in names:
                return names[name] or NO_TABLE
            return NO_TABLE if name[0] in dropped else before.find(name)

        def find_all(database: str) -> list[TableState]:
            earlier = () if database in dropped else before.find_all(database)
            found = [each for each in earlier if each.name not in names]
            own = (state for name, state in names.items() if name[0] == database)
            return [*found, *(state for state in own if state is not None)]

        return TableLookup(find, find_all, before.find_schema)

    @property
    def changes(self) -> tuple[LoggedChange, ...]:
        """What the statements of the range did to schemas."""
        flavor = self.identity.flavor
        statements = (
            LoggedStatement(each.row, each.file, each.offset, each.query, flavor)
            for each in self.statements
        )
        return tuple(change for each in statements for change in changes_of(each))

    def find_server_tables(self) -> ServerTables | None:
        """Return the tables of information_schema; None where the plan had no server."""
        if self.server_tables is None:
            return None
        by_name = {(each.database, each.table): each for each in self.server_tables}
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
            ManifestError: The bytes are no plan, one that was edited or cut, or one of another
                version.
        """
        plan = FORMAT.decode(cls, data)
        if plan.limits.keys() != limits_in_bytes(Limits()).keys():
            raise ManifestError("a backlog with other limits", limits=sorted(plan.limits))
        return plan


def store_plan(plan: BacklogPlan, store: ObjectStore) -> None:
    """Write a plan into its folder, and delete those of plans whose ranges are committed.

    They are of no use any more, except to a task that is run again: what it had to return is in the
    manifest.
    """
    store.write(_key(plan.source_name, plan.id), plan.encode())
    for plan_id in store.folders(backlogs_folder(plan.source_name)):
        if plan_id.partition("-")[0] < plan.id.partition("-")[0]:
            store.delete_folder(backlog_folder(plan.source_name, plan_id))


def load_plan(store: ObjectStore, source_name: str, plan_id: str) -> BacklogPlan:
    """Return a plan that was stored.

    Raises:
        ManifestError: There is none, or it is unreadable.
    """
    try:
        return BacklogPlan.decode(store.read(_key(source_name, plan_id)))
    except ObjectMissingError as error:
        raise ManifestError(
            "there is no such plan of a backlog: a later plan removes it, once its range is "
            "committed; run the task that plans, and those after it",
            plan=plan_id,
        ) from error


def result_key(plan: BacklogPlan, number: int) -> str:
    """Return the key of what a sub-range was staged as: a manifest that is not committed."""
    return f"{backlog_folder(plan.source_name, plan.id)}/{number:0{_NUMBER_DIGITS}}.json"


def _key(source_name: str, plan_id: str) -> str:
    return f"{backlog_folder(source_name, plan_id)}/plan.json"
