"""Where the runs of a test merge into: a real lake, or tables in memory."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.parquet as pq

from airflow_provider_binlog.changes import (
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
)
from airflow_provider_binlog.spark.job.options import parse_arguments
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from airflow_provider_binlog.staging.paths import StoredFiles, part_sequence
from tests.random_ddl.comparison import find_differing
from tests.support.compare import compare
from tests.support.memory_target import MemoryTarget
from tests.support.merges import merge_all
from tests.unit.spark.lake_in_memory import MemoryRows, ReadChange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.spark.job.options import Report
    from airflow_provider_binlog.spark.plan.fold import StartWithin
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.staged.parts import SchemaRows
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.support.compare import Table
    from tests.unit.spark.workplace import Workplace


_EPOCH = datetime.fromtimestamp(0, UTC)


class TestedLake(Protocol):
    """A lake, and the arguments of tasks that name it: `target`."""

    target: dict[str, Any]

    def merge(self, arguments: Sequence[str]) -> Report:
        """Merge as the job does."""

    def find_differences(
        self,
        manifests: Sequence[Manifest],
        selected: Sequence[tuple[Table, list[dict[str, Any]]]],
        *,
        but: Collection[str],
    ) -> Iterator[str]:
        """Yield what is not equal to the rows that were selected."""


class SparkLake:
    """A lake of Delta, Iceberg or PostgreSQL tables."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self.target = {"format": workplace.format, "lake": workplace.options().lake}

    def merge(self, arguments: Sequence[str]) -> Report:
        """See `TestedLake`."""
        # A file with the connection to a database is written for each merge.
        connection = self._workplace.options().connection
        own = [] if connection is None else ["--connection", connection]
        return merge_all(self._workplace.spark, parse_arguments([*arguments, *own])[0])

    def find_differences(
        self,
        manifests: Sequence[Manifest],
        selected: Sequence[tuple[Table, list[dict[str, Any]]]],
        *,
        but: Collection[str],
    ) -> Iterator[str]:
        """See `TestedLake`."""
        return find_differing(self._workplace, manifests, selected, but=but)


class MemoryLake:
    """The same merge into tables in memory: without Spark, some times as quick."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        # Below this place its progress is kept.
        self.target = {"format": "delta", "lake": "file:///memory"}
        self._tables = MemoryTarget()
        self._files = StoredFiles(store, source)
        self._rows = _Rows(self._files, self._tables)

    def merge(self, arguments: Sequence[str]) -> Report:
        """See `TestedLake`."""
        options, _ = parse_arguments([*arguments, "--threads", "1"])
        return merge_into(lambda: Lake(self._tables, self._rows), self._files, options)

    def find_differences(
        self,
        manifests: Sequence[Manifest],
        selected: Sequence[tuple[Table, list[dict[str, Any]]]],
        *,
        but: Collection[str],
    ) -> Iterator[str]:
        """See `TestedLake`."""
        for table, source in selected:
            stored = self._tables.tables.get(f"{table.database}.{table.name}")
            if table.name in but or (stored is None and not source):
                continue
            if stored is None:
                yield f"{table.name}: there is no lake table, and {len(source)} rows"
            elif table.key:
                rows = stored.read()
                lake = {name: [row[name] for row in rows] for name in stored.columns}
                for each in compare(table, source, lake):
                    yield f"{table.name}: {each}"


class _Rows(MemoryRows):
    """Makes the rows of changes from parts as they are staged."""

    def __init__(self, files: StoredFiles, target: MemoryTarget) -> None:
        self._files, self.target = files, target

    def _changes(self, segment: Segment) -> list[ReadChange]:
        found = []
        for rows in segment.reads:
            for part in rows.parts:
                data, sequence = self._files.read(part.path), part_sequence(part.path)
                assert data is not None
                for change in pq.read_table(io.BytesIO(data)).to_pylist():
                    if segment.start is None or _counts(segment.start, sequence, change):
                        row, held = _read(segment, rows, sequence, change)
                        point, at = (sequence, change[ROW]), change[COMMIT_TS]
                        when = (at - _EPOCH) // timedelta(microseconds=1), change[GTID]
                        where = change[FILE], change[POSITION]
                        type_ = change[CHANGE_TYPE]
                        found.append(ReadChange(point, type_, row, held, *when, *where))
        return sorted(found, key=lambda change: change.at)


def _read(
    segment: Segment, rows: SchemaRows, sequence: int, change: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str]]:
    """Return the values of a change by column of the lake, and the columns that have one."""
    images, held = rows.images, {*segment.columns}
    if images is not None:
        number = images.numbers[sequence - images.first][change[IMAGE]]
        held -= {name for name, own in rows.names.items() if not images.holds(own)[number]}
    row = {
        name: change[rows.names[name]] if name in rows.names else rows.initial.get(name)
        for name in segment.columns
    }
    if segment.is_changelog:
        row[CHANGE_TYPE] = change[CHANGE_TYPE]
    return row, held


def _counts(start: StartWithin, sequence: int, change: Mapping[str, Any]) -> bool:
    at = int(change[FILE].rpartition(".")[2]), change[POSITION]
    return sequence != start.sequence or at >= (start.file_number, start.offset)
