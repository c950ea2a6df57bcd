"""The next segment of a table's range: what one collapse folds, and where it has to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.plan.cuts import Stop
from airflow_provider_binlog.spark.plan.fold import Fold, Tables

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.staged.parts import StagedPart


@dataclass(frozen=True)
class NextSegment:
    """What is to be committed next.

    Attributes:
        segment: The segment; None if nothing is to be committed.
        staged: All parts that this segment and those after it read.
        stop: What the lake table cannot follow after them; None if it follows the whole range.
        more: Whether another segment follows.
    """

    segment: Segment | None = None
    staged: tuple[StagedPart, ...] = ()
    stop: Stop | None = None
    more: bool = False


def plan_next(tables: Tables, lifecycle: Lifecycle, *, keyed: bool) -> NextSegment:
    """Return what to commit next: what is before the first action that no collapse folds.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
        ConfigurationError: The chosen key columns cannot serve.
    """
    stop, more = lifecycle.stop, False
    fold = Fold.of(tables, lifecycle, keyed=keyed, cut=None if stop is None else stop.cut)
    staged = fold.rows.staged
    while True:
        found, cut = fold.find_stop(), fold.find_new_key()
        if found is None and cut is not None and lifecycle.replaces and not tables.reloads:
            # Which rows a mark within the table is for would not be known.
            reason = "its primary key changed between rows of the range in which it got its name"
            found = Stop(cut, reason)
        if found is not None:
            stop, more, fold = found, False, fold.before(found.cut)
            staged = fold.rows.staged
        elif cut is not None:
            more, fold = True, fold.before(cut)
        elif (barred := fold.find_barred()) is not None:
            stop, more, fold = barred, False, fold.before(barred.cut)
            staged = fold.rows.staged
        else:
            break
    if fold.rows.cut is not None and fold.rows.cut.mark <= tables.applied:
        return NextSegment(stop=stop)
    fold.check_chosen_key()
    return NextSegment(fold.segment(), staged, stop, more)
