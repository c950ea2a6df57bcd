"""Plan the merge of one table before Spark reads a row.

A range is one segment, up to the first action that a lake table cannot follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_binlog import errors
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import TableId, TableName
from airflow_provider_binlog.spark.plan.fold import Fold, TableRange, read_rows_of
from airflow_provider_binlog.spark.plan.lifecycle import (
    find_changelog_lifecycle,
    find_lifecycle,
    identify,
)
from airflow_provider_binlog.spark.plan.removals import find_piece
from airflow_provider_binlog.spark.plan.segment import Segment, find_evolution, make_segment
from airflow_provider_binlog.spark.plan.stops import StopSearch
from airflow_provider_binlog.spark.plan.table_log import LogAction, Stop, TableLog
from airflow_provider_binlog.spark.target.modes import choose_mode
from airflow_provider_binlog.spark.target.state import FIELDS, TargetState
from airflow_provider_binlog.table_options import TableOptions


@dataclass(frozen=True)
class TablePlan:
    """The next commit to one lake table, and what follows it.

    Attributes:
        table: The table that the lake table follows afterwards; None where it keeps what it has.
        segment: What to commit; None if there is nothing.
        stop: What the lake table cannot follow after that; None if it follows.
        ended: Whether the name stands for no table after the range; the lake keeps the rows.
        more: Whether the next merge has to commit the rest of the range.
        claims: Value of `FIELDS` that the lake table is to get before its columns change, where the
            log says more of them than its properties do; else None.
    """

    table: TableId | None
    segment: Segment | None = None
    stop: Stop | None = None
    ended: bool = False
    more: bool = False
    claims: str | None = None


def plan_table(
    name: TableName,
    log: TableLog,
    *,
    first: int,
    state: TargetState | None,
    options: TableOptions,
) -> TablePlan | None:
    """Plan the merge of one table; None if the manifests do not mention it.

    The lake table does not have those from `first` on yet; others serve tables that were renamed.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
        ReloadNeededError: A column is staged that the options exclude, or that they hash.
        ConfigurationError: The chosen key columns cannot serve.
    """
    state, before = identify(state, name, log), state
    claims = None if state is None or state is before else state.properties[FIELDS]
    lifecycle = find_lifecycle(name, log, first, state)
    if lifecycle is None:
        return None
    tables = TableRange(name, log, state, options, lifecycle)
    mode = choose_mode(options, keyed=_is_keyed(tables, first))
    if mode.is_changelog:
        lifecycle = find_changelog_lifecycle(name, log, first)
        if lifecycle is None:
            return None
    tables = replace(tables, lifecycle=lifecycle, mode=mode)
    rest: LogAction | None = None
    while mode.keeps_removed:
        base, rest = find_piece(tables, first=first, past=rest)
        piece, own = tables, lifecycle
        if rest is not None:
            piece = end_before(tables, rest)
            own = find_lifecycle(name, piece.log, first, state) or lifecycle
        plan = _plan_range(replace(piece, lifecycle=own, base=base), claims)
        if plan.segment is not None or plan.stop is not None or rest is None:
            return plan
        # Nothing of the piece is of the name's own table: the next one is the first.
    return _plan_range(tables, claims)


def _plan_range(tables: TableRange, claims: str | None) -> TablePlan:
    """Plan the first commit of a range."""
    lifecycle, state = tables.lifecycle, tables.state
    if lifecycle.table is None and state is None:
        return TablePlan(None, stop=lifecycle.stop, ended=lifecycle.ended)
    try:
        plan = plan_next(tables)
        if plan.stop is None or not lifecycle.ended:
            return replace(plan, claims=claims)
    except errors.MergeError:
        if not lifecycle.ended or state is None:
            raise
    # The table does not exist any more: the lake keeps what it has.
    kept = replace(lifecycle, table=None, replaces=False)
    return replace(plan_next(replace(tables, lifecycle=kept)), claims=claims)


def _is_keyed(tables: TableRange, first: int) -> bool:
    """Whether rows are merged by a key: as the lake table says, or else as the log does."""
    if tables.state is not None:
        return tables.state.mode.has_key
    if tables.chosen_key is not None:
        return True
    log, staged = tables.log, read_rows_of(tables, None).staged
    if staged:
        return bool(staged[0].schema.key)
    for span in reversed(log.spans(tables.name, since=first)):
        for _, entry in reversed(log.entries(span.table, since=first)):
            if entry.current is not None:
                return bool(entry.schema(entry.current).key)
    return True


def end_before(tables: TableRange, step: LogAction) -> TableRange:
    """Return the part of a range before an action, with which another commit begins."""
    return replace(tables, log=tables.log.before(step), end=Stop.at_step(step, ""))


def plan_next(tables: TableRange) -> TablePlan:
    """Plan a commit: what is before the first action that the lake table cannot follow."""
    lifecycle = tables.lifecycle
    fold = Fold.of(tables, lifecycle.stop or tables.end)
    while stop := StopSearch(fold).find_first() or _find_barred(fold):
        fold = Fold.of(tables, stop)
    plan = TablePlan(
        lifecycle.table,
        stop=None if fold.has_rest else fold.stop,
        ended=lifecycle.ended,
        more=fold.has_rest,
    )
    if plan.stop is not None and plan.stop.mark <= tables.applied:
        return plan
    with errors.error_context(**fold.context):
        _check_chosen_key(fold)
        _check_protected(fold)
        return replace(plan, segment=make_segment(fold))


def _find_barred(fold: Fold) -> Stop | None:
    """Return where the lake table cannot follow a change of its columns; None if nowhere."""
    tables = fold.tables
    if tables.state is None or fold.key is None:
        return None
    with errors.error_context(**fold.context):
        barrier = tables.state.find_barrier(find_evolution(fold, fold.key))
    if barrier is None:
        return None
    for step in fold.steps:
        if barrier.concerns(step.action):
            return Stop.at_step(step, barrier.reason)
    first = tables.log.manifest(max(tables.lifecycle.first, tables.log.first))
    return Stop.at_manifest(first, barrier.reason, tables.since)


def _check_chosen_key(fold: Fold) -> None:
    """A key of the user's needs the before-image of every update that changes it."""
    chosen = fold.tables.chosen_key
    if chosen is None:
        return
    for part in fold.staged:
        schema, manifest = part.schema, part.manifest
        unknown = {*chosen} - {field.name for field in schema.fields}
        if unknown:
            raise errors.ConfigurationError(
                "options={...} names columns that the table does not have",
                columns=",".join(sorted(unknown)),
            )
        other = schema.key and {*schema.key_names} != {*chosen}
        if other and manifest.before_images is not BeforeImages.ALL:
            raise errors.ConfigurationError(
                "other key columns than the primary key need before_images='all'",
                primary_key=",".join(schema.key_names),
                sequence=manifest.sequence,
            )


def _check_protected(fold: Fold) -> None:
    """Refuse columns that are staged as they are, and that the options exclude or hash."""
    options = fold.tables.options
    excluded = {fold_name(name) for name in options.exclude_columns or ()}
    hashed = {fold_name(name) for name in options.hash_columns or ()}
    for field in fold.wanted or () if fold.staged else ():
        name = fold_name(field.name)
        if name in excluded or (name in hashed and field.hashed is None):
            raise errors.ReloadNeededError(
                "a column is staged as it is, and the options exclude or hash it: give the extract "
                "and the snapshot tasks the same options; then reload the table",
                column=field.name,
            )
