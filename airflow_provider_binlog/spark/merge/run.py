"""Run one merge: everything that is new, from manifests to lake tables.

1. Read the manifests after what was read already, and check that they follow each other.
2. Read how much of the log every table contains that they name, that lags, or that has a snapshot.
3. Hold the tables that are `loading` or `stale`, and plan what the others need.
4. Merge the tables, several at a time; a failure of one does not keep the others.
5. Check that each table that exists is merged or named, and save the progress.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_binlog.errors import ReloadNeededError
from airflow_provider_binlog.spark.job.report import Report, TableReport
from airflow_provider_binlog.spark.job.session import Sessions
from airflow_provider_binlog.spark.merge.lake_table import LakeTable, check_named, stale_for
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress, save_progress
from airflow_provider_binlog.spark.merge.source_rows import SparkRows
from airflow_provider_binlog.spark.merge.start import note_start, read_start
from airflow_provider_binlog.spark.merge.survey import (
    StagedLog,
    find_needs,
    read_needed_log,
    survey_tables,
)
from airflow_provider_binlog.spark.merge.table_merge import Lake, TableWork, merge_table
from airflow_provider_binlog.spark.plan.planner import TablePlan, plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog, check_contiguous
from airflow_provider_binlog.spark.reload.table_reload import plan_table_reload
from airflow_provider_binlog.spark.staged.files import HadoopFiles, check_sizes, read_sizes
from airflow_provider_binlog.spark.staged.manifests import read_manifests
from airflow_provider_binlog.spark.target.delta.table import DeltaLake
from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake
from airflow_provider_binlog.spark.target.jvm import check_catalog, check_jars
from airflow_provider_binlog.spark.target.properties import Owner
from airflow_provider_binlog.spark.target.spark_target import LakeFormat, SourceRows, SparkTarget
from airflow_provider_binlog.spark.target.state import CHANGES_ONLY, PROPERTY, hold_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.job.options import MergeOptions
    from airflow_provider_binlog.spark.merge.start import MergeStart, RunningMerge
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.spark.target.state import Hold, TargetState


_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class MergeRun:
    """One merge of a source into a lake.

    Attributes:
        start: The staged files, the progress and the options at its start.
        finished: Called with the report of each table as it is done, by the thread that did it.
        began: Its start, ISO 8601 in UTC.
    """

    files: SourceFiles
    lake: Lake[Any]
    options: MergeOptions
    start: MergeStart
    finished: Callable[[TableReport], object]
    began: str

    def in_threads(self, items: Sequence[_T], work: Callable[[_T], _R]) -> list[_R]:
        """Return the results of as many tables at once as the options say, in their order."""
        with ThreadPoolExecutor(self.options.threads) as pool:
            return list(pool.map(work, items))


def merge_all(
    spark: SparkSession,
    options: MergeOptions,
    *,
    finished: Callable[[TableReport], object] = lambda _: None,
) -> Report:
    """Merge what is new into every table.

    Args:
        spark: The job's session.
        options: What to merge, and where to.
        finished: Called with the report of each table as it is done, by the thread that did it.

    Raises:
        ConfigurationError: Spark lacks the classes of the format, or the catalog; no table was
            touched.
        BinlogError: Manifests are not as they should be; no table was touched.
    """
    files = HadoopFiles(spark, options.staging, options.source)
    return merge_into(partial(open_lake, spark, options, files), files, options, finished=finished)


def merge_into(
    open_target: Callable[[], Lake[Any]],
    files: SourceFiles,
    options: MergeOptions,
    *,
    finished: Callable[[TableReport], object] = lambda _: None,
) -> Report:
    """Merge what is new into every table of a lake, as `merge_all`.

    Args:
        open_target: Returns the lake; called if there is anything to do.
        files: The staged files of the source.
        options: What to merge.
        finished: Called with the report of each table as it is done, by the thread that did it.
    """
    started = time.monotonic()
    start = read_start(files, options)
    if start.is_idle:
        return start.idle_report(time.monotonic() - started)

    before, through, folder = start.before, start.through, start.folder
    began = datetime.now(UTC).isoformat(timespec="seconds")
    run = MergeRun(files, open_target(), options, start, finished, began)
    manifests = read_manifests(files, range(before.through + 1, through + 1))
    check_contiguous(manifests)
    if manifests:
        before.check_follows(manifests[0])
    now = before.read(manifests)
    newest = TableLog(manifests)
    merged, note = _merge_tables(run, newest, now)
    names = {table.name for table in merged}
    progress = _advance(run, newest, now, merged)
    save_progress(files, folder, progress, loaded=start.loaded, merged=names)
    if note is not None:
        files.delete(note.path)
    _delete_ended(run, merged)
    seconds = time.monotonic() - started
    reports = [table.report for table in merged] + start.report_unnamed(progress.tables)
    staged = start.staged | progress.tables.keys()
    return Report(
        options.source,
        through,
        reports,
        seconds,
        unmatched=start.find_unmatched(staged, progress.excluded),
        stop=progress.stop,
        versions=progress.versions,
    )


def _delete_ended(run: MergeRun, tables: Iterable[LakeTable]) -> None:
    """Delete the notes of merges that cannot commit any more, now that their tables were read."""
    read = {table.name for table in tables if table.is_read}
    for merge in run.start.running:
        if merge.has_ended and merge.tables <= read:
            run.files.delete(merge.path)


def open_lake(spark: SparkSession, options: MergeOptions, files: SourceFiles) -> Lake[SourceRows]:
    """Return the lake that the options name.

    Raises:
        ConfigurationError: Spark lacks the classes of the format, or the catalog.
    """
    check_jars(spark, options.format)
    source, tables, properties = options.source, options.table_options, options.properties
    if options.format == "iceberg":
        check_catalog(spark, options.lake)
        format_: LakeFormat = IcebergLake(source, options.lake, tables, properties)
    else:
        format_ = DeltaLake(source, options.lake, tables, properties, upgrade=options.upgrade)
    sessions = Sessions(spark, format_.settings)
    return Lake(SparkTarget(sessions.get(), format_), SparkRows(sessions, files))


def _merge_tables(
    run: MergeRun, newest: TableLog, now: Progress
) -> tuple[list[LakeTable], RunningMerge | None]:
    """Merge everything up to the last manifest.

    Returns what was done to every table, and the note of the merge, if it changed any.
    """
    tables = survey_tables(run, newest, now)
    staged = StagedLog(run.files, newest, run.start.before.through)
    find_needs(run, tables, staged, now)
    log = read_needed_log(staged, run.start, tables)
    for table in tables:
        _plan(table, log, run.options)
    for table in tables:
        _note_held(run, table)
    work = _work(run, log, tables)
    if not work:
        check_named(tables, newest, now)
        return tables, None
    sizes = read_sizes(run.files, [part for _, each in work for part in each.plan.parts])
    note = note_start(run.files, run.start.folder, (table.name for table, _ in work))

    def merge(item: tuple[LakeTable, TableWork]) -> None:
        table, own = item
        begun = time.monotonic()
        try:
            note.check()
            _merge(run, table, own, sizes)
        except ReloadNeededError as error:
            _hold_stale(run, table, stale_for(error))
        except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
            table.fail(error)
        table.report.seconds = round(time.monotonic() - begun, 3)
        run.finished(table.report)

    # The longest first: the others fit beside it.
    work.sort(key=lambda item: item[0].bytes, reverse=True)
    run.in_threads(work, merge)
    check_named(tables, newest, now)
    return tables, note


def _work(
    run: MergeRun, log: TableLog, tables: Iterable[LakeTable]
) -> list[tuple[LakeTable, TableWork]]:
    """Return what is to be committed to which tables."""
    found = []
    for table in tables:
        plan = table.plan
        if table.is_merged and plan is not None and plan.segment is not None:
            last = log.manifests[-1]
            created = None if plan.table is None else log.created(plan.table)
            is_complete = created is not None or log.find_restart(table.name) is not None
            lacks_rows = table.state is None or table.state.lacks_rows
            if table.reload is None and not is_complete and lacks_rows:
                table.report.lacks = CHANGES_ONLY
            work = TableWork(
                plan,
                table.target,
                table.state,
                Owner(run.options.source, last.identity, table.name),
                str(last.stop),
                partial(_plan_again, table.name, log, run.options),
                is_complete=is_complete,
                snapshot=None if table.reload is None else table.reload.snapshot.id,
            )
            found.append((table, work))
    return found


def _plan(table: LakeTable, log: TableLog, options: MergeOptions) -> None:
    if not table.is_merged or not log.manifests or table.first_needed > log.last:
        return
    if table.reload is not None:
        plan_table_reload(table, log, options)
        return
    try:
        chosen = options.table_options.of(table.name)
        plan = plan_table(
            table.name, log, first=table.first_needed, state=table.state, options=chosen
        )
    except ReloadNeededError as error:
        table.hold = stale_for(error)
        return
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)
        return
    table.take(plan)


def _plan_again(
    name: TableName, log: TableLog, options: MergeOptions, state: TargetState
) -> TablePlan | None:
    first, chosen = state.applied.sequence + 1, options.table_options.of(name)
    return plan_table(name, log, first=first, state=state, options=chosen)


def _note_held(run: MergeRun, table: LakeTable) -> None:
    """Say in the lake table's properties why it is not merged, and since when."""
    known = run.start.before.tables.get(table.name)
    table.set_hold_since(None if known is None else known.hold, run.began)
    state, hold = table.state, table.hold
    if hold is None or state is None or state.unknown is not None or table.is_foreign:
        return
    wanted = hold_property(hold, table.applied, table.loaded)
    if state.properties.get(PROPERTY) == wanted[PROPERTY]:
        return
    try:
        run.lake.target.set_properties(table.target, wanted)
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)


def _hold_stale(run: MergeRun, table: LakeTable, hold: Hold) -> None:
    """Leave a table at what was committed of it, until a reload."""
    try:
        table.state = run.lake.target.read_state(table.target)
        table.report.applied_after = table.applied
        table.hold = hold
        _note_held(run, table)
    except Exception as failed:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(failed)


def _merge(
    run: MergeRun, table: LakeTable, work: TableWork, sizes: Mapping[str, int | None]
) -> None:
    check_sizes(run.files, work.plan.parts, sizes)
    if run.options.verify_parts:
        run.lake.rows.check_digests(work.plan.parts)
    merged = merge_table(run.lake, work)
    # The format found it done: by whom, and how much else, the next merge reads.
    table.is_settled = merged.commit is not None
    if merged.commit is None:
        return
    table.report.is_merged = True
    if table.reload is not None:
        table.report.snapshot = table.processed_snapshot = table.reload.snapshot.id
    table.report.applied_after = merged.applied
    table.report.rows, table.report.version = merged.commit.rows, merged.commit.version
    table.report.missing_rows = merged.commit.missing
    if merged.stop is not None:
        _hold_stale(run, table, table.stale(merged.stop))


def _advance(
    run: MergeRun, newest: TableLog, now: Progress, tables: Iterable[LakeTable]
) -> Progress:
    """Return how far the lake has got, with what was done to every table."""
    known = dict(run.start.before.tables)
    for name in newest.names():
        # Tables of another merge; those of this one follow.
        each = known.get(name, TableProgress())
        first = each.first or newest.holdings(name, since=0)[0].sequence
        known[name] = replace(each, first=first, pending=True)
    for table in tables:
        known[table.name] = table.progress(known.get(table.name, TableProgress()))
    done = {table.processed_snapshot for table in tables if table.processed_snapshot is not None}
    there = {*run.start.snapshots.ids()}
    return replace(now, tables=known, snapshots=frozenset((now.snapshots | done) & there))
