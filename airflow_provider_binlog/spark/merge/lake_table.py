"""One lake table in one merge: whether it is merged, why not, what is done, and the outcome.

A table is not merged as long as rows are missing that no staged change brings: its lake table is
`loading` or `stale`, the table was not captured for a time, or its rows are older than the log. It
is merged again once a manifest shows that it was created or truncated: from there on the log has
every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.errors import ManifestError, MergeError, ReloadNeededError
from airflow_provider_binlog.schema import CreateTable, RenameTable
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.merge.progress import TableProgress
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    UNSEEN,
    WITHOUT_BEGINNING,
    Hold,
    Mark,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.job.report import TableReport
    from airflow_provider_binlog.spark.merge.progress import Progress
    from airflow_provider_binlog.spark.plan.planner import TablePlan
    from airflow_provider_binlog.spark.plan.segment import Stop
    from airflow_provider_binlog.spark.plan.table_log import Holding, TableLog
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


TO_ADOPT = "it is to be adopted, and a snapshot has to replace its rows: take one of its table"
"""Why a table is held whose lake table someone else made, and that has no snapshot yet."""


class Coverage(NamedTuple):
    """What a table needs of the staged log, and why it is not merged.

    Attributes:
        first: Number of the first manifest that the table needs.
        hold: Why the table is not merged; None if it is.
        ended: Whether its name stands for no table any more, so that no reload is awaited.
    """

    first: int
    hold: Hold | None = None
    ended: bool = False


def find_coverage(
    name: TableName,
    state: TargetState | None,
    log: TableLog,
    *,
    before: Progress,
    now: Progress,
    initial_load: str,
) -> Coverage:
    """Return whether a table is merged with the manifests that are new.

    Args:
        name: Database and table.
        state: Its lake table; None if there is none.
        log: The manifests that are new.
        before: The lake's progress before this merge.
        now: The same with those manifests.
        initial_load: What to do about a table that has rows from before the staged log.

    Raises:
        MergeError: It has such rows, and is to fail then.
    """
    return _Table(name, state, log, before, now).find_coverage(initial_load)


def check_manifests(
    first: int, applied: Mark, present: Collection[int], *, last: int, folder: str
) -> None:
    """Refuse to merge a table that needs a manifest which does not exist any more.

    Args:
        first: Number of the first manifest that the table needs.
        applied: The applied mark of its lake table.
        present: Numbers of the manifests that there are.
        last: Number of the last one that is read because a table lags.
        folder: Where they are, for people.

    Raises:
        ManifestError: One is missing.
    """
    missing = next((number for number in range(first, last + 1) if number not in present), None)
    if missing is not None:
        raise ManifestError(
            "a manifest is missing that the lake table needs: put it back, or reload the table",
            manifest=f"{folder}/{missing:016d}.json",
            applied=applied,
        )


def find_snapshot_hold(
    name: TableName, state: TargetState | None, log: TableLog, *, unloaded: str
) -> Hold | None:
    """Return that a table without a lake table waits for its snapshot; None if it need not.

    It need not where the log has every row of it.

    Args:
        name: Database and table.
        state: Its lake table; None if there is none.
        log: The manifests that are new.
        unloaded: Why its newest snapshot is not loaded; empty if there is no newer one.
    """
    holdings = log.holdings(name, since=0)
    id_ = holdings[-1].table if holdings else None
    is_complete = id_ is not None and log.created(id_) is not None
    return None if not unloaded or state is not None or is_complete else Hold("loading", unloaded)


def check_named(tables: Iterable[LakeTable], log: TableLog, now: Progress) -> None:
    """Fail every captured table that exists at the stop of the log and is not accounted for.

    At the end of a merge such a table is live, or named with its hold or an error. Anything else
    would be a silent gap: that is why each table is checked here, whatever decided about it before.

    Args:
        tables: The tables of the merge.
        log: The manifests that are new.
        now: The lake's progress with those manifests.
    """
    for table in tables:
        holdings = log.holdings(table.name, since=0)
        id_ = holdings[-1].table if holdings else None
        if id_ is None or not now.captures(table.name):
            continue
        plan = table.plan
        # A table of which no row is logged yet has a plan without a segment.
        is_planned = plan is not None and (plan.segment is not None or plan.table == id_)
        if table.is_merged and table.state is None and not is_planned:
            table.fail(
                MergeError(
                    "the table exists at the end of the staged log, and is neither merged nor held "
                    "until a reload: this is a defect of the merge; report it, and reload the table"
                )
            )


@dataclass(frozen=True)
class _Table:
    """A table of which it is asked whether it is merged; see `find_coverage`."""

    name: TableName
    state: TargetState | None
    log: TableLog
    before: Progress
    now: Progress

    @property
    def applied(self) -> Mark:
        return NOTHING if self.state is None else self.state.applied

    @property
    def known(self) -> TableProgress | None:
        return self.before.tables.get(self.name)

    @property
    def holdings(self) -> list[Holding]:
        return self.log.holdings(self.name, since=0)

    def find_coverage(self, initial_load: str) -> Coverage:
        known, state = self.known, self.state
        first = self.before.first_needed(self.name, self.applied)
        if state is not None and state.hold is not None:
            return self._after_restart(first, state.hold, can_follow=state.unknown is None)
        if state is None and known is not None and known.mark != NOTHING:
            return self._without_lake_table(first)
        if self.applied != NOTHING:
            return self._after_gap(first)
        if not self.holdings:
            hold = None if known is None else known.hold
            # The author may have decided otherwise since.
            is_old = hold == WITHOUT_BEGINNING
            hold = _lack_beginning(initial_load) if is_old else hold
            return Coverage(first, hold if hold is not None and hold.state == "loading" else None)
        coverage = self._of_new_table(first)
        if coverage.hold is None and not self._begins():
            return Coverage(first, _lack_beginning(initial_load))
        return coverage

    def _after_restart(self, first: int, hold: Hold, *, can_follow: bool) -> Coverage:
        """Return the coverage of a table that is not merged, unless it was created or truncated."""
        known, restart = self.known, self.log.find_restart(self.name)
        if restart is not None and self.log.is_quarantined(self.name, since=restart):
            restart = None
        if restart is None and known is not None and known.pending and known.hold is None:
            # It was so in a merge that failed.
            restart = known.first
        if restart is None or self._find_gap(restart) is not None or not can_follow:
            return self._held(first, hold)
        return Coverage(restart)

    def _without_lake_table(self, first: int) -> Coverage:
        """Return the coverage of a table whose lake table somebody dropped."""
        id_ = self.holdings[-1].table if self.holdings else None
        created = None if id_ is None else self.log.created(id_)
        if created is not None and self._find_gap(created) is None:
            return Coverage(created)
        reason = "the lake table was dropped, and not all rows of its table are staged: reload it"
        return self._held(first, Hold("loading", reason))

    def _after_gap(self, first: int) -> Coverage:
        state = self.state
        if state is None or state.ended:
            return Coverage(first)
        gap = self._find_gap(self.applied.sequence + 1)
        if gap is None:
            return Coverage(first)
        later = self.log.holdings(self.name, since=gap)
        if later and later[-1].table != state.table != UNSEEN:
            # Another table has the name now: if all of its rows are staged, it is merged.
            return Coverage(first)
        return self._held(first, _uncaptured(gap))

    def _of_new_table(self, first: int) -> Coverage:
        known, holdings, since = self.known, self.holdings, self.before.since
        creations = [
            holding
            for holding in holdings
            if holding.step and isinstance(holding.step.action, CreateTable)
        ]
        start = creations[-1].sequence if creations else holdings[0].sequence
        if known is not None and known.first is not None and not creations:
            start = min(start, known.first)
        gap = self._find_gap(start)
        if gap is not None:
            return self._held(first, _uncaptured(gap))
        if since > 1 and known is None and not creations:
            reason = (
                f"what was staged of the table before manifest {since} is not there any more: "
                "reload it"
            )
            return self._held(first, Hold("loading", reason))
        return Coverage(first)

    def _begins(self) -> bool:
        """Whether no rows from before the staged log are missing."""
        known, holdings = self.known, self.holdings
        if known is not None and known.hold is not None and known.hold.state == "stale":
            return True  # It was followed to where it became so.
        last = holdings[-1]
        # What a rename brings is decided with the log of both names.
        renamed = any(each.step and isinstance(each.step.action, RenameTable) for each in holdings)
        return (
            last.table is None
            or renamed
            or self.log.created(last.table) is not None
            or self.log.find_restart(self.name) is not None
        )

    def _find_gap(self, since: int) -> int | None:
        return self.now.find_uncaptured(self.name, since=since)

    def _held(self, first: int, hold: Hold) -> Coverage:
        """Return that a table is not merged; for the last time if it was dropped or renamed."""
        holdings = self.holdings
        step = holdings[-1].step if holdings and holdings[-1].table is None else None
        if step is None:
            return Coverage(first, hold)
        ended = f"; at {step.position} it was dropped or renamed: there is nothing to reload"
        return Coverage(first, replace(hold, reason=hold.reason + ended), ended=True)


def _lack_beginning(initial_load: str) -> Hold | None:
    """Return why a table is not merged that has older rows, as its author says.

    Raises:
        MergeError: It is to fail.
    """
    if initial_load == "fail":
        raise MergeError(WITHOUT_BEGINNING.reason)
    return None if initial_load == "changes_only" else WITHOUT_BEGINNING


def _uncaptured(manifest: int) -> Hold:
    return Hold(
        "loading",
        f"manifest {manifest} was captured without the table, so that changes of it are not "
        "staged: reload it",
    )
