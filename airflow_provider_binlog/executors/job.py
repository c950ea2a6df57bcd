"""What one Spark application reads: passed from the Airflow task to the driver, and to executors.

The driver reads it from a file that only the task's account may read, and deletes the file. To the
executors it travels inside the code of the tasks. It is in no argument, setting or variable.
"""

# ruff: noqa: TC001  `from_json` evaluates the types of fields.

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_binlog.executors.location import Location
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.stored_json import decode, encode, fields_of, from_json

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ChunkWork:
    """Chunks of a snapshot that was begun.

    Attributes:
        server: How to reach the server.
        snapshot, database, table: Which plan.
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
    numbers: tuple[int, ...]
    limits: dict[str, int]
    rows_per_second_max: float | None
    threads_running_max: int | None
    replica_lag_max: float | None
    replicas: tuple[ConnectionSettings, ...]

    @property
    def subject(self) -> str:
        """What a task reads, for people."""
        return f"{self.database}.{self.table}: chunk"


@dataclass(frozen=True)
class FoundAt:
    """Where a location of binlog files leads."""

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
        found_at: Where they, and the folders of patterns among them, lead.
        numbers: Of the sub-ranges.
        server_ids: What each registers as; None draws one.
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
        """What a task reads, for people."""
        return "sub-range"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one application reads.

    Attributes:
        source: Name of the source.
        staging: Where the staged files go.
        parallelism: How many tasks read at the same time.
        work: What they read.
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
