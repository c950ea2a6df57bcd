"""The lake tables of a merge, what they contain, and which manifests they need.

A renamed table takes the rows from before along: the log has its changes under both names, and the
lake table of the old name has the rows. They are copied, with the applied mark, and the merge
continues from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_binlog.errors import ManifestError, MergeError, TargetConflictError
from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.job.report import TableReport
from airflow_provider_binlog.spark.merge.lake_table import (
    TO_ADOPT,
    LakeTable,
    check_manifests,
    find_coverage,
    find_snapshot_hold,
)
from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.plan.lifecycle import find_replacement, followed_by, identify
from airflow_provider_binlog.spark.plan.table_log import TableLog, check_contiguous
from airflow_provider_binlog.spark.reload.table_reload import (
    find_reload,
    is_adopted,
)
from airflow_provider_binlog.spark.staged.manifests import (
    list_manifests,
    read_manifests,
    sequence_reset_error,
)
from airflow_provider_binlog.spark.target.properties import (
    Owner,
    check_owner,
    clear_ownership,
    is_foreign,
)
from airflow_provider_binlog.spark.target.protocol import TableChange, Target, WholeRows
from airflow_provider_binlog.spark.target.state import CHANGES_ONLY, NOTHING, Hold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.merge.progress import Progress
    from airflow_provider_binlog.spark.merge.run import MergeRun
    from airflow_provider_binlog.spark.merge.start import MergeStart
    from airflow_provider_binlog.spark.merge.table_merge import Lake
    from airflow_provider_binlog.spark.target.state import Mark, TargetState
    from airflow_provider_binlog.staging.paths import ReadFiles


class StagedLog:
    """The manifests of a source: each is read once, however many tables need it.

    Args:
        files: The staged files of the source.
        newest: The manifests that are new.
        last: Number of the last manifest before the new ones.
    """

    def __init__(self, files: ReadFiles, newest: TableLog, last: int) -> None:
        self.newest, self._files, self._last = newest, files, last
        self._manifests: dict[int, Manifest] = {}
        self._logs: dict[int, TableLog] = {}

    @property
    def folder(self) -> str:
        """Where they are, for people."""
        return self._files.locate("manifests")

    def since(self, first: int) -> TableLog:
        """Return the log from a manifest on.

        Raises:
            ManifestError: One of its manifests is missing, or does not follow the one before.
        """
        if first > self._last:
            return self.newest
        if first not in self._logs:
            manifests = [*self._read(range(first, self._last + 1)), *self.newest.manifests]
            check_contiguous(manifests)
            self._logs[first] = TableLog(manifests)
        return self._logs[first]

    def newest_first(self, present: Collection[int]) -> Iterator[Manifest]:
        """Yield all manifests backwards, as far as they are there.

        Raises:
            ManifestError: One is unreadable.
        """
        yield from reversed(self.newest.manifests)
        number = self._last
        while number in present:
            yield from self._read(range(number, number + 1))
            number -= 1

    def _read(self, numbers: range) -> list[Manifest]:
        missing = [number for number in numbers if number not in self._manifests]
        self._manifests |= zip(missing, read_manifests(self._files, missing), strict=True)
        return [self._manifests[number] for number in numbers]


def read_needed_log(staged: StagedLog, start: MergeStart, tables: Sequence[LakeTable]) -> TableLog:
    """Return the log from the first manifest that any table needs: one may lag.

    A table that needs one that is missing fails.
    """
    last = start.before.through
    for table in tables:
        if table.is_merged:
            try:
                check_manifests(
                    *(table.first_needed, table.applied, start.present),
                    last=last,
                    folder=staged.folder,
                )
            except ManifestError as error:
                table.fail(error)
    first = min((table.first_needed for table in tables if table.is_merged), default=last + 1)
    log = staged.since(first)
    if not log.manifests:
        return log
    replaced = (
        find_replacement(
            table.name, log, first=table.first_needed, followed=followed_by(table.state)
        )
        for table in tables
        if table.is_merged
    )
    start_of_replaced = min((number for number in replaced if number is not None), default=first)
    try:
        return staged.since(min(start_of_replaced, log.first))
    except ManifestError:
        # Whoever deleted old ones has the tables refused that need them.
        return log


def survey_tables(run: MergeRun, log: TableLog, now: Progress) -> list[LakeTable]:
    """Read how much of the log every table contains that may need something."""
    start = run.start
    names = {*log.names(), *start.noted, *start.unloaded, *start.before.pending(start.chosen)}

    def survey(name: TableName) -> LakeTable:
        target = run.lake.target.locate(name)
        table = LakeTable(name, target, TableReport(".".join(name), target))
        try:
            state = run.lake.target.read_state(target)
            adopts = run.options.adopt or is_adopted(start.snapshots, name, start.before)
            source = run.options.source
            if state is not None and adopts and is_foreign(state, source=source, name=name):
                table.is_foreign, state = True, clear_ownership(state)
            elif state is not None:
                # The applied mark of a table with another owner has no meaning.
                check_owner(target, state, source=source, servers=now.servers, name=name)
            table.state, table.is_read = state, True
        except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
            table.fail(error)
        table.report.applied_before = table.report.applied_after = table.applied
        return table

    return run.in_threads(sorted(filter(start.chosen, names)), survey)


def find_needs(
    run: MergeRun, tables: Sequence[LakeTable], staged: StagedLog, now: Progress
) -> None:
    """Decide which manifests each table needs, and whether it is merged at all."""
    needed: dict[TableName, Exception] = {}
    newest, newest_staged = staged.newest, max(run.start.present, default=0)
    for table in tables:
        if table.is_merged:
            _find_reload(run, table, staged, now)
        if table.is_followed and table.is_foreign:
            table.hold = Hold("loading", table.unloaded or TO_ADOPT)
        if table.is_followed:
            needed |= take_rows_along(run, table, staged)
        if table.is_followed:
            _check_numbers(run, table, newest_staged)
        if table.is_followed:
            _cover(run, table, newest, now)
        if table.report.error is None:
            unloaded = table.unloaded
            waits = find_snapshot_hold(table.name, table.state, newest, unloaded=unloaded)
            table.hold = waits or table.hold
    for table in tables:
        if table.is_followed and table.name in needed:
            # The next merge copies its rows: they have to be those from before the rename.
            table.fail(needed[table.name])


def _cover(run: MergeRun, table: LakeTable, log: TableLog, now: Progress) -> None:
    before, initial_load = run.start.before, run.options.initial_load
    table.first_needed = before.first_needed(table.name, table.applied)
    try:
        coverage = find_coverage(
            table.name, table.state, log, before=before, now=now, initial_load=initial_load
        )
    except MergeError as error:
        table.fail(error)
    else:
        table.cover(coverage)


def _check_numbers(run: MergeRun, table: LakeTable, newest_staged: int) -> None:
    """Fail a table that has got a manifest which is not staged yet: its manifests were others."""
    applied = table.applied.sequence
    if not newest_staged or applied <= newest_staged:
        return
    # Another merge may have read a newer one since.
    newest = max(list_manifests(run.files), default=0)
    if applied > newest:
        table.fail(sequence_reset_error(applied, newest=newest))


def _find_reload(run: MergeRun, table: LakeTable, staged: StagedLog, now: Progress) -> None:
    start = run.start
    try:
        find_reload(
            table,
            start.snapshots,
            staged,
            before=start.before,
            now=now,
            present=start.present,
        )
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)


Rows = TypeVar("Rows")


@dataclass(frozen=True)
class OldTable:
    """The lake table of a table's old name.

    Attributes:
        name: The old name.
        table: Name of the lake table.
        state: That table, which still follows the table that was renamed.
    """

    name: TableName
    table: str
    state: TargetState


def take_rows_along(
    run: MergeRun, table: LakeTable, staged: StagedLog
) -> dict[TableName, Exception]:
    """Give a table that was renamed the rows of the lake table of its old name.

    Returns its old names, with the error, if that failed.
    """
    known = run.start.before.tables.get(table.name, TableProgress())
    names: list[TableName] = []
    try:
        log = staged.newest
        failed = known.pending and known.hold is None and known.mark == NOTHING
        if failed and known.first is not None:
            again = range(known.first, run.start.before.through + 1)
            if not all(number in run.start.present for number in again):
                return {}  # `check_manifests` refuses it.
            log = staged.since(again.start)
        names = find_old_names(table.name, table.state, log) if log.manifests else []
        if names:
            table.first_needed = log.first
            _copy_rows(run, table, log)
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)
        return dict.fromkeys(names, error)
    return {}


def _copy_rows(run: MergeRun, table: LakeTable, log: TableLog) -> None:
    old = find_old_table(run.lake.target, table.name, table.state, log)
    if old is None or run.start.before.first_needed(old.name, old.state.applied) != log.first:
        return
    owner = Owner(run.options.source, log.manifests[-1].identity, table.name)
    table.state = copy_rows(run.lake, old, owner, table.target, table.state)
    # Also if nothing else changed: a lake table that is dropped later had rows.
    table.report.applied_after = table.applied


def find_old_names(name: TableName, state: TargetState | None, log: TableLog) -> list[TableName]:
    """Return the names that the table had which a name stands for now, the last one first.

    Empty if the lake table of the name has rows already.

    Args:
        name: Database and table.
        state: Its lake table; None if there is none.
        log: The manifests that are new.
    """
    if state is not None and (state.applied != NOTHING or not state.is_empty):
        return []
    holdings = log.holdings(name, since=log.first)
    table = holdings[-1].table if holdings else None
    steps = reversed(log.steps(table, since=NOTHING)) if table is not None else ()
    return [each.action.old for each in steps if isinstance(each.action, RenameTable)]


def find_old_table(
    target: Target[Rows], name: TableName, state: TargetState | None, log: TableLog
) -> OldTable | None:
    """Return the lake table that has the rows of the table which a name stands for; None without.

    Args:
        target: The lake tables.
        name: Database and table.
        state: Its lake table, without rows; None if there is none.
        log: The manifests that are new.
    """
    for name_before in find_old_names(name, state, log):
        table = target.locate(name_before)
        old = identify(target.read_state(table), name_before, log)
        if old is None or old.applied == NOTHING or old.ended or old.unfilled:
            continue
        if old.lost or old.hold is not None:
            continue
        id_ = log.holdings(name, since=log.first)[-1].table
        if old.key and old.table == id_ and (not state or state.columns == old.columns):
            return OldTable(name_before, table, old)
    return None


def copy_rows(
    lake: Lake[Rows], old: OldTable, owner: Owner, table: str, before: TargetState | None
) -> TargetState:
    """Make the lake table of a new name, with the rows and the applied mark of the old one.

    Args:
        lake: The lake.
        old: The lake table of the old name.
        owner: The table, by its new name.
        table: Name of the lake table of that name.
        before: That table, which a killed merge left empty; None if there is none.

    Raises:
        TargetConflictError: Another merge committed meanwhile.
    """
    state = old.state
    change = TableChange(
        table=table,
        owner=owner,
        before=before,
        mark=state.applied,
        stop="",
        columns=state.columns,
        key=state.key,
        evolution=Evolution(columns={name: name for name in state.columns}),
        fields=state.fields,
        rows=WholeRows(lake.rows.copy(old.table, state.columns, size=state.bytes)),
        follows=state.table,
        # Rows that the old table lacks the new one lacks, too.
        lacks=CHANGES_ONLY if state.lacks_rows else "",
        snapshot=state.loaded or None,
    )
    lake.target.commit(change)
    _read(lake.target, old.table, state.applied)
    return _read(lake.target, table, state.applied)


def _read(target: Target[Rows], table: str, applied: Mark) -> TargetState:
    state = target.read_state(table)
    if state is None or state.applied != applied:
        raise TargetConflictError("another merge committed to the target meanwhile", target=table)
    return state
