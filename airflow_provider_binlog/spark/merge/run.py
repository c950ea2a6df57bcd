"""Run one merge: everything that is new, from manifests to lake tables.

A failure of one table does not keep the others. At the end each table that exists is merged or
named, and the progress is saved.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from pyspark.sql import SparkSession

from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    ManifestError,
    ReloadNeededError,
    error_context,
)
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.collapse.source_rows import SparkRows
from airflow_provider_binlog.spark.job.options import MergeOptions, Report, TableReport
from airflow_provider_binlog.spark.job.session import Sessions
from airflow_provider_binlog.spark.merge.lake_table import (
    TO_ADOPT,
    LakeTable,
    StagedLog,
    check_mode,
    check_named,
    cover,
    find_foreign_write,
    follow_options,
    stale_for,
    wait_for_snapshot,
)
from airflow_provider_binlog.spark.merge.progress import (
    MergeStart,
    Progress,
    RunningMerge,
    Seen,
    TableProgress,
    note_start,
    progress_folder,
    read_record,
    read_records,
    read_start,
    save_progress,
)
from airflow_provider_binlog.spark.merge.table_merge import (
    Lake,
    make_change,
    note_commit,
    take_rows_along,
)
from airflow_provider_binlog.spark.plan.lifecycle import find_replacement
from airflow_provider_binlog.spark.plan.planner import plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog, check_contiguous
from airflow_provider_binlog.spark.published import tag_published
from airflow_provider_binlog.spark.reload.plan import find_reload, is_adopted, plan_table_reload
from airflow_provider_binlog.spark.staged.files import (
    HadoopFiles,
    SourceFiles,
    check_sizes,
    sequence_reset_error,
)
from airflow_provider_binlog.spark.target.delta.table import DeltaLake
from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake
from airflow_provider_binlog.spark.target.jvm import check_catalog, check_jars
from airflow_provider_binlog.spark.target.postgresql.settings import PostgresSettings
from airflow_provider_binlog.spark.target.postgresql.target import PostgresRows, PostgresTarget
from airflow_provider_binlog.spark.target.properties import check_owner, clear_ownership, is_foreign
from airflow_provider_binlog.spark.target.protocol import (
    Commit,
    TableChange,
    TransactionalTarget,
)
from airflow_provider_binlog.spark.target.spark_target import LakeFormat, SourceRows, SparkTarget
from airflow_provider_binlog.spark.target.state import PROPERTY, Hold, hold_property
from airflow_provider_binlog.staging.paths import list_manifests, read_manifests

Finished = Callable[[TableReport, int, int], object]
"""Takes the report of a table, its number among those that are done, and how many there are."""


class Merge(Protocol):
    """Merges all that is new."""

    def __call__(self, finished: Finished, without: Collection[str] = ()) -> Report:
        """Merge all tables but those named; call `finished` as each is done, by its thread."""


_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class MergeRun:
    """One merge of a source into a lake; `began` is its start, ISO 8601 in UTC."""

    files: SourceFiles
    lake: Lake[Any]
    options: MergeOptions
    start: MergeStart
    staged: StagedLog
    finished: Finished
    began: str

    def in_threads(self, items: Sequence[_T], work: Callable[[_T], _R]) -> list[_R]:
        """Return the results of as many tables at once as the options say, in their order."""
        # The sessions are those of the threads, by name: the next merge of the job has them again.
        with ThreadPoolExecutor(self.options.threads, thread_name_prefix="merge") as pool:
            return list(pool.map(work, items))


@contextmanager
def opened_merges(
    spark: SparkSession, options: MergeOptions
) -> Iterator[tuple[Merge, SourceFiles]]:
    """Yield what merges all that is new, any number of times, and the staged files.

    The lake is opened once. A merge has touched no table if it raises

    - ConfigurationError: Spark lacks the classes of the format, or the catalog;
    - BinlogError: Manifests are not as they should be.
    """
    files = HadoopFiles(spark, options.staging, options.source)
    with ExitStack() as stack:

        @cache
        def open_target() -> Lake[SourceRows]:
            return stack.enter_context(closing(open_lake(spark, options, files)))

        folder = progress_folder(options.format, options.lake, options.table_options)
        seen = Seen()

        def merge(finished: Finished, without: Collection[str] = ()) -> Report:
            chosen = replace(options, without=frozenset(without))
            report = merge_into(open_target, files, chosen, finished=finished, seen=seen)
            if options.tag is not None and report.published:
                tag_published(spark, read_record(files, folder, report.published), options.tag)
            return report

        yield merge, files
        # All but one of each minute, and the one that the job reports.
        seen.thin(files, folder, keep=1)


def merge_into(
    open_target: Callable[[], Lake[Any]],
    files: SourceFiles,
    options: MergeOptions,
    *,
    finished: Finished = lambda *_: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    seen: Seen | None = None,
) -> Report:
    """Merge what is new into a lake that is opened if there is anything to do.

    See `opened_merges`. What the job has `seen` before is not listed again.
    """
    started, seen = time.monotonic(), seen or Seen()
    start = read_start(files, options, seen)
    if start.is_idle:
        return start.idle_report(time.monotonic() - started)

    before, through = start.before, start.through
    began = clock().isoformat(timespec="seconds")
    manifests = read_manifests(files, range(before.through + 1, through + 1))
    check_contiguous(manifests)
    if manifests:
        before.check_follows(manifests[0])
    records = partial(read_records, files, start.folder)
    staged = StagedLog(files, TableLog(manifests), before, start.present, records)
    run = MergeRun(files, open_target(), options, start, staged, finished, began)
    if isinstance(run.lake.target, TransactionalTarget):
        run.lake.target.start()
    tables, note = _merge_tables(run)
    progress = _advance(run, tables)
    names = {table.name for table in tables}
    progress = save_progress(
        files, start.folder, progress, loaded=start.loaded, merged=names, now=clock()
    )
    seen.publish(files, start.folder, progress)
    if note is not None:
        files.delete(note.path)
    # The notes of merges that cannot commit any more, now that their tables were read.
    read = {table.name for table in tables if table.is_read}
    for merge in start.running:
        if merge.has_ended and merge.tables <= read:
            files.delete(merge.path)
    reports = [*tables, *start.report_unnamed(progress.tables)]
    return start.report(progress, reports, time.monotonic() - started)


def open_lake(spark: SparkSession, options: MergeOptions, files: SourceFiles) -> Lake[SourceRows]:
    """Return the lake that the options name."""
    check_jars(spark, options.format)
    source, tables, properties = options.source, options.table_options, options.properties
    if options.format == "postgresql":
        if options.connection is None:
            raise ConfigurationError("the merge into PostgreSQL needs --connection")
        settings, sessions = PostgresSettings.take(Path(options.connection)), Sessions(spark, {})
        target = PostgresTarget(sessions.get(), settings, tables)
        return Lake(target, PostgresRows(sessions, files, verify=options.verify_parts))
    if options.format == "iceberg":
        check_catalog(spark, options.lake)
        format_: LakeFormat = IcebergLake(source, options.lake, tables, properties)
    else:
        format_ = DeltaLake(source, options.lake, tables, properties, upgrade=options.upgrade)
    sessions = Sessions(spark, format_.settings)
    return Lake(
        SparkTarget(sessions.get(), format_),
        SparkRows(sessions, files, verify=options.verify_parts),
    )


def _merge_tables(run: MergeRun) -> tuple[list[LakeTable], RunningMerge | None]:
    """Merge everything; return what was done to every table, and the note, if any was changed."""
    tables = survey_tables(run)
    find_needs(run, tables)
    log = read_needed_log(run, tables)
    for table in tables:
        _plan(table, log)
    for table in tables:
        _note_held(run, table)
    work = [table for table in tables if table.is_active and table.segment is not None]
    note = None
    if work:
        note = note_start(run.files, run.start.folder, (table.name for table in work))
        # The longest first: the others fit beside it.
        work.sort(key=lambda table: table.bytes, reverse=True)
        prepare = partial(_prepare, run, log, note)
        done, total = count(1), len(work)

        def merge(table: LakeTable) -> None:
            _merge(run, prepare, table)
            while _plan_rest(run, log, table):
                _merge(run, prepare, table)
            run.finished(table, next(done), total)

        if isinstance(run.lake.target, TransactionalTarget):
            rest = work
            while rest:
                _merge_together(run, run.lake.target, prepare, rest)
                rest = [table for table in rest if _plan_rest(run, log, table)]
            for table in work:
                run.finished(table, next(done), total)
        else:
            run.in_threads(work, merge)
    elif isinstance(run.lake.target, TransactionalTarget):
        # What renamed tables took along.
        run.lake.target.commit_staged([])
    check_named(tables, run.staged)
    return tables, note


def read_needed_log(run: MergeRun, tables: Sequence[LakeTable]) -> TableLog:
    """Return the log from the first manifest that any table needs."""
    staged = run.staged
    active = [table for table in tables if table.is_active]
    through = staged.before.through
    log = staged.since(min((table.first_needed for table in active), default=through + 1))
    if not log.manifests:
        return log
    replaced = [
        find_replacement(table.name, log, table.first_needed, table.state) for table in active
    ]
    try:
        return staged.since(min([log.first, *(number for number in replaced if number)]))
    except ManifestError:
        # Whoever deleted old ones has the tables held that need them.
        return log


def survey_tables(run: MergeRun) -> list[LakeTable]:
    """Read how much of the log every table contains that may need something."""
    start, staged = run.start, run.staged
    names = {*staged.newest.names(), *start.noted, *start.unloaded}
    names |= {*start.before.pending(start.chosen)}

    def survey(name: TableName) -> LakeTable:
        target = run.lake.target.locate(name)
        table_options = run.options.table_options.of(name)
        table = LakeTable(".".join(name), target, name=name, options=table_options)
        with table.failing():
            state = run.lake.target.read_state(target)
            adopts = run.options.adopt or is_adopted(start.snapshots, name, start.before)
            source = run.options.source
            if state is not None and adopts and is_foreign(state, source=source, name=name):
                table.is_foreign, state = True, clear_ownership(state)
            elif state is not None:
                # The applied mark of a table with another owner has no meaning.
                check_owner(target, state, source=source, servers=staged.now.servers, name=name)
            table.state, table.is_read = state, True
        table.applied_before = table.applied_after = table.applied
        return table

    return run.in_threads(sorted(filter(start.chosen, names)), survey)


def find_needs(run: MergeRun, tables: Sequence[LakeTable]) -> None:
    """Decide which manifests each table needs, and whether it is merged at all."""
    needed: dict[TableName, Exception] = {}
    for table in tables:
        if table.is_active:
            _find_reload(run, table)
        if table.is_followed and table.is_foreign:
            table.hold = Hold("loading", table.unloaded or TO_ADOPT)
        if table.is_followed:
            needed |= take_rows_along(run, table)
        known = run.start.before.tables.get(table.name)
        find_foreign_write(table, known, table.options.on_foreign_write or "warn")
        if table.is_followed:
            _check_number(run, table)
        if table.is_followed:
            with table.failing():
                cover(table, run.staged, initial_load=run.options.initial_load)
        if table.error is None:
            wait_for_snapshot(table, run.staged)
    for table in tables:
        if table.is_followed and table.name in needed:
            # The next merge copies its rows: they have to be those from before the rename.
            table.fail(needed[table.name])


def _find_reload(run: MergeRun, table: LakeTable) -> None:
    with table.failing():
        find_reload(table, run.staged, run.start.snapshots)
        if table.is_active:
            check_mode(table, run.staged)


def _check_number(run: MergeRun, table: LakeTable) -> None:
    """Fail a table that has got a manifest which is not staged yet: its manifests were others."""
    applied, present = table.applied.sequence, run.staged.present
    if not present or applied <= max(present):
        return
    # Another merge may have read a newer one since.
    newest = max(list_manifests(run.files), default=0)
    if applied > newest:
        table.fail(sequence_reset_error(applied, newest=newest))


def _plan(table: LakeTable, log: TableLog) -> None:
    if not table.is_active or not log.manifests or table.first_needed > log.last:
        return
    with table.failing():
        if table.reload is not None:
            plan_table_reload(table, table.reload, log)
            return
        first, state, options = table.first_needed, table.state, table.options
        try:
            table.take(plan_table(table.name, log, first=first, state=state, options=options))
        except ReloadNeededError as error:
            table.hold = stale_for(error)


def _note_held(run: MergeRun, table: LakeTable) -> None:
    """Say in the lake table's properties why it is not merged, and since when."""
    known = run.start.before.tables.get(table.name)
    table.set_hold_since(None if known is None else known.hold, run.began)
    state, hold = table.state, table.hold
    if hold is None or state is None or state.unknown is not None or table.is_foreign:
        return
    if table.has_other_mode:
        return
    wanted = hold_property(hold, table.applied, table.loaded)
    if state.properties.get(PROPERTY) == wanted[PROPERTY]:
        return
    with table.failing():
        run.lake.target.set_properties(table.target, wanted)


def _hold_stale(run: MergeRun, table: LakeTable, hold: Hold) -> None:
    """Leave a table at what was committed of it, until a reload."""
    with table.failing():
        table.state = run.lake.target.read_state(table.target)
        table.applied_after = table.applied
        table.hold = hold
        _note_held(run, table)


def _prepare(
    run: MergeRun, log: TableLog, note: RunningMerge, table: LakeTable
) -> TableChange[Any] | None:
    """Return what is to be committed of a table, whose parts are as they were staged."""
    note.check()
    check_sizes(run.files, table.parts)
    return make_change(run.lake, table, log, source=run.options.source)


_Prepare: TypeAlias = Callable[[LakeTable], TableChange[Any] | None]


def _merge(run: MergeRun, prepare: _Prepare, table: LakeTable) -> None:
    """Merge one table, and report how that ended."""
    with _reporting(run, table):
        change = prepare(table)
        if change is not None:
            _note(run, table, change, run.lake.target.commit(change))


def _merge_together(
    run: MergeRun,
    target: TransactionalTarget[Any, Any],
    prepare: _Prepare,
    tables: Sequence[LakeTable],
) -> None:
    """Stage the rows of every table, and commit all tables of which that succeeded."""

    def stage(table: LakeTable) -> Iterator[tuple[LakeTable, TableChange[Any], Any]]:
        with _reporting(run, table):
            change = prepare(table)
            if change is not None:
                yield table, change, target.stage(change)

    staging = run.in_threads(tables, lambda at: [*stage(at)])
    work = [staged for results in staging for staged in results]
    try:
        outcomes = target.commit_staged([staged for _, _, staged in work])
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        outcomes = [error] * len(work)
    for (table, change, _), outcome in zip(work, outcomes, strict=True):
        with _reporting(run, table):
            if isinstance(outcome, BinlogError):
                # One error of all: each table adds its own context.
                raise deepcopy(outcome)
            if isinstance(outcome, Exception):
                raise outcome
            _note(run, table, change, outcome)


def _note(run: MergeRun, table: LakeTable, change: TableChange[Any], commit: Commit | None) -> None:
    stop = note_commit(table, change, commit)
    follow_options(table, run.lake.target)
    if stop is not None:
        _hold_stale(run, table, table.stale(stop))


@contextmanager
def _reporting(run: MergeRun, table: LakeTable) -> Iterator[None]:
    """Report how long the body took, and how it failed."""
    begun, segment = time.monotonic(), table.segment
    position = "" if segment is None else segment.position
    with table.failing():
        try:
            with error_context(table=table.table, position=position):
                yield
        except ReloadNeededError as error:
            _hold_stale(run, table, stale_for(error))
    table.seconds = round(table.seconds + time.monotonic() - begun, 3)


def _plan_rest(run: MergeRun, log: TableLog, table: LakeTable) -> bool:
    """Plan what the last commit of a table left of the range; return whether there is anything."""
    if not table.has_more:
        return False
    with _reporting(run, table):
        changes, size = table.changes, table.bytes
        # Its snapshot is loaded: what follows is in the log.
        table.reload = None
        table.state = run.lake.target.read_state(table.target)
        # Another merge may have come in between.
        table.hold = None if table.state is None else table.state.hold
        table.first_needed = table.applied.sequence + 1
        _plan(table, log)
        _note_held(run, table)
        if table.is_active and table.segment is not None:
            table.changes = dict(Counter(changes) + Counter(table.changes))
            table.bytes += size
            return True
    return False


def _advance(run: MergeRun, tables: Iterable[LakeTable]) -> Progress:
    """Return how far the lake has got, with what was done to every table."""
    known, newest, now = dict(run.start.before.tables), run.staged.newest, run.staged.now
    for name in newest.names():
        # Tables of another merge; those of this one follow.
        before = known.get(name, TableProgress())
        first = before.first or newest.holdings(name)[0].sequence
        known[name] = replace(before, first=first, pending=True)
    for table in tables:
        progress = table.progress(known.get(table.name, TableProgress()))
        known[table.name] = replace(progress, target=table.target, chosen=True)
    done = {table.processed_snapshot for table in tables if table.processed_snapshot is not None}
    there = {*run.start.snapshots.ids()}
    return replace(now, tables=known, snapshots=frozenset((now.snapshots | done) & there))
