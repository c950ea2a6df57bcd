"""One lake table in one merge: its state, what is to be done, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError, ReloadNeededError
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.target.mark import NOTHING, Mark
from airflow_provider_binlog.spark.target.state import Hold

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.job.report import TableReport
    from airflow_provider_binlog.spark.merge.coverage import Coverage
    from airflow_provider_binlog.spark.plan.planner import TablePlan
    from airflow_provider_binlog.spark.plan.segment import Stop
    from airflow_provider_binlog.spark.reload.plan import Reload
    from airflow_provider_binlog.spark.target.state import TargetState


@dataclass
class LakeTable:
    """One table in one merge; from its failure or its hold on, the merge leaves it as it is.

    Attributes:
        name: Database and table at the source.
        target: Quoted name of the lake table.
        report: What is reported of it; it has the hold and the error.
        is_read: Whether its state could be read.
        state: That state; None if there is no such table.
        first_needed: Number of the first manifest that it needs.
        plan: What is to be done; None if nothing.
        ended: Whether its name stands for no table any more, so that no reload is awaited.
        is_settled: Whether the lake table has all of that afterwards.
        is_foreign: Whether someone else made the lake table, which is to be adopted.
        reload: The snapshot to load, and what to replay over it; None if none is loaded.
        unloaded: Why the table's newest snapshot is not loaded; empty if there is no newer one.
        processed_snapshot: Id of a snapshot that need not be looked at again.
    """

    name: TableName
    target: str
    report: TableReport
    is_read: bool = False
    state: TargetState | None = None
    first_needed: int = 0
    plan: TablePlan | None = None
    ended: bool = False
    is_settled: bool = True
    is_foreign: bool = False
    reload: Reload | None = None
    unloaded: str = ""
    processed_snapshot: str | None = None

    @property
    def hold(self) -> Hold | None:
        """Why it is not merged; None if it is."""
        return self.report.hold

    @hold.setter
    def hold(self, hold: Hold | None) -> None:
        self.report.hold = hold

    @property
    def is_merged(self) -> bool:
        """Whether it has neither failed nor a hold."""
        return self.report.error is None and self.hold is None

    @property
    def is_followed(self) -> bool:
        """Whether it is merged, and not loaded from a snapshot."""
        return self.is_merged and self.reload is None

    @property
    def applied(self) -> Mark:
        """How much of the log the lake table contains; nothing if there is none."""
        return self.state.applied if self.state is not None else NOTHING

    @property
    def loaded(self) -> str:
        """The snapshot that the lake table was last loaded from; empty if from none."""
        return self.state.loaded if self.state is not None else ""

    @property
    def bytes(self) -> int:
        """Size of the parts to be read."""
        return sum(part.bytes for part in self.plan.parts) if self.plan is not None else 0

    def fail(self, error: Exception) -> None:
        """Report an error."""
        explained = explain(error, table=self.report.table, target=self.target)
        self.report.error, self.report.retryable = str(explained), explained.retryable

    def cover(self, coverage: Coverage) -> None:
        """Apply what the staged log covers."""
        self.first_needed, self.hold, self.ended = coverage

    def set_hold_since(self, before: Hold | None, now: str) -> None:
        """Note since when the table is not merged: now, if it had no such hold before the merge.

        Args:
            before: What was noted of it, if anything was.
            now: The time.
        """
        if self.hold is None:
            return
        earlier = (None if self.state is None else self.state.hold, before)
        dates = (hold.since for hold in earlier if hold == self.hold)
        self.hold = replace(self.hold, since=next(filter(None, dates), now))

    def take(self, plan: TablePlan | None) -> None:
        """Take a plan, which may be to leave the table as it is."""
        self.plan = plan
        if plan is not None:
            self.report.changes, self.report.bytes = plan.changes, self.bytes
            self.ended = plan.ended
        if plan is not None and plan.stop is not None and plan.segment is None:
            self.hold = self.stale(plan.stop)
        elif plan is not None and plan.waits is not None:
            self.hold = Hold("loading", plan.waits.explanation, plan.waits.cut.position)

    def stale(self, stop: Stop) -> Hold:
        """Return the hold of a table that cannot follow the log past a stop."""
        ended = "; it was dropped or renamed since: there is nothing to reload"
        return Hold("stale", stop.explanation + ended * self.ended, stop.cut.position)

    def wait(self, snapshot: str, reason: str) -> None:
        """Note why the newest snapshot is not loaded yet."""
        self.report.snapshot = self.unloaded = f"snapshot {snapshot} is not loaded yet: {reason}"

    def refuse(self, snapshot: str, reason: str) -> None:
        """Note why a snapshot cannot be loaded: a table fails that would be merged without it."""
        self.report.snapshot = self.unloaded = f"snapshot {snapshot} is not loaded: {reason}"
        if self.state is not None and self.state.hold is None and not self.is_foreign:
            self.fail(MergeError("a snapshot cannot be loaded", snapshot=snapshot, reason=reason))

    def progress(self, before: TableProgress) -> TableProgress:
        """Return the table's progress; `before` is that from before the merge."""
        if not self.is_read:
            return replace(before, pending=True)
        held = TableProgress(
            self.applied, self.first_needed, pending=True, hold=self.hold, loaded=self.loaded
        )
        if self.reload is not None and not self.report.is_merged:
            # Without it, everything is needed that was before.
            return replace(held, first=min(self.first_needed, before.first or self.first_needed))
        if self.hold is not None and not self.ended:
            # One that was dropped is still to be noticed by the next merge.
            return replace(held, mark=before.mark if self.state is None else self.applied)
        if self.report.error is not None or not self.is_settled:
            return replace(held, hold=None)
        version = None if self.state is None else self.state.snapshot
        if self.report.is_merged:
            version = self.report.version
        loaded = self.processed_snapshot if self.report.is_merged else None
        return TableProgress(
            self.report.applied_after, loaded=loaded or self.loaded, version=version
        )


def stale_for(error: ReloadNeededError) -> Hold:
    """Return the hold of a lake table whose rows the staged changes do not say."""
    return Hold("stale", str(error), str(error.context.get("position", "")))
