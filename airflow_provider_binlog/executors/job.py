"""The job of one Spark application, its tasks on executors, and its report.

The driver reads a job from a file that only the task's account may read, and deletes the file. The
executors receive it inside the code of the tasks. Arguments, settings and variables have none of
it: passwords are among its fields.
"""

# ruff: noqa: PLC0415  What the executor may lack is imported where its lack can be reported.

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_binlog import errors
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.manifest import Manifest, count_changes
from airflow_provider_binlog.protected_columns import HashSecret, find_secret
from airflow_provider_binlog.read_progress import OnProgress, ignore_progress
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings, Location
from airflow_provider_binlog.sources.state import Log
from airflow_provider_binlog.stored_json import StoredFormat, utc_now

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore

TEXT_SIZE_MAX = 1000
"""The cause of an unexpected error is cut to so many characters."""

_JOB = StoredFormat("airflow-provider-binlog/job", 1, "a job")
_REPORT = StoredFormat("airflow-provider-binlog/job-report", 1, "a report")


@dataclass(frozen=True, kw_only=True)
class ChunkWork:
    """Chunks of a planned snapshot.

    Attributes:
        where: The condition of the Airflow task, which the plan has to have.
        limits: By their names, in bytes.
        rows_per_second_max, threads_running_max, replica_lag_max: As in `Throttle`, for one task.
        replicas: How to reach the replicas whose lag counts.
    """

    type: ClassVar[str] = "chunks"

    server: ConnectionSettings
    snapshot: str
    database: str
    table: str
    where: str | None
    numbers: tuple[int, ...]
    limits: dict[str, int]
    rows_per_second_max: float | None
    threads_running_max: int | None
    replica_lag_max: float | None
    replicas: tuple[ConnectionSettings, ...]

    @property
    def subject(self) -> str:
        """Name of the work in messages, before a number."""
        return f"{self.database}.{self.table}: chunk"

    def run(self, source: str, number: int, store: ObjectStore) -> Outcome:
        """Read a chunk and stage it."""
        from airflow_provider_binlog.limits import Limits
        from airflow_provider_binlog.snapshot.chunk import ChunkReader
        from airflow_provider_binlog.snapshot.plan import SnapshotFiles, Throttle
        from airflow_provider_binlog.snapshot.take import read_chunks

        files = SnapshotFiles(store, source)
        throttle = Throttle(
            self.rows_per_second_max,
            self.threads_running_max,
            self.replica_lag_max,
            tuple(replica.connect for replica in self.replicas),
        )
        reader = ChunkReader(
            Connections(self.server).open,
            files,
            Limits(**self.limits),
            throttle,
            _print_wait,
            secret=find_secret(self.server.hash_secret),
        )
        plan = files.read_plan(self.snapshot, (self.database, self.table), self.where)
        return Outcome(number, read_chunks(plan, [number], reader))


@dataclass(frozen=True, kw_only=True)
class SubRangeWork:
    """Sub-ranges of a backlog.

    Attributes:
        plan: Id of the backlog's plan.
        hash_secret: With which values are hashed; empty where none are.
        run_id: The run that stages it.
        server: How to reach the server; None where files are read.
        files: Locations of binlog files, as the source names them.
        locations: Where each of `files`, and each folder of a pattern, is.
    """

    type: ClassVar[str] = "sub_ranges"
    subject: ClassVar[str] = "sub-range"

    plan: str
    run_id: str
    server: ConnectionSettings | None
    files: tuple[str, ...]
    locations: dict[str, Location]
    numbers: tuple[int, ...]
    hash_secret: str = field(default="", repr=False)

    def run(self, source: str, number: int, store: ObjectStore) -> Outcome:
        """Stage a sub-range."""
        with closing(self._open_log()) as log:
            manifest = stage_planned(
                log,
                store,
                source=source,
                plan_id=self.plan,
                number=number,
                run=self.run_id,
                secret=find_secret(self.hash_secret),
            )
        return Outcome(number, manifest.rows, count_changes(manifest.tables))

    def _open_log(self) -> Log:
        if self.server is not None:
            from airflow_provider_binlog.sources.server_log import ServerLog

            # Others read at the same time, and a server ends a stream for another of the same id.
            return ServerLog(replace(self.server, server_id=None))
        from airflow_provider_binlog.sources.binlog_files import find_files
        from airflow_provider_binlog.sources.file_log import FileLog

        return FileLog(find_files(self.files, lambda name: self.locations[name].open()))


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of one application.

    Attributes:
        source: Name of the source.
        staging: Where the staged files are written.
        parallelism: How many tasks read at the same time.
    """

    source: str
    staging: Location
    parallelism: int
    work: ChunkWork | SubRangeWork = field(repr=False)

    def write(self, file: Path) -> None:
        """Write a file that only this account may read."""
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(_JOB.encode(self))

    @classmethod
    def take(cls, file: Path) -> Job:
        """Return what `write` wrote, and delete the file.

        Raises:
            OSError, ManifestError: It cannot be read, or is not of this version.
        """
        data = file.read_bytes()
        file.unlink()
        return _JOB.decode(cls, data)


@dataclass(frozen=True)
class Failure:
    """An error of ours.

    Attributes:
        error: Name of its class, which decides whether the Airflow task is retried.
        message: Its text, without the context.
        context: By name.
        trace: The Python stack of an unexpected exception.
    """

    error: str
    message: str
    context: dict[str, str]
    trace: str = ""

    @classmethod
    def of(cls, exception: Exception) -> Failure:
        """Return the failure that an exception on an executor is to the Airflow task."""
        trace = ""
        if isinstance(exception, errors.BinlogError):
            error = exception
        elif isinstance(exception, ImportError):
            error = errors.ConfigurationError(
                "the Python of Spark's executors lacks a package: install there what "
                "airflow-provider-binlog needs, Airflow itself excepted",
                cause=exception,
            )
        else:
            trace = "".join(traceback.format_exception(exception))
            error = errors.SparkJobError(
                "a task on Spark failed with an unexpected exception",
                cause=f"{type(exception).__name__}: {exception}"[:TEXT_SIZE_MAX],
            )
        context = {name: str(value) for name, value in error.context.items()}
        return cls(type(error).__name__, str(error.args[0]), context, trace)

    def to_error(self) -> errors.BinlogError:
        """Return the error, to be raised."""
        kind = getattr(errors, self.error)
        error: errors.BinlogError = kind(self.message, **self.context)
        return error


@dataclass(frozen=True)
class Outcome:
    """Result of one task.

    Attributes:
        number: Of its chunk or sub-range.
        rows: How many rows are staged.
        changes: Of a sub-range: rows by type of change.
        failure: None if the task succeeded.
    """

    number: int
    rows: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass(frozen=True)
class JobReport:
    """Result of an application: the outcomes of the tasks that ended, in that order."""

    outcomes: tuple[Outcome, ...]

    def encode(self) -> bytes:
        """Return the report as it is written to a file."""
        return _REPORT.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> JobReport:
        """Read what `encode` wrote.

        Raises:
            ManifestError: It is no report of this version.
        """
        return _REPORT.decode(cls, data)

    def find_error(self) -> errors.BinlogError | None:
        """Return the error that the Airflow task fails with; first one that no retry can mend."""
        failures = [outcome.failure for outcome in self.outcomes]
        raised = [failure.to_error() for failure in failures if failure is not None]
        return min(raised, key=lambda error: error.retryable, default=None)


# ------------------------------------------------------------------- tasks on executors


def run_tasks(job: Job, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Yield the outcomes of a partition's tasks.

    Errors of ours are returned, not raised: Spark would run the task again, whatever the error is,
    and then fail with a text of its own. Only the Airflow task decides about retries.
    """
    for number in numbers:
        try:
            # NumPy, Arrow, PyMySQL and fsspec are loaded here.
            from airflow_provider_binlog.staging.object_store import ObjectStore

            yield job.work.run(job.source, number, ObjectStore(*job.staging.open()))
        except Exception as error:  # noqa: BLE001  It is passed on.
            yield Outcome(number, failure=Failure.of(error))


def _print_wait(reason: str) -> None:
    print(f"the chunk waits: {reason}", file=sys.stderr, flush=True)  # noqa: T201


def stage_planned(
    log: Log,
    store: ObjectStore,
    *,
    source: str,
    plan_id: str,
    number: int,
    run: str,
    secret: HashSecret | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Manifest:
    """Stage a sub-range of a stored plan, and return its manifest; `secret` hashes columns.

    Raises:
        ConfigurationError: The plan's hashes are of another secret.
        ForeignPositionError, PositionPurgedError: The log is of another server than the plan, or
            lacks the start of the sub-range.
        BinlogError: As `stage_sub_range`.
    """
    from airflow_provider_binlog.capture.backlog.sub_ranges import load_plan, stage_sub_range

    plan = load_plan(store, source, plan_id)
    start, now = plan.sub_ranges[number].start, utc_now()
    checkpoint = Checkpoint(plan.identity, start, plan.sequence - 1, now, run)
    state = log.read_state(checkpoint, start=None)
    if state.identity != plan.identity:
        raise errors.ForeignPositionError(
            "the backlog was planned on another server: plan it again",
            planned=plan.identity,
            this_is=state.identity,
        )
    return stage_sub_range(plan, number, log, store, secret=secret, on_progress=on_progress)
