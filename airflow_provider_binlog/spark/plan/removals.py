"""Pieces of a log, for a lake table that keeps rows which were removed at the source.

Between two actions that remove all rows of a name's table, or give the name another table, no row
is removed but by a change of its own. A piece begins with such an action, and ends before the next:
one commit brings the rows that it removed, and the changes since.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    TableName,
    TruncateTable,
)
from airflow_provider_binlog.spark.plan.fold import Base, StartWithin, TableRange
from airflow_provider_binlog.spark.plan.table_log import LogAction, Point, Span, TableLog
from airflow_provider_binlog.spark.target.state import NOTHING, Mark

_REMOVALS = (CreateTable, DropTable, RenameTable, TruncateTable)


def find_piece(
    tables: TableRange, *, first: int, past: LogAction | None = None
) -> tuple[Base | None, LogAction | None]:
    """Return the first piece of what manifests from `first` on say that the lake table lacks.

    That is what it begins with, if with any action, and what ends it: an action after `past`.
    """
    log, since = tables.log, tables.applied
    spans = log.spans(tables.name, since=first)
    followed = None if tables.state is None else tables.state.table
    if spans and (since == NOTHING or spans[0].table == followed):
        # What it had under another name is of it, too.
        spans[0] = replace(spans[0], start=(0, 0))
    begun: list[LogAction] = []
    for step in _find_removals(tables.name, log, spans, first=first, since=since):
        is_alone = isinstance(step.action, RenameTable)
        is_alone |= bool(begun) and isinstance(begun[-1].action, RenameTable)
        points = log.point(since), step.point
        has_changes = _has_rows(log, spans, *points)
        if tables.state is not None:
            has_changes |= (bool(begun) and is_alone) or _has_steps(log, spans, *points)
        if has_changes and (past is None or step.mark > past.mark):
            return _find_base(log, begun), step
        begun.append(step)
    return _find_base(log, begun), None


def find_removal(
    name: TableName, log: TableLog, *, first: int, since: Point | StartWithin
) -> LogAction | None:
    """Return the first action from there on that removes all rows of a name's table."""
    spans = log.spans(name, since=first)
    removals = _find_removals(name, log, spans, first=first, since=NOTHING)
    return next((step for step in removals if not _is_before(step, since)), None)


def _is_before(step: LogAction, since: Point | StartWithin) -> bool:
    if isinstance(since, StartWithin):
        number, offset = split_file_name(step.statement.file)[1], step.statement.offset
        return (step.point[0], number, offset) < (since.sequence, since.file_number, since.offset)
    return step.point < since


def _find_removals(
    name: TableName, log: TableLog, spans: list[Span], *, first: int, since: Mark
) -> list[LogAction]:
    """Return the actions that remove rows, or give the name another table; one of a statement."""
    holdings = log.holdings(name, since=first)
    steps = [holding.step for holding in holdings if holding.step is not None]
    if spans and steps and spans[0].start == (0, 0) and isinstance(steps[0].action, RenameTable):
        # It gave the name the table of the first span.
        del steps[: steps[0].action.new == name]
    for span in spans:
        steps += (
            step
            for step in log.steps(span.table, since=since)
            if isinstance(step.action, TruncateTable)
            and span.start <= step.point
            and (span.stop is None or step.point <= span.stop)
        )
    by_mark = {step.mark: step for step in reversed(steps) if step.mark >= since}
    return [by_mark[mark] for mark in sorted(by_mark)]


def _has_rows(log: TableLog, spans: list[Span], start: Point, stop: Point) -> bool:
    """Whether rows were logged between two points under the name that the spans are of."""
    for span in spans:
        begin, end = max(span.start, start), min(span.stop or stop, stop)
        for manifest, entry in log.entries(span.table, since=begin[0]):
            points = ((manifest.sequence, part.first_row) for part in entry.parts if part.rows)
            if any(begin <= point < end for point in points):
                return True
    return False


def _has_steps(log: TableLog, spans: list[Span], start: Point, stop: Point) -> bool:
    """Whether a table that the spans are of was altered between two points."""
    for span in spans:
        begin, end = max(span.start, start), min(span.stop or stop, stop)
        steps = log.steps(span.table, since=Mark(max(begin[0] - 1, 0)))
        altered = (step for step in steps if not isinstance(step.action, _REMOVALS))
        if any(begin <= step.point < end for step in altered):
            return True
    return False


def _find_base(log: TableLog, steps: list[LogAction]) -> Base | None:
    """Return the moment at which actions removed the rows from before: the first of them did."""
    if not steps:
        return None
    step, statement = steps[0], steps[0].statement
    at = statement.commit_ts
    if at is None:
        # A manifest from before statements had a time: that of the last rows before it.
        manifest = log.manifest(step.point[0])
        commits = [part.last_commit for entry in manifest.tables for part in entry.parts]
        made = datetime.fromisoformat(manifest.created_at).timestamp()
        at = max(commits, default=int(made * 1_000_000))
    change = step.action.type.partition("_")[0]
    return Base(steps[-1].point, at, change, statement.file, statement.offset)
