"""A merge of everything that is new, from manifests to lake tables: the story on one page.

1. Read the manifests after what is merged already, and check that they follow each other.
2. Read how far every table is that they name, and plan what it needs.
3. Check that every part that is needed is there.
4. Merge the tables, several at a time; a failure of one does not keep the others.
5. Note how far the lake has got.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_binlog.errors import BinlogError, ManifestError
from airflow_provider_binlog.spark.failures import explain
from airflow_provider_binlog.spark.lake.delta import DeltaLake
from airflow_provider_binlog.spark.lake.iceberg import IcebergLake
from airflow_provider_binlog.spark.lake.table_format import (
    Applied,
    Lake,
    TargetState,
    check_owner,
)
from airflow_provider_binlog.spark.mark import NOTHING, Mark
from airflow_provider_binlog.spark.plan.lifecycle import find_replacement, followed_by
from airflow_provider_binlog.spark.plan.manifest_range import check_contiguous
from airflow_provider_binlog.spark.plan.progress import (
    Progress,
    TableProgress,
    load_progress,
    progress_path,
    save_progress,
)
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.plan.table_plan import TablePlan, plan_table
from airflow_provider_binlog.spark.report import Report, TableReport
from airflow_provider_binlog.spark.staged.changes import check_digests
from airflow_provider_binlog.spark.staged.files import (
    HadoopFiles,
    SourceFiles,
    check_sizes,
    newest_sequence,
    read_manifests,
)
from airflow_provider_binlog.spark.table_merge import TableWork, merge_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class MergeOptions:
    """What to merge, and where to.

    Attributes:
        staging: URI of the staging root.
        source: Name of the source.
        format: `delta` or `iceberg`.
        lake: Delta: folder of the tables. Iceberg: name of the catalog.
        through: Number of the last manifest to merge; None for the newest.
        table_name: Template of a table's name in the catalog.
        tables: Patterns over `database.table`; no table else is merged.
        keys: Key columns of tables without a primary key.
        properties: Table properties of new tables.
        threads: How many tables are merged at once.
        verify_parts: Whether the parts' SHA-256 are compared, which reads every part once more.
    """

    staging: str
    source: str
    format: str
    lake: str
    through: int | None = None
    table_name: str | None = None
    tables: Sequence[str] = ("*",)
    keys: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    threads: int = 4
    verify_parts: bool = False


@dataclass
class _Table:
    """One table on its way through a merge; one whose report has an error is left alone."""

    name: TableName
    target: str
    report: TableReport
    state: TargetState | None = None
    first_needed: int = 0
    plan: TablePlan | None = None

    @property
    def failed(self) -> bool:
        return self.report.error is not None

    @property
    def bytes(self) -> int:
        """Size of the parts to be read."""
        return sum(part.bytes for part in self.plan.parts) if self.plan is not None else 0

    @property
    def applied(self) -> Mark:
        """How much of the log the target contains; nothing if there is none."""
        return self.state.applied if self.state is not None else NOTHING

    def fail(self, error: Exception) -> None:
        known = explain(error, table=self.report.table, target=self.target)
        self.report.status = "failed"
        self.report.error, self.report.retryable = str(known), known.retryable


def merge_all(spark: SparkSession, options: MergeOptions) -> Report:
    """Merge what is new into every table.

    Raises:
        BinlogError: Manifests or parts are not as they should be; no table was touched.
    """
    started = time.monotonic()
    files = HadoopFiles(spark, options.staging, options.source)
    path = _progress_path(options)
    progress = load_progress(files, path)
    through = newest_sequence(files) if options.through is None else options.through
    if through <= progress.through:
        return Report(options.source, through, [], time.monotonic() - started)

    newest = read_manifests(files, range(progress.through + 1, through + 1))
    check_contiguous(newest)
    progress.check_follows(newest[0])

    lake = _lake(options)
    tables = _survey(spark.newSession(), lake, TableLog(newest), progress, options)
    log = _with_replacements(files, _with_earlier(files, newest, tables), tables)
    for table in tables:
        _plan(table, log, options)

    parts = [part for table in tables if table.plan for part in table.plan.parts]
    check_sizes(files, parts)
    if options.verify_parts:
        check_digests(spark.newSession(), files, parts)

    applied = Applied(options.source, Mark(through), str(newest[-1].stop))

    def merge(table: _Table) -> None:
        if table.plan is not None and table.plan.segments:
            work = TableWork(table.plan, table.target, table.state, newest[-1].identity, applied)
            _merge(spark, lake, files, work, table)

    # The longest first: the others fit beside it.
    tables.sort(key=lambda table: table.bytes, reverse=True)
    _in_threads(options.threads, tables, merge)
    seconds = time.monotonic() - started
    report = Report(options.source, through, [table.report for table in tables], seconds)
    if not report.failed:
        save_progress(files, path, _advance(progress, newest, tables))
    return report


def _lake(options: MergeOptions) -> Lake:
    if options.format == "iceberg":
        return IcebergLake(options.lake, options.table_name, options.properties)
    return DeltaLake(options.source, options.lake, options.table_name, options.properties)


def _progress_path(options: MergeOptions) -> str:
    keys = {".".join(name): columns for name, columns in options.keys.items()}
    return progress_path(
        format=options.format,
        lake=options.lake,
        table_name=options.table_name,
        tables=sorted(options.tables),
        keys=keys,
    )


def _wanted(names: Iterable[TableName], patterns: Sequence[str]) -> list[TableName]:
    """Return the names of the tables that are to be merged."""
    return [
        name for name in names if any(fnmatchcase(".".join(name), pattern) for pattern in patterns)
    ]


def _survey(
    session: SparkSession,
    lake: Lake,
    log: TableLog,
    progress: Progress,
    options: MergeOptions,
) -> list[_Table]:
    """Read how far every table is that the manifests name."""
    servers = progress.servers_through(log.manifests)

    def survey(name: TableName) -> _Table:
        target = lake.target(*name)
        table = _Table(name, target, TableReport(".".join(name), target))
        try:
            state = lake.find_state(session, target)
            if state is not None:
                # Before its applied mark is believed.
                check_owner(target, state, source=options.source, servers=servers, name=name)
            table.state = state
        except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
            table.fail(error)
        table.report.applied_before = table.report.applied_after = table.applied
        table.first_needed = progress.first_needed(name, table.applied.sequence)
        return table

    return _in_threads(options.threads, _wanted(log.names(), options.tables), survey)


def _with_earlier(
    files: SourceFiles, manifests: Sequence[Manifest], tables: Iterable[_Table]
) -> Sequence[Manifest]:
    """Return the manifests from the first one that any table needs: one may lag behind."""
    begin = manifests[0].sequence
    first = min((table.first_needed for table in tables if not table.failed), default=begin)
    if first >= begin:
        return manifests
    everything = [*read_manifests(files, range(first, begin)), *manifests]
    check_contiguous(everything)
    return everything


def _with_replacements(
    files: SourceFiles, manifests: Sequence[Manifest], tables: Iterable[_Table]
) -> TableLog:
    """Return the log from where the tables were created that others were replaced by."""
    log = TableLog(manifests)
    found = (
        find_replacement(
            table.name, log, first=table.first_needed, followed=followed_by(table.state)
        )
        for table in tables
        if not table.failed
    )
    first = min((each for each in found if each is not None), default=log.first)
    if first >= log.first:
        return log
    try:
        earlier = read_manifests(files, range(first, log.first))
    except ManifestError:
        # Whoever deleted old ones has the tables refused that need them.
        return log
    everything = [*earlier, *manifests]
    check_contiguous(everything)
    return TableLog(everything)


def _plan(table: _Table, log: TableLog, options: MergeOptions) -> None:
    if table.failed or table.first_needed > log.last:
        return
    try:
        table.plan = plan_table(
            table.name, log, first=table.first_needed, state=table.state, keys=options.keys
        )
    except BinlogError as error:
        table.fail(error)
    else:
        table.report.changes = table.plan.changes if table.plan is not None else {}


def _merge(
    spark: SparkSession,
    lake: Lake,
    files: SourceFiles,
    work: TableWork,
    table: _Table,
) -> None:
    begun = time.monotonic()
    try:
        commit = merge_table(spark, lake, files, work)
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)
    else:
        if commit is not None:
            table.report.status = "merged"
            table.report.applied_after = work.applied.mark
            table.report.rows = asdict(commit)
    table.report.seconds = round(time.monotonic() - begun, 3)


def _advance(
    progress: Progress, manifests: Sequence[Manifest], tables: Iterable[_Table]
) -> Progress:
    last = manifests[-1]
    known = dict(progress.tables)
    for table in tables:
        waits = table.plan is not None and table.plan.waits
        settled = table.first_needed - 1 if waits else last.sequence
        known[table.name] = TableProgress(table.report.applied_after.sequence, settled)
    return Progress(last.end, progress.servers_through(manifests), known)


def _in_threads(threads: int, items: Sequence[_T], work: Callable[[_T], _R]) -> list[_R]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))
