"""The newest ranges of a source, in short: a manifest is read once, as none is ever rewritten."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import NamedTuple, TypeVar, cast

from airflow_provider_binlog.errors import ManifestError, StagingError, StoreUnavailableError
from airflow_provider_binlog.manifest import Manifest, QuarantinedTable
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.schema import TableName

_READERS = 8

_Value = TypeVar("_Value")

BYTES_PER_READ = 4 << 20
"""Of manifests that are decoded for one view of a source: about a second of a busy processor."""


class TableRows(NamedTuple):
    """Change rows of a table in a range, and when the last of them was committed."""

    name: TableName
    rows: int
    last_commit: datetime


@dataclass(frozen=True, kw_only=True)
class RangeSummary:
    """A staged range.

    Attributes:
        changes: Rows by change type.
        tables: Those with rows.
        first_commit: Of its rows; None without any.
        statements: How many DDL statements it has.
    """

    sequence: int
    identity: SourceIdentity
    start: Position
    stop: Position
    created_at: datetime
    created_by: str
    changes: dict[str, int]
    tables: tuple[TableRows, ...]
    first_commit: datetime | None
    quarantined: tuple[QuarantinedTable, ...]
    statements: int

    @property
    def rows(self) -> int:
        """Change rows over all tables."""
        return sum(self.changes.values())

    @property
    def waited(self) -> timedelta | None:
        """How long its first change had been committed when it was staged; None without rows."""
        if self.first_commit is None:
            return None
        return max(timedelta(), self.created_at - self.first_commit)


def summarize(manifest: Manifest) -> RangeSummary:
    """Return a manifest in short."""
    parts = [part for table in manifest.tables for part in table.parts]
    changes: Counter[str] = Counter()
    for part in parts:
        changes.update(part.changes)
    rows = (
        TableRows(table.name, table.rows, _time(max(part.last_commit for part in table.parts)))
        for table in manifest.tables
        if table.parts
    )
    statements = [statement for statement in manifest.statements if statement.text]
    return RangeSummary(
        sequence=manifest.sequence,
        identity=manifest.identity,
        start=manifest.start,
        stop=manifest.stop,
        created_at=read_time(manifest.created_at),
        created_by=manifest.created_by,
        changes=dict(changes),
        tables=tuple(rows),
        first_commit=_time(min(part.first_commit for part in parts)) if parts else None,
        quarantined=manifest.quarantined,
        statements=len(statements),
    )


def _time(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def read_time(text: str) -> datetime:
    """Return a time that is stored as ISO 8601, in UTC."""
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


class Memory:
    """Values that never change, by their keys; those that were not used for the longest go first.

    It may be used from several threads.
    """

    def __init__(self, cost_max: int = 64 << 20) -> None:
        self._values: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._cost_max, self._cost = cost_max, 0
        self._lock = Lock()

    def find(self, key: Hashable) -> object | None:
        """Return the value of a key; None if there is none."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: Hashable, value: object, cost: int) -> None:
        """Keep a value; its cost is about the bytes that it takes."""
        with self._lock:
            _, previous = self._values.pop(key, (None, 0))
            self._values[key] = value, cost
            self._cost += cost - previous
            while self._cost > self._cost_max:
                _, (_, dropped) = self._values.popitem(last=False)
                self._cost -= dropped

    def read(self, key: Hashable, read: Callable[[], _Value], cost: int) -> _Value | None:
        """Return the value of a key, read where there is none; None if it is unreadable."""
        known = cast("_Value | None", self.find(key))
        if known is None:
            with suppress(ManifestError):
                known = read()
                self.keep(key, known, cost)
        return known


class NewestRanges(NamedTuple):
    """The newest ranges, the newest first, and why an older one could not be read."""

    ranges: tuple[RangeSummary, ...]
    problem: str = ""


def read_newest(
    sequences: Sequence[int],
    read: Callable[[int], bytes],
    memory: Memory,
    key: Hashable,
    *,
    count: int,
    bytes_max: int,
) -> NewestRanges:
    """Return the newest ranges: as many as the bytes allow, and one at least.

    What was read stays in memory, so that the next call returns more. An unreadable manifest ends
    the ranges.

    Args:
        sequences: Numbers of the manifests that there are, ascending.
        read: Returns the file of a manifest; it is called by several threads.
        memory: Of ranges that were read.
        key: Names the source, and where it is staged.
        count: How many ranges are wanted.
        bytes_max: Of manifests that are decoded.

    Raises:
        StoreUnavailableError: The store does not answer.
    """
    wanted = list(reversed(sequences))[:count]
    ranges: list[RangeSummary] = []
    budget = bytes_max
    with ThreadPoolExecutor(_READERS) as pool:
        for batch in (wanted[at : at + _READERS] for at in range(0, len(wanted), _READERS)):
            known = {number: memory.find((key, number)) for number in batch}
            missing = [number for number, value in known.items() if value is None]
            if ranges and missing and budget <= 0:
                break
            files = dict(zip(missing, pool.map(partial(_read, read), missing), strict=True))
            for number in batch:
                summary = known[number]
                if not isinstance(summary, RangeSummary):
                    if ranges and budget <= 0:
                        return NewestRanges(tuple(ranges))
                    data = files[number]
                    try:
                        if isinstance(data, StagingError):
                            raise data
                        summary = summarize(Manifest.decode(data))
                    except StagingError as error:
                        return NewestRanges(tuple(ranges), str(error))
                    budget -= len(data)
                    memory.keep((key, number), summary, 1000 + 300 * len(summary.tables))
                ranges.append(summary)
    return NewestRanges(tuple(ranges))


def _read(read: Callable[[int], bytes], sequence: int) -> bytes | StagingError:
    """Return a file, or why it cannot be read, if the others can."""
    try:
        return read(sequence)
    except StoreUnavailableError:
        raise
    except StagingError as error:
        return error
