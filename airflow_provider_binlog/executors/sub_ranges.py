"""Stage a sub-range of a backlog from the log that a source has now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.backlog import load_plan, stage_sub_range
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ForeignPositionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.capture import Progress
    from airflow_provider_binlog.capture.backlog import BacklogPlan
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.sources.log import Log
    from airflow_provider_binlog.staging.object_store import ObjectStore


def stage_planned(
    log: Log,
    store: ObjectStore,
    *,
    source: str,
    plan_id: str,
    number: int,
    run: str,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Return what a sub-range of a stored plan is staged as.

    Args:
        log: What is read.
        store: Where the plan is, and the parts go.
        source: Name of the source.
        plan_id: Of the plan.
        number: Of the sub-range.
        run: That stages it.
        on_progress: Called now and then.

    Raises:
        ForeignPositionError, PositionPurgedError: The log is of another server than the plan, or
            lacks the start of the sub-range.
        BinlogError: As `stage_sub_range`.
    """
    plan = load_plan(store, source, plan_id)
    _check_log(log, plan, number, run)
    return stage_sub_range(
        plan,
        number,
        log,
        store,
        read_server_tables=log.read_server_tables,
        on_progress=on_progress,
    )


def _check_log(log: Log, plan: BacklogPlan, number: int, run: str) -> None:
    """Refuse another server's log than the plan is of.

    Raises:
        ForeignPositionError, PositionPurgedError: It is, or lacks the start of the sub-range.
    """
    start, now = plan.sub_ranges[number].start, datetime.now(UTC).isoformat(timespec="seconds")
    checkpoint = Checkpoint(plan.identity, start, plan.sequence - 1, now, run)
    state = log.read_state(checkpoint, start=None)
    if state.identity != plan.identity:
        raise ForeignPositionError(
            "the backlog was planned on another server: plan it again",
            planned=plan.identity,
            this_is=state.identity,
        )
