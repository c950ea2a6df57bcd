"""One lake table in one merge: whether it is merged, why not, what is done, and the outcome.

A table is not merged as long as rows are missing that no staged change brings, until a manifest
shows that it was created or truncated: from there on the log has every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import MergeError, ReloadNeededError
from airflow_provider_binlog.manifest import Manifest, Part
from airflow_provider_binlog.schema import CreateTable, RenameTable, TableName
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.job.options import TableReport
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.spark.plan.planner import TablePlan
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.plan.table_log import (
    Stop,
    TableLog,
    check_contiguous,
    find_uncaptured,
)
from airflow_provider_binlog.spark.reload.plan import Reload
from airflow_provider_binlog.spark.target.layout import Layout, Note
from airflow_provider_binlog.spark.target.modes import choose_mode
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    UNSEEN,
    WITHOUT_BEGINNING,
    Comments,
    Hold,
    Mark,
    TargetState,
)
from airflow_provider_binlog.staging.paths import ReadFiles, manifest_path, read_manifests
from airflow_provider_binlog.table_options import TableOptions

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.protocol import Target


REMOVED = "a manifest that it needs is not staged any more"
"""What the reason of such a hold begins with. It is no reason once the manifest is back."""

TO_ADOPT = "it is to be adopted, and a snapshot has to replace its rows: take one of its table"
"""Reason of the hold of a table whose lake table someone else made, without a snapshot yet."""


class StagedLog:
    """The manifests of a source in one merge: each is read once, however many tables need it.

    The `newest` follow those of the progress before the merge. Numbers of those that there are:
    `present`. What earlier merges of the lake published, the newest first: `read_records`.
    """

    def __init__(
        self,
        files: ReadFiles,
        newest: TableLog,
        before: Progress,
        present: set[int],
        read_records: Callable[[], Iterable[Progress]] = tuple,
    ) -> None:
        self.newest, self.before, self.present = newest, before, present
        self.now = before.read(newest.manifests)
        self._read_records = read_records
        self._files = files
        self._manifests: dict[int, Manifest] = {}
        self._logs: dict[int, TableLog] = {}

    def first_needed(self, name: TableName, applied: Mark) -> int:
        """Return the number of the first manifest that may hold something for a lake table.

        Of one that was restored, a merge knew that when the table had this mark.
        """
        known = self.before.tables.get(name)
        if known is not None and applied < known.mark:
            for record in self._read_records():
                then = record.tables.get(name)
                if then is not None and then.mark == applied:
                    return record.first_needed(name, applied)
        return self.before.first_needed(name, applied)

    def find_removed(self, first: int) -> int | None:
        """Return the first manifest from a number on that is not there; None if all are."""
        older = range(first, self.before.through + 1)
        if older and not self._files.exists(manifest_path(first)):
            return first  # A cleanup may have removed it since they were listed.
        return next((number for number in older if number not in self.present), None)

    def since(self, first: int) -> TableLog:
        """Return the log from a manifest on.

        Raises:
            ManifestError: One of its manifests is missing, or does not follow the one before.
        """
        if first > self.before.through:
            return self.newest
        if first not in self._logs:
            older = self._read(range(first, self.before.through + 1))
            manifests = [*older, *self.newest.manifests]
            check_contiguous(manifests)
            self._logs[first] = TableLog(manifests)
        return self._logs[first]

    def newest_first(self) -> Iterator[Manifest]:
        """Yield all manifests backwards, as far as they are there.

        Raises:
            ManifestError: One is unreadable.
        """
        yield from reversed(self.newest.manifests)
        number = self.before.through
        while number in self.present:
            yield from self._read(range(number, number + 1))
            number -= 1

    def find_gap(self, name: TableName, since: int) -> int | None:
        """Return where a table was last not captured from manifest `since` on; None if nowhere."""
        return find_uncaptured(self.now.globs, name, first=since, last=self.now.through)

    def _read(self, numbers: range) -> list[Manifest]:
        missing = [number for number in numbers if number not in self._manifests]
        self._manifests |= zip(missing, read_manifests(self._files, missing), strict=True)
        return [self._manifests[number] for number in numbers]


@dataclass
class LakeTable(TableReport):
    """One table in one merge; from its failure or its hold on, the merge leaves it as it is.

    Attributes:
        options: Those of the table.
        is_read: Whether its state could be read.
        state: That state; None if there is no such table.
        first_needed: Number of the first manifest that it needs; 0 while that is not known.
        first_lacked: Number of the first one that it lacks as long as a reload is not committed; 0
            while that is not known.
        ended: Whether its name stands for no table any more, so that no reload is awaited.
        is_settled: Whether the lake table has all of that afterwards.
        is_foreign: Whether someone else made the lake table, which is to be adopted.
        stale_write: The hold for `foreign_write`, if the table's options ask for that.
        has_other_mode: Whether its rows are in another mode than its options choose. The lake table
            does not say so: the options may be set back.
        unloaded: Why the table's newest snapshot is not loaded; empty if there is no newer one.
        processed_snapshot: Id of a snapshot that need not be looked at again.
    """

    name: TableName = field(kw_only=True)
    options: TableOptions = field(default_factory=TableOptions)
    is_read: bool = False
    state: TargetState | None = None
    first_needed: int = 0
    first_lacked: int = 0
    plan: TablePlan | None = None
    ended: bool = False
    is_settled: bool = True
    is_foreign: bool = False
    stale_write: Hold | None = None
    has_other_mode: bool = False
    reload: Reload | None = None
    unloaded: str = ""
    processed_snapshot: str | None = None

    @property
    def is_active(self) -> bool:
        """Whether it has neither failed nor a hold."""
        return self.error is None and self.hold is None

    @property
    def is_followed(self) -> bool:
        """Whether it is merged, and not loaded from a snapshot."""
        return self.is_active and self.reload is None

    @property
    def applied(self) -> Mark:
        """The end of the log that the lake table contains; `NOTHING` if there is none."""
        return self.state.applied if self.state is not None else NOTHING

    @property
    def loaded(self) -> str:
        """The snapshot that the lake table was last loaded from; empty if from none."""
        return self.state.loaded if self.state is not None else ""

    @property
    def segment(self) -> Segment | None:
        """The segment to commit; None if there is none."""
        return None if self.plan is None else self.plan.segment

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts to be read."""
        return () if self.segment is None else self.segment.parts

    @property
    def has_more(self) -> bool:
        """Whether the plan that was just committed leaves a part of the range to another one."""
        plan = self.plan
        if plan is None or plan.segment is None:
            return False
        return plan.more and self.is_merged and self.applied_after == plan.segment.mark

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Report what the body raises, which fails the job at its end."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  It is reported, and the other tables go on.
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Report an error."""
        explained = explain(error, table=self.table, target=self.target)
        self.error, self.retryable = str(explained), explained.retryable

    def set_hold_since(self, before: Hold | None, now: str) -> None:
        """Note since when the table is not merged: now, if it had no such hold `before`."""
        if self.hold is None:
            return
        earlier = (None if self.state is None else self.state.hold, before)
        dates = (hold.since for hold in earlier if hold == self.hold)
        self.hold = replace(self.hold, since=next(filter(None, dates), now))

    def take(self, plan: TablePlan | None) -> None:
        """Take a plan, which may be to leave the table as it is."""
        self.plan = plan
        if plan is None:
            return
        if plan.segment is not None:
            self.changes, self.bytes = plan.segment.changes, plan.segment.bytes
        self.ended = plan.ended
        if plan.stop is not None and plan.segment is None:
            self.hold = self.stale(plan.stop)

    def stale(self, stop: Stop) -> Hold:
        """Return the hold of a table that cannot follow the log past a stop."""
        ended = "; it was dropped or renamed since: there is nothing to reload"
        return Hold("stale", stop.explanation + ended * self.ended, stop.position)

    def wait(self, snapshot: str, reason: str) -> None:
        """Note why the newest snapshot is not loaded yet."""
        self.snapshot = self.unloaded = f"snapshot {snapshot} is not loaded yet: {reason}"

    def refuse(self, snapshot: str, reason: str) -> None:
        """Note why a snapshot cannot be loaded: a table fails that would be merged without it."""
        self.snapshot = self.unloaded = f"snapshot {snapshot} is not loaded: {reason}"
        if self.state is not None and self.state.hold is None and not self.is_foreign:
            self.fail(MergeError("a snapshot cannot be loaded", snapshot=snapshot, reason=reason))

    def progress(self, before: TableProgress) -> TableProgress:
        """Return the table's progress; `before` is that from before the merge."""
        is_known = self.first_needed and (self.first_lacked or self.reload is None)
        if not self.is_read or (self.error is not None and not is_known):
            # It failed before anyone knew what it needs: all that it needed before, and the new.
            return replace(before, pending=True)
        held = TableProgress(
            self.applied,
            self.first_needed,
            pending=True,
            # The options may be others next time, also if nothing else is new.
            hold=None if self.has_other_mode else self.hold,
            loaded=self.loaded,
            foreign_write=self.foreign_write,
        )
        if self.reload is not None and not self.is_merged:
            # Without it, everything is needed that was before.
            first = min(self.first_lacked, before.first or self.first_lacked)
            return replace(held, first=min(first, self.first_needed))
        if self.hold is not None and not self.ended:
            # One that was dropped is still to be noticed by the next merge.
            return replace(held, mark=before.mark if self.state is None else self.applied)
        if self.error is not None or not self.is_settled:
            return replace(held, hold=None)
        version = None if self.state is None else self.state.snapshot
        if self.is_merged:
            version = self.version
        loaded = self.processed_snapshot if self.is_merged else None
        return TableProgress(
            self.applied_after,
            loaded=loaded or self.loaded,
            version=version,
            foreign_write=self.foreign_write,
        )


def stale_for(error: ReloadNeededError) -> Hold:
    """Return the hold of a lake table whose rows the staged changes do not say."""
    return Hold("stale", str(error), str(error.context.get("position", "")))


def find_foreign_write(table: LakeTable, known: TableProgress | None, what_to_do: str) -> None:
    """Note the commit of others that changed rows of a table, and whether that makes it stale.

    `known` is the table's progress: what a merge noted in a commit that was cleaned up since.
    """
    if table.state is None or table.is_foreign or what_to_do == "ignore":
        return
    contents = table.state.contents
    noted = known.foreign_write if known is not None and contents.snapshot is None else None
    table.foreign_write = contents.foreign_write or noted
    if what_to_do == "stale" and table.foreign_write is not None:
        table.stale_write = Hold("stale", str(table.foreign_write))


def check_mode(table: LakeTable, staged: StagedLog) -> None:
    """Hold a table whose rows are in another mode than its options choose.

    A reload replaces them, unless there are rows among them that only the lake table has.

    Raises:
        ConfigurationError: The options choose no mode for such a table.
    """
    state = table.state
    if state is None or state.is_empty or (table.is_foreign and not state.mode.keeps_removed):
        return
    wanted = choose_mode(table.options, keyed=state.mode.has_key)
    if state.mode.has_rows_of(wanted):
        return
    reason = f"its options say {wanted}, and the lake table was made with {state.mode}"
    if state.mode.keeps_removed:
        table.reload = None
        reason += (
            ", so that it has rows which the source does not have any more: set that back; or drop "
            "the lake table, and load it from a snapshot"
        )
    elif table.reload is not None:
        return
    else:
        reason += ": reload it, which replaces its rows, or set that back"
    table.hold, table.has_other_mode = Hold("stale", reason), True
    table.first_needed = staged.first_needed(table.name, table.applied)


def cover(table: LakeTable, staged: StagedLog, *, initial_load: str) -> None:
    """Decide whether a table is merged with the new manifests, and from which one on.

    Raises:
        MergeError: It has rows from before the staged log, and `initial_load` is `fail`.
    """
    table.first_needed = staged.first_needed(table.name, table.applied)
    covered = _find_first(table, staged, initial_load)
    removed = staged.find_removed(covered) if isinstance(covered, int) else None
    if removed is not None:
        restart = _find_restart(table, staged, staged.before.tables.get(table.name))
        covered = restart or Hold("loading", f"{REMOVED}: reload it (manifest={removed})")
    if isinstance(covered, int):
        table.first_needed = covered
        return
    table.hold, holdings = covered, staged.newest.holdings(table.name)
    step = holdings[-1].step if holdings and holdings[-1].table is None else None
    if step is not None:
        ended = f"; at {step.position} it was dropped or renamed: there is nothing to reload"
        table.hold, table.ended = replace(covered, reason=covered.reason + ended), True


def _find_first(table: LakeTable, staged: StagedLog, initial_load: str) -> int | Hold:
    """Return the first manifest that a table needs, or why it is not merged."""
    state, known = table.state, staged.before.tables.get(table.name)
    hold = None if state is None else _effective(state.hold) or table.stale_write
    if state is not None and hold is not None:
        restart = _find_restart(table, staged, known) if state.unknown is None else None
        return hold if restart is None else restart
    id_ = staged.newest.find_id(table.name)
    if state is None and known is not None and known.mark != NOTHING:
        created = None if id_ is None else staged.newest.created(id_)
        if created is not None and staged.find_gap(table.name, created) is None:
            return created
        reason = "the lake table was dropped, and not all rows of its table are staged: reload it"
        return Hold("loading", reason)
    if state is not None and state.applied != NOTHING:
        gap = staged.find_gap(table.name, state.applied.sequence + 1)
        if gap is None or state.ended:
            return table.first_needed
        later = staged.newest.holdings(table.name, since=gap)
        # If another table has the name now, and all of its rows are staged, that is merged.
        is_other = later and later[-1].table != state.table != UNSEEN
        return table.first_needed if is_other else _uncaptured(gap)
    return _find_first_of_new(table, staged, known, initial_load)


def _effective(hold: Hold | None) -> Hold | None:
    """Return a hold; None for one that `cover` decides about again."""
    return None if hold is not None and hold.reason.startswith(REMOVED) else hold


def _find_restart(table: LakeTable, staged: StagedLog, known: TableProgress | None) -> int | None:
    """Return the manifest from which on a held table is merged again; None if from none."""
    restart = staged.newest.find_restart(staged.newest.find_id(table.name))
    if table.state is not None and table.state.mode.keeps_removed:
        # What was removed there is not known.
        restart = None
    if restart is not None and staged.newest.is_quarantined(table.name, since=restart):
        restart = None
    if restart is None and known is not None and known.pending and known.hold is None:
        # It was so in a merge that failed.
        restart = known.first
    if restart is None or staged.find_removed(restart) is not None:
        return None
    return restart if staged.find_gap(table.name, restart) is None else None


def _find_first_of_new(
    table: LakeTable, staged: StagedLog, known: TableProgress | None, initial_load: str
) -> int | Hold:
    """Return what `_find_first` does of a table without rows in the lake."""
    holdings = staged.newest.holdings(table.name)
    hold = None if known is None else _effective(known.hold)
    if not holdings:
        if hold == WITHOUT_BEGINNING:
            # The author may have decided otherwise since.
            hold = _lack_beginning(initial_load)
        return hold or table.first_needed
    steps = [holding.step for holding in holdings if holding.step is not None]
    creations = [step for step in steps if isinstance(step.action, CreateTable)]
    start = creations[-1].point[0] if creations else holdings[0].sequence
    if known is not None and known.first is not None and not creations:
        start = min(start, known.first)
    gap, since = staged.find_gap(table.name, start), staged.before.since
    if gap is not None:
        return _uncaptured(gap)
    if since > 1 and known is None and not creations:
        what = f"what was staged of the table before manifest {since} is not there any more"
        return Hold("loading", f"{what}: reload it")
    # One that is stale was followed to where it became so. What a rename brings is decided with
    # the log of both names.
    begins = (
        (hold is not None and hold.state == "stale")
        or any(isinstance(step.action, RenameTable) for step in steps)
        or staged.newest.has_beginning(table.name)
    )
    return table.first_needed if begins else _lack_beginning(initial_load) or table.first_needed


def _lack_beginning(initial_load: str) -> Hold | None:
    """Return why a table is not merged that has older rows, as its author says."""
    if initial_load == "fail":
        raise MergeError(WITHOUT_BEGINNING.reason)
    return None if initial_load == "changes_only" else WITHOUT_BEGINNING


def _uncaptured(manifest: int) -> Hold:
    return Hold(
        "loading",
        f"manifest {manifest} was captured without the table, so that changes of it are not "
        "staged: reload it",
    )


def wait_for_snapshot(table: LakeTable, staged: StagedLog) -> None:
    """Hold a table until its first snapshot is loaded, but for one that is staged as a whole."""
    id_ = staged.newest.find_id(table.name)
    is_complete = id_ is not None and staged.newest.created(id_) is not None
    if table.unloaded and table.state is None and not is_complete:
        table.hold = Hold("loading", table.unloaded)


def follow_options(table: LakeTable, target: Target[Any]) -> None:
    """Set the properties that options say, and note what a merged lake table does not follow.

    What was said once is not said again. A new table was made as the options say, without comments.
    """
    if not table.is_merged:
        return
    said = [_follow_comments(table, target)] if table.options.comments else []
    if table.state is not None:
        said += _follow_layout(table, table.state, target)
    table.layout = "; ".join(filter(None, said))


def _follow_comments(table: LakeTable, target: Target[Any]) -> str:
    """Set the comments of the source's table; return what could not be set."""
    state = target.read_state(table.target)
    if state is None or table.segment is None:
        return ""
    try:
        if (missing := table.segment.comments.without(state.comments)) != Comments():
            target.set_comments(table.target, missing)
    except Exception as error:  # noqa: BLE001  The rows are there: it is reported.
        return f"comments could not be set: {explain(error)}"
    return ""


def _follow_layout(table: LakeTable, state: TargetState, target: Target[Any]) -> list[str]:
    """Set the properties that the options say; return what of them is not followed."""
    layout, note = Layout.of(table.options), Note.of(state.properties)
    said = [layout.difference(note)]
    chosen = (table.options.properties or {}).items()
    refused = dict(chosen & note.refused.items())
    if wanted := dict(chosen - state.properties.items() - note.refused.items()):
        try:
            target.set_properties(table.target, wanted)
        except Exception as error:  # noqa: BLE001  The rows are there: it is reported.
            refused |= wanted
            names = ", ".join(sorted(wanted))
            said.append(f"properties could not be set ({names}): {explain(error)}")
    if (now := Note(layout.given, refused)) != note:
        target.set_properties(table.target, now.property)
    return said


def check_named(tables: Iterable[LakeTable], staged: StagedLog) -> None:
    """Fail every captured table that exists at the stop of the log and is not accounted for.

    At the end of a merge such a table is live, or named with its hold or an error. Anything else
    would be a silent gap: that is why each table is checked here, whatever decided about it before.
    """
    for table in tables:
        id_ = staged.newest.find_id(table.name)
        if id_ is None or not staged.now.captures(table.name):
            continue
        # A table of which no row is logged yet has a plan without a segment.
        is_planned = table.segment is not None or (table.plan and table.plan.table == id_)
        if table.is_active and table.state is None and not is_planned:
            table.fail(
                MergeError(
                    "the table exists at the end of the staged log, and is neither merged nor held "
                    "until a reload: this is a defect of the merge; report it, and reload the table"
                )
            )
