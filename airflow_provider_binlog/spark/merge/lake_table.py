"""One lake table on its way through a merge, and whether what it lacks is staged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError, MergeError, ReloadNeededError
from airflow_provider_binlog.schema import CreateTable, RenameTable
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.target.mark import NOTHING, Mark
from airflow_provider_binlog.spark.target.state import LIVE, UNSEEN, WITHOUT_BEGINNING, LakeState

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.job.report import TableReport
    from airflow_provider_binlog.spark.merge.progress import Progress
    from airflow_provider_binlog.spark.plan.cuts import Stop
    from airflow_provider_binlog.spark.plan.planner import TablePlan
    from airflow_provider_binlog.spark.plan.table_log import TableLog
    from airflow_provider_binlog.spark.reload.plan import Reload
    from airflow_provider_binlog.spark.target.state import TargetState


@dataclass
class LakeTable:
    """One table in one merge; one that failed, or is held, is left alone from then on.

    Attributes:
        name: Database and table at the source.
        target: Quoted name of the lake table.
        report: What is reported of it.
        is_read: Whether its state could be read.
        state: That state; None if there is no such table.
        first_needed: Number of the first manifest that it needs.
        plan: What is to be done; None if nothing.
        held: Why it is left alone, if it is `loading` or `stale`.
        is_over: Whether its name stands for no table any more, so that no reload is awaited.
        is_settled: Whether the lake table has all of that afterwards.
        is_foreign: Whether someone else made the lake table, which is to be adopted.
        reload: The snapshot to load, and what to replay over it; None if none is loaded.
        unloaded: Why the table's newest snapshot is not loaded; empty if there is no newer one.
        done_with: Id of a snapshot that need not be looked at again.
    """

    name: TableName
    target: str
    report: TableReport
    is_read: bool = False
    state: TargetState | None = None
    first_needed: int = 0
    plan: TablePlan | None = None
    held: LakeState | None = None
    is_over: bool = False
    is_settled: bool = True
    is_foreign: bool = False
    reload: Reload | None = None
    unloaded: str = ""
    done_with: str | None = None

    @property
    def is_merged(self) -> bool:
        """Whether it is neither failed nor held."""
        return self.report.error is None and self.held is None

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
        known = explain(error, table=self.report.table, target=self.target)
        self.report.status = "failed"
        self.report.error, self.report.retryable = str(known), known.retryable

    def hold(self, state: LakeState) -> None:
        """Leave the table alone, because it is `loading` or `stale`."""
        unknown = self.state is None or self.state.unknown is not None
        self.held = state if unknown else state.at(self.applied, self.loaded)
        self.report.status, self.report.reason = state.name, state.reason
        self.report.position = state.position

    def date(self, before: LakeState | None, now: str) -> None:
        """Note since when the table is left alone: now, if it was not so before the merge.

        Args:
            before: What was noted of it, if anything was.
            now: The time.
        """
        if self.held is None:
            return
        known = (None if self.state is None else self.state.lake_state, before)
        dates = (each.since for each in known if each is not None and self.held.continues(each))
        since = next(filter(None, dates), now)
        self.held, self.report.since = replace(self.held, since=since), since

    def take(self, plan: TablePlan | None) -> None:
        """Take a plan, which may be to leave the table alone."""
        self.plan = plan
        if plan is not None:
            self.report.changes, self.report.bytes = plan.changes, self.bytes
        if plan is not None and plan.stop is not None and plan.segment is None:
            self.hold(stale(plan.stop))
        elif plan is not None and plan.waits is not None:
            self.hold(LakeState("loading", plan.waits.explanation, plan.waits.cut.position))

    def wait(self, snapshot: str, reason: str) -> None:
        """Note why the newest snapshot is not loaded yet."""
        self.report.snapshot = self.unloaded = f"snapshot {snapshot} is not loaded yet: {reason}"

    def refuse(self, snapshot: str, reason: str) -> None:
        """Note why a snapshot cannot be loaded: a table fails that would be merged without it."""
        self.report.snapshot = self.unloaded = f"snapshot {snapshot} is not loaded: {reason}"
        if self.state is not None and self.state.lake_state.is_merged and not self.is_foreign:
            self.fail(MergeError("a snapshot cannot be loaded", snapshot=snapshot, reason=reason))

    def progress(self, known: TableProgress) -> TableProgress:
        """Return how far it has got; `known` is what was known of it before."""
        if not self.is_read:
            return replace(known, pending=True)
        if self.reload is not None and self.report.status != "merged":
            # Without it, everything is needed that was before.
            first = min(self.first_needed, known.first or self.first_needed)
            state = self.held or LIVE
            return TableProgress(self.applied, first, pending=True, state=state)
        if self.held is not None and not self.is_over:
            # One that was dropped is still to be noticed by the next merge.
            mark = known.mark if self.state is None else self.applied
            return TableProgress(mark, self.first_needed, pending=True, state=self.held)
        if self.report.error is not None or not self.is_settled:
            return TableProgress(self.applied, self.first_needed, pending=True)
        version = None if self.state is None else self.state.snapshot
        if self.report.status == "merged":
            version = self.report.version
        return TableProgress(self.report.applied_after, version=version)


def stale(stop: Stop) -> LakeState:
    """Return the state of a lake table that cannot follow."""
    return LakeState("stale", stop.explanation, stop.cut.position)


def stale_for(error: ReloadNeededError) -> LakeState:
    """Return the state of a lake table whose rows the staged changes do not say."""
    return LakeState("stale", str(error), str(error.context.get("position", "")))


def check_coverage(
    table: LakeTable, log: TableLog, before: Progress, now: Progress, *, initial_load: str
) -> None:
    """Hold a table of which changes are not staged that it lacks.

    Args:
        table: The table; its state is read.
        log: The manifests that are new.
        before: How far the lake has got before this merge.
        now: The same with those manifests.
        initial_load: What to do about a table that has rows from before the staged log.
    """
    known = before.tables.get(table.name)
    table.first_needed = before.first_needed(table.name, table.applied)
    state = table.state
    if state is not None and not state.lake_state.is_merged:
        _check_restart(table, log, known, now)
    elif state is None and known is not None and known.mark != NOTHING:
        _check_dropped(table, log, now)
    elif table.applied != NOTHING:
        _check_gap(table, log, now)
    elif not log.holdings(table.name, since=0):
        _check_silent(table, known, initial_load)
    else:
        _check_new(table, log, before, now)
        if table.is_merged and not _begins(table, log, known):
            _lack_beginning(table, initial_load)


def check_manifests(table: LakeTable, present: Collection[int], *, last: int, folder: str) -> None:
    """Fail a table that needs a manifest that does not exist any more.

    Args:
        table: The table.
        present: Numbers of the manifests that there are.
        last: Number of the last one that is read because a table lags.
        folder: Where they are, for people.
    """
    missing = (each for each in range(table.first_needed, last + 1) if each not in present)
    first = next(missing, None)
    if first is not None:
        table.fail(
            ManifestError(
                "a manifest is missing that the lake table needs: put it back, or reload the table",
                manifest=f"{folder}/{first:016d}.json",
                applied=table.applied,
            )
        )


def _check_dropped(table: LakeTable, log: TableLog, now: Progress) -> None:
    """Hold a table that somebody dropped, unless the log has every row of it."""
    holdings = log.holdings(table.name, since=0)
    id_ = holdings[-1].table if holdings else None
    created = None if id_ is None else log.created(id_)
    if created is None or now.find_uncaptured(table.name, since=created) is not None:
        _hold(
            table,
            log,
            LakeState(
                "loading",
                "the lake table was dropped, and not all rows of its table are staged: reload it",
            ),
        )
    else:
        table.first_needed = created


def _check_restart(
    table: LakeTable, log: TableLog, known: TableProgress | None, now: Progress
) -> None:
    """Hold a table, unless that of its name was created or truncated since."""
    state, restart = table.state, log.find_restart(table.name)
    if restart is None and known is not None and known.pending and known.state.is_merged:
        # It was so in a merge that failed.
        restart = known.first
    gap = restart is None or now.find_uncaptured(table.name, since=restart) is not None
    if restart is not None and not gap and state is not None and state.unknown is None:
        table.first_needed = restart
    elif state is not None:
        _hold(table, log, state.lake_state)


def _check_gap(table: LakeTable, log: TableLog, now: Progress) -> None:
    state = table.state
    if state is None or state.ended:
        return
    gap = now.find_uncaptured(table.name, since=table.applied.sequence + 1)
    if gap is None:
        return
    holdings = log.holdings(table.name, since=gap)
    if holdings and holdings[-1].table != state.table != UNSEEN:
        # Another table has the name now: if all of its rows are staged, it is merged.
        return
    _hold(table, log, _uncaptured(gap))


def _check_new(table: LakeTable, log: TableLog, before: Progress, now: Progress) -> None:
    holdings = log.holdings(table.name, since=0)
    known = before.tables.get(table.name)
    creations = [
        each for each in holdings if each.step and isinstance(each.step.action, CreateTable)
    ]
    start = creations[-1].sequence if creations else holdings[0].sequence
    if known is not None and known.first is not None and not creations:
        start = min(start, known.first)
    gap = now.find_uncaptured(table.name, since=start)
    if gap is not None:
        _hold(table, log, _uncaptured(gap))
    elif before.since > 1 and known is None and not creations:
        _hold(
            table,
            log,
            LakeState(
                "loading",
                f"what was staged of the table before manifest {before.since} is not there any "
                "more: reload it",
            ),
        )


def _check_silent(table: LakeTable, known: TableProgress | None, initial_load: str) -> None:
    """Hold a table as before that was never merged, and of which the log says nothing new."""
    state = LIVE if known is None else known.state
    if state.reason == WITHOUT_BEGINNING.reason:
        # The author may have decided otherwise since.
        _lack_beginning(table, initial_load)
    elif state.name == "loading":
        table.hold(state)


def _begins(table: LakeTable, log: TableLog, known: TableProgress | None) -> bool:
    """Whether no rows from before the staged log are missing."""
    if known is not None and known.state.name == "stale":
        return True  # It was followed to where it became so.
    holdings = log.holdings(table.name, since=0)
    last = holdings[-1]
    # What a rename brings is decided with the log of both names.
    renamed = any(each.step and isinstance(each.step.action, RenameTable) for each in holdings)
    return (
        last.table is None
        or renamed
        or log.created(last.table) is not None
        or log.find_restart(table.name) is not None
    )


def _lack_beginning(table: LakeTable, initial_load: str) -> None:
    """Hold a table, fail it, or let it begin with the changes, as the author says."""
    if initial_load == "fail":
        table.fail(MergeError(WITHOUT_BEGINNING.reason))
    elif initial_load != "changes_only":
        table.hold(WITHOUT_BEGINNING)


def _hold(table: LakeTable, log: TableLog, state: LakeState) -> None:
    """Hold a table; for the last time if its name stands for none any more."""
    holdings = log.holdings(table.name, since=0)
    step = holdings[-1].step if holdings and holdings[-1].table is None else None
    if step is not None:
        ended = f"; at {step.position} it was dropped or renamed: there is nothing to reload"
        state = replace(state, reason=state.reason + ended)
        table.is_over = True
    table.hold(state)


def _uncaptured(manifest: int) -> LakeState:
    return LakeState(
        "loading",
        f"manifest {manifest} was captured without the table, so that changes of it are not "
        "staged: reload it",
    )
