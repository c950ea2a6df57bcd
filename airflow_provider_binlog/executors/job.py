"""The job of one Spark application and its report, in a form that passes from process to process.

The driver reads a job from a file that only the task's account may read, and deletes the file. The
executors receive it inside the code of the tasks. Arguments, settings and variables have none of
it: passwords are among its fields.
"""

# ruff: noqa: TC001  `from_json` evaluates the types of fields.

from __future__ import annotations

import json
import os
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_binlog import errors
from airflow_provider_binlog.errors import BinlogError, ConfigurationError, SparkJobError
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.stored_json import decode, encode, fields_of, from_json

if TYPE_CHECKING:
    from pathlib import Path

_TEXT_SIZE_MAX = 1000


@dataclass(frozen=True)
class Location:
    """A folder or a file as a process on another machine reaches it.

    Attributes:
        protocol: Names the file system in fsspec.
        path: On that file system.
        options: Arguments of the file system as JSON, credentials included.
    """

    protocol: str
    path: str
    options: str = field(default="{}", repr=False)

    def open(self) -> tuple[Any, str]:
        """Return the file system, and the path."""
        # Here: the driver of Spark passes locations on, and needs none.
        import fsspec  # noqa: PLC0415

        return fsspec.filesystem(self.protocol, **json.loads(self.options)), self.path


@dataclass(frozen=True, kw_only=True)
class ChunkWork:
    """Chunks of a planned snapshot.

    Attributes:
        server: How to reach the server.
        snapshot, database, table: Name the plan.
        where: The condition of the Airflow task, which the plan has to have.
        numbers: Of the chunks.
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


@dataclass(frozen=True)
class FoundAt:
    """The file system and path of a location of binlog files."""

    name: str
    location: Location


@dataclass(frozen=True, kw_only=True)
class SubRangeWork:
    """Sub-ranges of a backlog.

    Attributes:
        plan: Id of the backlog's plan.
        run: The run that stages it.
        server: How to reach the server; None where files are read.
        files: Locations of binlog files, as the source names them.
        found_at: Where each location, and each folder of a pattern, is.
        numbers: Of the sub-ranges.
        server_ids: The server id that each sub-range registers with; None draws one.
    """

    type: ClassVar[str] = "sub_ranges"

    plan: str
    run: str
    server: ConnectionSettings | None
    files: tuple[str, ...]
    found_at: tuple[FoundAt, ...]
    numbers: tuple[int, ...]
    server_ids: tuple[int | None, ...]

    @property
    def subject(self) -> str:
        """Name of the work in messages, before a number."""
        return "sub-range"


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of one application.

    Attributes:
        source: Name of the source.
        staging: Where the staged files are written.
        parallelism: How many tasks read at the same time.
        work: Chunks or sub-ranges.
    """

    source: str
    staging: Location
    parallelism: int
    work: ChunkWork | SubRangeWork = field(repr=False)

    def write(self, file: Path) -> None:
        """Write a file that only this account may read."""
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(encode(fields_of(self)))

    @classmethod
    def take(cls, file: Path) -> Job:
        """Return what `write` wrote, and delete the file.

        Raises:
            OSError: It cannot be read.
            MALFORMED: It is not of this version.
        """
        data = file.read_bytes()
        file.unlink()
        return from_json(cls, decode(data))


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
        if isinstance(exception, BinlogError):
            error = exception
        elif isinstance(exception, ImportError):
            error = ConfigurationError(
                "the Python of Spark's executors lacks a package: install there what "
                "airflow-provider-binlog needs, Airflow itself excepted",
                cause=exception,
            )
        else:
            trace = "".join(traceback.format_exception(exception))
            error = SparkJobError(
                "a task on Spark failed with an unexpected exception",
                cause=f"{type(exception).__name__}: {exception}"[:_TEXT_SIZE_MAX],
            )
        context = {name: str(value) for name, value in error.context.items()}
        return cls(type(error).__name__, str(error.args[0]), context, trace)

    def to_error(self) -> BinlogError:
        """Return the error, to be raised."""
        kind = getattr(errors, self.error)
        error: BinlogError = kind(self.message, **self.context)
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
    """Result of an application.

    Attributes:
        outcomes: Of the tasks that ended, in the order in which they did.
        failure: Of Spark itself.
    """

    outcomes: tuple[Outcome, ...]
    failure: Failure | None = None

    def encode(self) -> bytes:
        """Return the report as it is written to a file."""
        return encode(fields_of(self))

    @classmethod
    def decode(cls, data: bytes) -> JobReport:
        """Read what `encode` wrote."""
        return from_json(cls, decode(data))

    def find_error(self) -> BinlogError | None:
        """Return the error that the Airflow task fails with; first one that no retry can mend."""
        failures = [*(outcome.failure for outcome in self.outcomes), self.failure]
        raised = [failure.to_error() for failure in failures if failure is not None]
        return min(raised, key=lambda error: error.retryable, default=None)
