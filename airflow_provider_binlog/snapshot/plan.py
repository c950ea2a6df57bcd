"""The request of a snapshot, and its plan and records, as they are stored.

A retry finds the plan of its run, `<source>/snapshots/<snapshot id>/plan.json`, and reads the
chunks that have no record, `chunk-000012.json`, which is written after the parts that it names.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import TypeVar

from airflow_provider_binlog.changes import DEFAULT_POLICIES, InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError, ManifestError, error_context
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest, Part
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.protected_columns import NO_RULES, ColumnRules, HashSecret
from airflow_provider_binlog.schema import Field, Schema, TableName
from airflow_provider_binlog.snapshot_manifest import (
    SNAPSHOTS,
    Chunk,
    SnapshotManifest,
    new_snapshot_id,
    planned_at,
    snapshot_folder,
    snapshot_path,
    table_digest,
)
from airflow_provider_binlog.staging.manifest_log import SchemaFiles
from airflow_provider_binlog.staging.object_store import ObjectStore, StoredObject
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles, ids_by_digest
from airflow_provider_binlog.stored_json import LEFT_OUT, StoredFormat, stored_as, utc_now
from airflow_provider_binlog.table_options import ColumnOptions
from airflow_provider_binlog.transport.server.driver import Connect
from airflow_provider_binlog.transport.server.queries import replica_lag, threads_running

_PLAN = StoredFormat("airflow-provider-binlog/snapshot-plan", 1, "the plan of a snapshot")
_CHUNK = StoredFormat("airflow-provider-binlog/snapshot-chunk", 1, "the record of a chunk")

_RECORD = "chunk-"

_MICROSECONDS = 10**6

_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class SnapshotPlan:
    """The plan of a snapshot.

    Attributes:
        id, identity, database, table, schema, where: As in `SnapshotManifest`.
        low: Before every chunk, as in `SnapshotManifest`.
        exact: Whether the only chunk is read at one position.
        asked_exact, chunk_bytes: Those of the request.
        order: What orders the rows, so that the bounds divide them: `ChunkKey.order`.
        bounds: Between the chunks, as values; see `bounds.py`.
        zero_dates, invalid_text: How values are staged that no lake type holds.
        created_at: ISO 8601 in UTC.
        created_by: The run that takes it.
        columns: Which columns of tables are excluded or hashed.
    """

    id: str
    identity: SourceIdentity = field(metadata=stored_as("source"))
    database: str
    table: str
    schema: Schema
    low: Position
    exact: bool
    asked_exact: bool
    chunk_bytes: int
    where: str | None
    order: tuple[str, ...]
    bounds: tuple[tuple[str, ...], ...]
    zero_dates: ZeroDates
    invalid_text: InvalidText
    created_at: str
    created_by: str
    columns: tuple[ColumnOptions, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def name(self) -> TableName:
        """Database and table."""
        return self.database, self.table

    def serves(self, request: SnapshotRequest) -> bool:
        """Whether the plan is that of a request, which an author may have corrected since."""
        policies = Policies(self.zero_dates, self.invalid_text)
        return (
            (self.name, self.created_by) == (request.name, request.created_by)
            and (self.where, self.asked_exact) == (request.where, request.exact)
            and (self.chunk_bytes, policies) == (request.chunk_bytes, request.policies)
            and self.columns == request.columns.options
            and self._hashes() <= {request.columns.secret_id}
        )

    def _hashes(self) -> set[str | None]:
        return {column.hashed for column in self.schema.fields} - {None}

    def column_rules(self, secret: HashSecret | None) -> ColumnRules:
        """Return the rules of the plan.

        Raises:
            ConfigurationError: The plan's hashes are of another secret.
        """
        rules = ColumnRules(self.columns, secret)
        if not self._hashes() <= {rules.secret_id}:
            raise ConfigurationError(
                "the snapshot was planned with another hash_secret than the connection has: give "
                "both tasks the same one",
                snapshot=self.id,
                table=".".join(self.name),
            )
        return rules

    @property
    def chunk_count(self) -> int:
        """Number of chunks."""
        return len(self.bounds) + 1

    def complete(
        self,
        chunks: Sequence[Chunk],
        parts: Sequence[Part],
        *,
        low: Position,
        high: Position,
        is_exact: bool,
    ) -> SnapshotManifest:
        """Return the manifest of the snapshot with these chunks; see `SnapshotManifest`."""
        return SnapshotManifest(
            id=self.id,
            identity=self.identity,
            database=self.database,
            table=self.table,
            schema=self.schema,
            low=low,
            high=high,
            is_exact=is_exact,
            where=self.where,
            zero_dates=self.zero_dates,
            invalid_text=self.invalid_text,
            chunks=tuple(chunks),
            parts=tuple(parts),
            created_at=utc_now(),
            created_by=self.created_by,
        )


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk that was read.

    Attributes:
        chunk: As in the manifest.
        is_exact: Whether its rows are those that the table had at its `low`.
        parts: In the order of their rows.
    """

    chunk: Chunk
    is_exact: bool
    parts: tuple[Part, ...]


class SnapshotFiles:
    """The plans, records and manifests of the snapshots of `source` in `store`.

    Ids are listed once, when they are first needed.
    """

    def __init__(self, store: ObjectStore, source: str) -> None:
        self.store = store
        self._source = source
        self._files = StoredFiles(store, source)

    @cached_property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self._files, removed=True)

    @cached_property
    def _plans(self) -> Mapping[str, Sequence[str]]:
        """Ids of the snapshots that were begun, by the table's digest, the newest last."""
        return ids_by_digest(self.store.folders(self.key(SNAPSHOTS)))

    def key(self, path: str) -> str:
        """Return the key of a path below the source's folder."""
        return self._files.locate(path)

    def new_id(self, name: TableName, now: datetime) -> str:
        """Return the id of a new snapshot of a table, planned at a time that has a zone.

        It follows all earlier ids, also if a worker's clock was ahead: a merge loads the snapshot
        of the greatest id.
        """
        # A table that was adopted has a manifest alone.
        ids = [*self._planned(name), *self._snapshots.ids_of(name)]
        newest = max(map(planned_at, ids), default=None)
        if newest is not None and newest >= now:
            # Two tasks may begin at the same time.
            now = newest + timedelta(microseconds=1 + secrets.randbelow(_MICROSECONDS))
        return new_snapshot_id(now, name)

    def find_plan(self, request: SnapshotRequest) -> SnapshotPlan | None:
        """Return the newest plan of a run that reads the same in the same way, or None."""
        name = request.name
        for snapshot_id in reversed(self._planned(name)):
            plan = self.maybe_plan(snapshot_id)
            if plan is not None and plan.id == snapshot_id and plan.serves(request):
                return plan
        return None

    def read_plan(self, snapshot_id: str, name: TableName, where: str | None) -> SnapshotPlan:
        """Return the plan of a snapshot of a table.

        The condition of the plan is not run as SQL unless the task, too, has it as `where`: who can
        write to the staged files is not to choose a statement.

        Raises:
            ManifestError: There is none, or it is another table's.
            ConfigurationError: It has another condition.
        """
        plan = self.maybe_plan(snapshot_id)
        if plan is None or (plan.id, plan.name) != (snapshot_id, name):
            raise ManifestError(
                "no plan of a snapshot of this table has this id: begin the snapshot again",
                snapshot=snapshot_id,
                table=".".join(name),
            )
        if plan.where != where:
            raise ConfigurationError(
                "the plan of this snapshot has another condition on the rows than the task: give "
                "both tasks the same `where`",
                snapshot=snapshot_id,
                table=".".join(name),
                where=where,
            )
        return plan

    def write_plan(self, plan: SnapshotPlan) -> None:
        """Store a plan, before its first chunk is read."""
        self._write(plan, _PLAN, _plan_path(plan.id))

    def unfinished(self) -> Iterator[SnapshotPlan]:
        """Yield the plans of incomplete snapshots, as far as they are readable."""
        for snapshot_id in sorted(chain(*self._plans.values())):
            if self._is_complete(snapshot_id):
                continue
            with suppress(ManifestError):
                if (plan := self.maybe_plan(snapshot_id)) is not None:
                    yield plan

    def delete_unfinished(self, name: TableName, *, before: datetime) -> list[str]:
        """Delete the files of incomplete snapshots that were planned before a time.

        Returns the ids. The time has a zone.
        """
        deleted = []
        for snapshot_id in self._planned(name):
            if snapshot_id < new_snapshot_id(before, name) and not self._is_complete(snapshot_id):
                self.store.delete_folder(self.key(snapshot_folder(snapshot_id)))
                deleted.append(snapshot_id)
        return deleted

    def _is_complete(self, snapshot_id: str) -> bool:
        # Its manifest may be unreadable.
        return self._files.exists(snapshot_path(snapshot_id))

    def _planned(self, name: TableName) -> Sequence[str]:
        return self._plans.get(table_digest(name), ())

    def find_record(self, snapshot_id: str, number: int) -> ChunkRecord | None:
        """Return the record of a chunk; None if it is not read yet."""
        return self._read(ChunkRecord, _CHUNK, _record_path(snapshot_id, number))

    def is_read(self, plan: SnapshotPlan) -> bool:
        """Whether every chunk of a plan has its record."""
        return len(self.find_records(plan.id)) == plan.chunk_count

    def find_records(self, snapshot_id: str) -> list[StoredObject]:
        """Return the records of the chunks of a snapshot that have been read."""
        folder = self.key(snapshot_folder(snapshot_id))
        return [
            file
            for file in self.store.find(folder)
            if file.key.removeprefix(f"{folder}/").startswith(_RECORD)
        ]

    def planned_ids(self) -> list[str]:
        """Return the ids of the snapshots that were begun, whether or not they are complete."""
        return sorted(id_ for ids in self._plans.values() for id_ in ids)

    def maybe_plan(self, snapshot_id: str) -> SnapshotPlan | None:
        """Return the plan of a snapshot; None if there is none."""
        return self._read(SnapshotPlan, _PLAN, _plan_path(snapshot_id))

    def write_record(self, snapshot_id: str, record: ChunkRecord) -> None:
        """Store the record of a chunk, after its parts."""
        self._write(record, _CHUNK, _record_path(snapshot_id, record.chunk.number))

    def find_manifest(self, snapshot_id: str) -> SnapshotManifest | None:
        """Return the manifest of a snapshot; None if it is not complete."""
        data = self._files.read(snapshot_path(snapshot_id))
        return None if data is None else SnapshotManifest.decode(data)

    def known_fields(self, name: TableName, latest: Manifest | None) -> tuple[Field, ...]:
        """Return the columns that a table had when it was last staged; none if it never was.

        `latest` is the newest manifest of the source. What it and those before it do not say, the
        newest snapshot of the table does.
        """
        file = SchemaFiles(self.store, self._source).find_newest(name, latest)
        if file is not None:
            schema = None if file.state is None else file.state.schema
        else:
            id_ = self._snapshots.newest_id(name)
            schema = None if id_ is None else self._snapshots.read(id_).schema.whole
        return () if schema is None else schema.fields

    def _write(self, value: object, form: StoredFormat, path: str) -> None:
        self._files.write(path, form.encode(value))

    def _read(self, kind: type[_Value], form: StoredFormat, path: str) -> _Value | None:
        data = self._files.read(path)
        with error_context(key=self.key(path)):
            return None if data is None else form.decode(kind, data)


def _plan_path(snapshot_id: str) -> str:
    return f"{snapshot_folder(snapshot_id)}/plan.json"


def _record_path(snapshot_id: str, number: int) -> str:
    return f"{snapshot_folder(snapshot_id)}/{_RECORD}{number:06}.json"


CHUNK_BYTES = 64 << 20
_POLL_SECONDS = 5.0
_POLLS_PER_MESSAGE = 12


@dataclass(frozen=True)
class Throttle:
    """Limits of the load that a snapshot may cause or meet; None for no limit.

    Attributes:
        rows_per_second_max: Rows that are read in a second, on average over a chunk.
        threads_running_max: The next chunk waits while `Threads_running` of the server is greater.
        replica_lag_max: Seconds; the next chunk waits while a replica lags more, or its replication
            is stopped. The server itself counts if it is a replica.
        replicas: Open connections to the other replicas whose lag counts.
    """

    rows_per_second_max: float | None = None
    threads_running_max: int | None = None
    replica_lag_max: float | None = None
    replicas: tuple[Connect, ...] = ()

    def find_reason(self, connect: Connect) -> str:
        """Return why the next chunk has to wait; empty if it need not.

        Raises:
            AccessDeniedError: The account may not read the state of a replica.
            ConfigurationError: The lag of no replica is known.
        """
        if self.threads_running_max is not None:
            with closing(connect()) as connection:
                running = threads_running(connection)
            if running > self.threads_running_max:
                return f"{running} threads are running, more than {self.threads_running_max}"
        if self.replica_lag_max is not None:
            lag = self._find_lag(connect)
            if lag > self.replica_lag_max:
                return f"a replica lags {lag:.0f} s, more than {self.replica_lag_max:g} s"
        return ""

    def _find_lag(self, connect: Connect) -> float:
        lags: list[float | None] = []
        for connect_replica in (connect, *self.replicas):
            with closing(connect_replica()) as connection:
                lags.append(replica_lag(connection))
        measured = [lag for lag in lags if lag is not None]
        if not measured:
            raise ConfigurationError(
                "max_replica_lag takes a replica: the server is none, and replica_conn_ids names "
                "none; name the connection of a replica there"
            )
        return max(measured)


@dataclass
class RowPace:
    """Delays a reading to a number of rows per second; None for no limit."""

    rows_per_second_max: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _rows: int = 0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def count(self, rows: int) -> None:
        """Count rows that were read; return when the next rows may be read."""
        self._rows += rows
        if self.rows_per_second_max is not None:
            early = self._rows / self.rows_per_second_max - (self.clock() - self._started)
            if early > 0:
                self.sleep(early)


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """One snapshot of one table.

    Attributes:
        source_name: Names the source's folder.
        name: Database and table.
        created_by: The run that takes it: a later try of the same run continues it.
        where: The condition on the rows to read, in SQL; None for all.
        exact: Whether all rows are read at one position, in one transaction, if need be by a lock
            that writers wait for, for moments. A table without a key is always read so.
        chunk_bytes: Bytes of the table that one transaction reads, about.
        policies: How values are staged that no lake type holds.
        columns: Which columns are excluded or hashed.
        limits: Of the parts' sizes.
        throttle: Of the load on the server.
    """

    source_name: str
    name: TableName
    created_by: str
    where: str | None = None
    exact: bool = False
    chunk_bytes: int = CHUNK_BYTES
    policies: Policies = DEFAULT_POLICIES
    columns: ColumnRules = NO_RULES
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle = field(default_factory=Throttle)


def wait_until_idle(
    throttle: Throttle,
    connect: Connect,
    *,
    on_wait: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the next chunk may be read; report the reason as a wait begins, and each minute.

    Raises:
        AccessDeniedError, ConfigurationError: As `Throttle.find_reason`.
    """
    polls = 0
    while reason := throttle.find_reason(connect):
        if polls % _POLLS_PER_MESSAGE == 0:
            on_wait(reason)
        polls += 1
        sleep(_POLL_SECONDS)
