"""Commits of one table: what is planned of it, and the rows that a renamed one takes along.

The lake table of the old name has the rows. They are copied, with the applied mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_provider_binlog.schema import RenameTable, TableName
from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.plan.fold import Base
from airflow_provider_binlog.spark.plan.lifecycle import identify
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.plan.table_log import Stop, TableLog
from airflow_provider_binlog.spark.staged.types import Value
from airflow_provider_binlog.spark.target.modes import (
    DELETED_AT,
    END,
    START,
    TableMode,
    choose_mode,
)
from airflow_provider_binlog.spark.target.properties import Owner
from airflow_provider_binlog.spark.target.protocol import (
    Commit,
    CountedRows,
    KeyedRows,
    RowChanges,
    TableChange,
    Target,
    TransactionalTarget,
    VersionedRows,
    WholeRows,
    conflict,
)
from airflow_provider_binlog.spark.target.state import CHANGES_ONLY, NOTHING, Mark, TargetState
from airflow_provider_binlog.table_options import TableOptions

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.collapse.source_rows import RowMaker
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge.run import MergeRun


Rows = TypeVar("Rows")


@dataclass(frozen=True)
class Lake(Generic[Rows]):
    """A target, and what makes the rows that it takes."""

    target: Target[Rows]
    rows: RowMaker[Rows]

    def close(self) -> None:
        """Close what the target keeps open."""
        if isinstance(self.target, TransactionalTarget):
            self.target.close()


def make_change(
    lake: Lake[Rows], table: LakeTable, log: TableLog, *, source: str
) -> TableChange[Rows] | None:
    """Return what is planned of a table, with its rows; None if nothing is.

    Raises:
        BinlogError: Plan and lake table do not agree.
        Exception: Whatever Spark raises.
    """
    plan, state, last = table.plan, table.state, log.manifests[-1]
    if plan is None or plan.segment is None:
        return None
    segment = plan.segment
    snapshot = None if table.reload is None else table.reload.snapshot.id
    created = None if plan.table is None else log.created(plan.table)
    # A name may stand for none any more: its lake table keeps the rows up to then.
    restart = log.find_restart(plan.table or log.find_id(table.name))
    is_complete = created is not None or restart is not None
    lacks = not is_complete if state is None else state.lacks_rows
    if snapshot is None and lacks and not is_complete:
        table.lacks = CHANGES_ONLY
    # First what may fail without a trace in the lake.
    rows = lake.rows.make(segment, state)
    changes = _row_changes(segment, state, rows)
    keeps_rows = snapshot is None and not isinstance(changes, WholeRows)
    foreign_write = table.foreign_write if keeps_rows else None
    return TableChange(
        table=table.target,
        owner=Owner(source, last.identity, table.name),
        before=state,
        mark=segment.mark,
        stop=str(last.stop),
        columns=segment.target_columns,
        key=segment.key,
        evolution=segment.evolution,
        mode=segment.mode,
        rows=changes,
        follows=plan.table,
        lacks=CHANGES_ONLY if lacks and snapshot is None and not segment.starts_empty else "",
        snapshot=snapshot,
        ends=segment.ends and not segment.is_changelog,
        claims=plan.claims,
        foreign_write=foreign_write,
        source_types=segment.source_types,
    )


def note_commit(table: LakeTable, change: TableChange[Any], commit: Commit | None) -> Stop | None:
    """Note the outcome of a commit; return what the table cannot follow after it."""
    plan, segment = table.plan, table.segment
    if plan is None or segment is None:
        return None
    # If the format found it done: by whom, and how much else, the next merge reads.
    table.is_settled = commit is not None and not plan.more
    if commit is None:
        return None
    table.is_merged, table.applied_after = True, segment.mark
    table.foreign_write = change.foreign_write
    counts = [(kind, table.rows.get(kind, 0), count) for kind, count in commit.rows.items()]
    table.rows = {
        kind: None if before is None or count is None else before + count
        for kind, before, count in counts
    }
    table.version = commit.version
    table.missing_rows = _count_missing(segment, change.before, commit)
    if change.snapshot is not None:
        table.snapshot = table.processed_snapshot = change.snapshot
    return plan.stop


def _row_changes(segment: Segment, state: TargetState | None, rows: Rows) -> RowChanges[Rows]:
    if segment.replaces_rows(state):
        return WholeRows(rows)
    if segment.is_changelog:
        return KeyedRows(rows, segment.target_key)
    if segment.mode.is_multiset:
        return CountedRows(rows)
    if segment.mode.is_history:
        return VersionedRows(
            rows,
            segment.key,
            segment.null_safe,
            segment.groups,
            segment.mode.names[START],
            segment.mode.names[END],
            segment.tracked,
            None if segment.base is None else segment.base.at,
        )
    marks, rest = segment.mode.deleted_at, None
    if segment.base is not None and marks is not None:
        rest = find_marks(segment.mode, segment.base)
    return KeyedRows(rows, segment.key, segment.null_safe, segment.groups, marks, rest)


def find_marks(mode: TableMode, base: Base) -> dict[str, Value]:
    """Return what removed rows that no change names hold in the columns of a mode."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=base.at)
    text = at.strftime("%Y-%m-%d %H:%M:%S.%f")
    held = {
        DELETED_AT: text,
        "change_type": base.change,
        "commit_ts": text,
        "gtid": None,
        "file": base.file,
        "pos": base.offset,
    }
    return {name: held[kind] for kind, name in mode.names.items()}


def _count_missing(segment: Segment, state: TargetState | None, commit: Commit) -> int | None:
    """Return how many rows were updated or deleted that the target did not have; None if unknown.

    By each of them the target has one row more than the changes say: its update inserts it, its
    delete has nothing to remove.
    """
    if segment.is_changelog or segment.reloads or segment.start is not None:
        return None
    if segment.mode.keeps_removed or segment.mode.is_multiset:
        return None
    deleted = 0 if state is None or segment.starts_empty else commit.deleted
    if commit.inserted is None or deleted is None:
        return None
    return max(0, commit.inserted - deleted - segment.growth)


def take_rows_along(run: MergeRun, table: LakeTable) -> dict[TableName, Exception]:
    """Give a table that was renamed the rows of the lake table of its old name.

    Returns its old names, with the error, if that failed.
    """
    before, log = run.start.before, run.staged.newest
    known = before.tables.get(table.name, TableProgress())
    names: list[TableName] = []
    try:
        failed = known.pending and known.hold is None and known.mark == NOTHING
        if failed and known.first is not None:
            if run.staged.find_removed(known.first) is not None:
                return {}  # `cover` holds it.
            log = run.staged.since(known.first)
        names = find_old_names(table.name, table.state, log) if log.manifests else []
        if not names:
            return {}
        table.first_needed = log.first
        old = find_old_table(run.lake.target, table.name, table.state, log, table.options)
        if old is not None and run.staged.first_needed(old[0], old[1].applied) == log.first:
            owner = Owner(run.options.source, log.manifests[-1].identity, table.name)
            from_ = run.lake.target.locate(old[0])
            table.state = copy_rows(
                run.lake, from_, old[1], owner, table.target, before=table.state
            )
            # Also if nothing else changed: a lake table that is dropped later had rows.
            table.applied_after = table.applied
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)
        return dict.fromkeys(names, error)
    return {}


def find_old_names(name: TableName, state: TargetState | None, log: TableLog) -> list[TableName]:
    """Return the names that the table had which a name stands for now, the last one first.

    Empty if the lake table of the name, whose state is given, has rows already.
    """
    if state is not None and (state.applied != NOTHING or not state.is_empty):
        return []
    table = log.find_id(name)
    steps = reversed(log.steps(table, since=NOTHING)) if table is not None else ()
    return [step.action.old for step in steps if isinstance(step.action, RenameTable)]


def find_old_table(
    target: Target[Rows],
    name: TableName,
    state: TargetState | None,
    log: TableLog,
    options: TableOptions,
) -> tuple[TableName, TargetState] | None:
    """Return the old name whose lake table has the rows of a name's table; None if none has.

    State and options are those of the name itself, whose lake table has no rows yet.

    Raises:
        ConfigurationError: The options choose no mode for such a table.
    """
    for name_before in find_old_names(name, state, log):
        old = identify(target.read_state(target.locate(name_before)), name_before, log)
        if old is None or old.applied == NOTHING or old.ended or old.unfilled:
            continue
        if old.lost or old.hold is not None:
            continue
        if (
            not old.mode.is_changelog
            and old.mode.has_rows_of(choose_mode(options, keyed=old.mode.has_key))
            and old.table == log.find_id(name)
            and (not state or state.columns == old.columns)
        ):
            return name_before, old
    return None


def copy_rows(
    lake: Lake[Rows],
    old: str,
    state: TargetState,
    owner: Owner,
    table: str,
    *,
    before: TargetState | None,
) -> TargetState:
    """Make the lake table of a new name, with the rows and the applied mark of the old one.

    `before` is the state of that table, which a killed merge left empty; None if there is none.

    Raises:
        TargetConflictError: Another merge committed meanwhile.
    """
    change = TableChange(
        table=table,
        owner=owner,
        before=before,
        mark=state.applied,
        stop="",
        columns=state.columns,
        key=state.key,
        mode=state.mode,
        evolution=Evolution(columns={name: name for name in state.columns}, fields=state.fields),
        rows=WholeRows(lake.rows.copy(old, state.columns, size=state.bytes)),
        follows=state.table,
        # Rows that the old table lacks the new one lacks, too.
        lacks=CHANGES_ONLY if state.lacks_rows else "",
        snapshot=state.loaded or None,
        foreign_write=state.contents.foreign_write,
    )
    lake.target.commit(change)
    _read(lake.target, old, state.applied)
    return _read(lake.target, table, state.applied)


def _read(target: Target[Rows], table: str, applied: Mark) -> TargetState:
    state = target.read_state(table)
    if state is None or state.applied != applied:
        raise conflict(table)
    return state
