"""The start of a merge: the progress of its lake, what is staged, and other running merges.

Every merge publishes the progress in a record of its own beside the manifests, which is never
rewritten: readers take the versions in it as one state of the source, the next merge continues from
the newest. That is a cache; the truth is each lake table's own applied mark. A merge that runs, or
was killed, has a note: it may still commit fewer manifests than a later merge did (Iceberg lets an
INSERT pass that was planned before), and until a merge has read that table again, the table has
rows of the past.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from airflow_provider_binlog.errors import (
    MALFORMED,
    ManifestError,
    StoreUnavailableError,
    TargetConflictError,
    error_context,
)
from airflow_provider_binlog.manifest import End, Manifest, check_follows
from airflow_provider_binlog.names import join_table_name, split_table_name
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import digest_in, planned_at, table_digest
from airflow_provider_binlog.spark.job.options import MergeOptions, Report, TableChoice, TableReport
from airflow_provider_binlog.spark.names import target_name
from airflow_provider_binlog.spark.plan.table_log import Globs, extend_globs
from airflow_provider_binlog.spark.staged.files import SourceFiles, sequence_reset_error
from airflow_provider_binlog.spark.target.state import NOTHING, ForeignWrite, Hold, Mark
from airflow_provider_binlog.staging.paths import (
    ReadFiles,
    Snapshots,
    list_manifests,
    manifest_path,
)
from airflow_provider_binlog.stored_json import LEFT_OUT, StoredFormat
from airflow_provider_binlog.table_options import TableRules

PROGRESS = "_merged"
"""The folder of a source's notes on lakes; no database's folder begins with an underscore."""

_STORED = StoredFormat("airflow-provider-binlog/published", 1, "a publish record")
_RECORD = re.compile(r"(\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{12})\.json", re.ASCII)


@dataclass(frozen=True)
class TableProgress:
    """Progress of one table.

    Attributes:
        mark: The applied mark of its lake table when a merge last saw it, if there was one.
        first: Number of the first manifest that may hold something more for it; None if none does
            of those that were read.
        pending: Whether one of them does, so that the next merge reads the lake table's state.
        version: Delta's version of the lake table, or the id of Iceberg's snapshot, with what the
            mark says; None if that is not known.
        foreign_write: The commit of others that makes its rows suspect; None if there is none.
        target: The lake table, as SQL names it; empty if no merge has read it.
        chosen: Whether a merge into the lake has included it: others are staged for other lakes.
    """

    mark: Mark = field(default=NOTHING, metadata=LEFT_OUT)
    first: int | None = field(default=None, metadata=LEFT_OUT)
    pending: bool = field(default=False, metadata=LEFT_OUT)
    hold: Hold | None = field(default=None, metadata=LEFT_OUT)
    loaded: str = field(default="", metadata=LEFT_OUT)
    version: int | None = field(default=None, metadata=LEFT_OUT)
    foreign_write: ForeignWrite | None = field(default=None, metadata=LEFT_OUT)
    target: str = field(default="", metadata=LEFT_OUT)
    chosen: bool = field(default=False, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Progress:
    """Progress of all tables of one lake.

    Attributes:
        since: Number of the first manifest that was ever read.
        end: The stop of the last one that was read; None at first.
        servers: The servers of these manifests, that of the last one first: more than one where
            others were promoted.
        snapshots: Ids of the snapshots that are loaded, or were overtaken.
        lake: Format, place and names of the lake, for people.
        id: That of the record that says so; empty if it is not published yet.
    """

    since: int = 1
    end: End | None = None
    servers: tuple[SourceIdentity, ...] = ()
    globs: tuple[Globs, ...] = ()
    tables: Mapping[TableName, TableProgress] = field(default_factory=dict)
    snapshots: frozenset[str] = frozenset()
    lake: str = ""
    id: str = ""

    @property
    def through(self) -> int:
        """Number of the last manifest that was read."""
        return self.since - 1 if self.end is None else self.end.sequence

    def first_needed(self, name: TableName, applied: Mark) -> int:
        """Return the number of the first manifest that may hold something for a lake table."""
        known = self.tables.get(name)
        following = applied.sequence + 1
        if known is None:
            older = applied > NOTHING and following < self.since
            return following if older else max(following, self.through + 1)
        if applied < known.mark:
            # It was restored, or a delayed merge of less came in between.
            return following
        return max(following, known.first or self.through + 1)

    def pending(self, chosen: Callable[[TableName], bool]) -> list[TableName]:
        """Return the chosen tables whose state in the lake has to be read, whatever is new.

        That are those that wait for something, and those that are suspect.
        """
        return sorted(
            name
            for name, table in self.tables.items()
            if (table.pending or table.foreign_write is not None) and chosen(name)
        )

    def is_merged(self, through: int, chosen: Callable[[TableName], bool]) -> bool:
        """Return whether there is nothing to do up to a manifest, as far as is known here.

        Tables that wait for a reload do not count.
        """
        tables = (self.tables[name] for name in self.pending(chosen))
        waits = any(table.pending and table.hold is None for table in tables)
        return through <= self.through and not waits

    @property
    def excluded(self) -> tuple[str, ...]:
        """The globs of the tables that the last manifest was captured without."""
        return self.globs[-1].exclude if self.globs else ()

    @property
    def stop(self) -> Position | None:
        """Stop of the last manifest that was read; None at first."""
        return None if self.end is None else self.end.stop

    @property
    def versions(self) -> dict[TableName, int]:
        """Return, by live table, which version has the log up to here, and nothing else."""
        return {
            name: table.version
            for name, table in sorted(self.tables.items())
            if table.version is not None
            and table.hold is None
            and not table.pending
            and table.foreign_write is None
            and table.mark.sequence <= self.through
        }

    def check_follows(self, manifest: Manifest) -> None:
        """Refuse a manifest that does not follow what was read."""
        if self.end is not None:
            check_follows(self.end, manifest)

    def read(self, manifests: Sequence[Manifest]) -> Progress:
        """Return the progress once further manifests were read, before any table is merged."""
        if not manifests:
            return self
        newest_first = (manifest.identity for manifest in reversed(manifests))
        return replace(
            self,
            end=manifests[-1].end,
            # A lake table follows the one that wrote it last. Of older ones the manifests may be
            # deleted, and a table without changes knows no later one.
            servers=tuple(dict.fromkeys([*newest_first, *self.servers])),
            globs=extend_globs(self.globs, manifests),
        )

    def captures(self, name: TableName) -> bool:
        """Return whether the last manifest was captured with a table."""
        return bool(self.globs) and self.globs[-1].capture(name)

    def combine(self, stored: Progress, *, merged: Collection[TableName]) -> Progress:
        """Return what is safe to say after another merge, which stored something meanwhile."""
        newer, older = (self, stored) if self.through > stored.through else (stored, self)
        tables = dict(newer.tables)
        for name in newer.tables.keys() | older.tables.keys():
            one, two = (progress.tables.get(name, TableProgress()) for progress in (newer, older))
            if one != two and (name in merged or newer is self):
                first = min(one.first or newer.through + 1, two.first or older.through + 1)
                tables[name] = replace(
                    one,
                    mark=max(one.mark, two.mark),
                    first=first,
                    pending=True,
                    loaded=max(one.loaded, two.loaded),
                    version=None,
                    target=one.target or two.target,
                    chosen=one.chosen or two.chosen,
                )
        return replace(newer, tables=tables, snapshots=self.snapshots | stored.snapshots)


def progress_folder(format_: str, lake: str, options: TableRules) -> str:
    """Return the folder of the progress of one lake, which the names of its tables distinguish."""
    text = json.dumps([format_, lake, [*options.targets.items()]])
    return f"{PROGRESS}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def record_ids(files: ReadFiles, folder: str) -> list[str]:
    """Return the ids of the records of a lake, the newest last."""
    names = map(_RECORD.fullmatch, files.list(folder))
    return sorted(name[1] for name in names if name is not None)


def published_at(record_id: str) -> datetime:
    """Return when a record was published, by its id."""
    return planned_at(record_id)


def read_record(files: ReadFiles, folder: str, record_id: str) -> Progress:
    """Return what a merge published.

    Raises:
        ManifestError: There is no such record, or it is unreadable.
    """
    path = _path(folder, record_id)
    data = files.read(path)
    if data is None:
        raise ManifestError("there is no such publish record", record=files.locate(path))
    with error_context(record=files.locate(path)):
        progress = _STORED.decode(_Stored, data).progress()
        if progress.id != record_id:
            raise ManifestError("a publish record under another's name", holds=progress.id)
    return progress


def read_records(
    files: ReadFiles, folder: str, ids: Iterable[str] | None = None
) -> Iterator[Progress]:
    """Yield what merges published of a lake, without what is unreadable.

    The records of `ids`, in their order; by default all of them, the newest first. A store without
    atomic writes shows a cut file while a merge writes it, and for good if that merge is killed.
    """
    for record_id in reversed(record_ids(files, folder)) if ids is None else ids:
        try:
            yield read_record(files, folder, record_id)
        except ManifestError:
            continue


def load_progress(files: ReadFiles, folder: str, known: Progress | None = None) -> Progress | None:
    """Return what was last published of a lake; None if nothing was, or all of it is unreadable.

    Then every manifest is read again. A `known` record is not read if it is the newest.
    """
    return _find_newest(files, folder, record_ids(files, folder), known)


def _find_newest(
    files: ReadFiles, folder: str, ids: Sequence[str], known: Progress | None
) -> Progress | None:
    if known is not None and ids[-1:] == [known.id]:
        return known
    return next(read_records(files, folder, reversed(ids)), None)


def save_progress(
    files: SourceFiles,
    folder: str,
    progress: Progress,
    *,
    loaded: Progress | None,
    merged: Collection[TableName],
    now: datetime | None = None,
) -> Progress:
    """Publish the progress of a lake, after a merge of some tables, and return it with its id.

    What was published when the merge began is `loaded`; what another one published since is kept.
    """
    ids = record_ids(files, folder)
    stored = _find_newest(files, folder, ids, loaded)
    if stored is not None and stored != loaded:
        progress = progress.combine(stored, merged=merged)
    progress = replace(progress, id=_new_id(ids, now or datetime.now(UTC)))
    files.write(_path(folder, progress.id), _STORED.encode(_Stored.of(progress)))
    return progress


def _new_id(ids: Sequence[str], now: datetime) -> str:
    """Return an id greater than those of all records, also if another driver's clock was ahead."""
    for newest in ids[-1:]:
        now = max(now, published_at(newest) + timedelta(microseconds=1))
    # Two merges may publish at the same time.
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(6)}"


def _path(folder: str, record_id: str) -> str:
    return f"{folder}/{record_id}.json"


@dataclass(frozen=True)
class _Stored:
    """A record as it is stored; the tables by `database.table`."""

    id: str
    since: int
    through: int
    sources: tuple[SourceIdentity, ...]
    stop: Position | None
    globs: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]
    tables: dict[str, TableProgress]
    snapshots: tuple[str, ...]
    lake: str

    @classmethod
    def of(cls, progress: Progress) -> _Stored:
        tables = sorted(progress.tables.items())
        return cls(
            progress.id,
            progress.since,
            progress.through,
            progress.servers,
            progress.stop,
            progress.globs,
            {join_table_name(name): table for name, table in tables},
            tuple(sorted(progress.snapshots)),
            progress.lake,
        )

    def progress(self) -> Progress:
        if self.stop is not None and not self.sources:
            raise ManifestError("a publish record of no server")
        stop = self.stop
        return Progress(
            since=self.since,
            end=None if stop is None else End(self.through, self.sources[0], stop),
            servers=self.sources,
            globs=tuple(Globs(*globs) for globs in self.globs),
            tables={split_table_name(name): table for name, table in self.tables.items()},
            snapshots=frozenset(self.snapshots),
            lake=self.lake,
            id=self.id,
        )


_STARTS_SECONDS = 12 * 3600
"""After that a merge starts on no further table."""

_ENDS_SECONDS = 24 * 3600
"""After that a note is deleted: what a merge has started on is done, or never will be."""


@dataclass(frozen=True)
class RunningMerge:
    """The note of one merge: its file, when it started, in seconds since 1970, and its tables."""

    path: str
    started: float
    tables: frozenset[TableName]

    def check(self) -> None:
        """Refuse to start on another table when others do not expect it any more.

        Raises:
            TargetConflictError: It has run for too long.
        """
        if time.time() - self.started > _STARTS_SECONDS:
            raise TargetConflictError("this merge has run for 12 hours: the next one continues")

    @property
    def has_ended(self) -> bool:
        """Whether it cannot commit any more."""
        return time.time() - self.started > _ENDS_SECONDS


def note_start(files: SourceFiles, folder: str, tables: Iterable[TableName]) -> RunningMerge:
    """Note that a merge starts, before it commits anything."""
    path = f"{_folder(folder)}/{uuid.uuid4().hex}.json"
    merge = RunningMerge(path, time.time(), frozenset(tables))
    value = {"started": merge.started, "tables": sorted(merge.tables)}
    files.write(path, json.dumps(value, ensure_ascii=False).encode())
    return merge


def read_running(files: ReadFiles, folder: str) -> list[RunningMerge]:
    """Return the merges that run, or were killed."""
    return [_read(files, f"{_folder(folder)}/{name}") for name in files.list(_folder(folder))]


def _folder(folder: str) -> str:
    return f"{folder}/running"


def _read(files: ReadFiles, path: str) -> RunningMerge:
    data = files.read(path)
    try:
        value = json.loads(data or b"")
        tables = frozenset((str(database), str(table)) for database, table in value["tables"])
        return RunningMerge(path, float(value["started"]), tables)
    except MALFORMED:
        # Deleted meanwhile, or not written to its end yet: that merge has committed nothing.
        return RunningMerge(path, time.time(), frozenset())


@dataclass(frozen=True)
class MergeStart:
    """Staged files, progress and options at the start of a merge.

    Attributes:
        folder: The folder of the progress.
        loaded: The progress that was last published; None if none was.
        before: That, or the one to begin with.
        running: The merges that run or were killed.
        present: The manifests that there are.
        staged: The tables of which earlier manifests, or new snapshots, are staged.
        unloaded: The chosen ones that have a snapshot which is not processed yet.
        unnamed: Why a snapshot is unreadable, by its id, where no merge has seen its table.
    """

    options: MergeOptions
    folder: str
    loaded: Progress | None
    before: Progress
    through: int
    chosen: TableChoice
    running: Sequence[RunningMerge]
    present: set[int]
    snapshots: Snapshots
    staged: frozenset[TableName]
    unloaded: frozenset[TableName]
    unnamed: Mapping[str, ManifestError]

    @property
    def is_idle(self) -> bool:
        """Whether all is merged and loaded, and no merge runs that may still commit."""
        waits = self.noted or self.unloaded or self.unnamed
        return self.before.is_merged(self.through, self.chosen) and not waits

    @property
    def noted(self) -> set[TableName]:
        """The tables of the merges that run or were killed."""
        return {name for merge in self.running for name in merge.tables}

    def idle_report(self, seconds: float) -> Report:
        """Return the report of a merge that has nothing to do."""
        held = map(self._report_held, self.before.pending(self.chosen))
        return self.report(self.before, held, seconds)

    def report(self, progress: Progress, tables: Iterable[TableReport], seconds: float) -> Report:
        """Return the report of a merge of tables that got to a progress."""
        staged, globs = self.staged | progress.tables.keys(), self.options.table_options
        unmatched = [*self.chosen.unmatched(staged, progress.excluded), *globs.unmatched(staged)]
        return Report(
            self.options.source,
            self.through,
            [*tables],
            seconds,
            unmatched=[*dict.fromkeys(unmatched)],
            stop=progress.stop,
            versions={".".join(name): number for name, number in progress.versions.items()},
            published=progress.id,
        )

    def report_unnamed(self, seen: Iterable[TableName]) -> list[TableReport]:
        """Report snapshots that are unreadable, but for those of tables that were seen since."""
        digests = {table_digest(name) for name in seen}
        return [
            TableReport(f"snapshot {id_}", "", error=str(error))
            for id_, error in self.unnamed.items()
            if digest_in(id_) not in digests
        ]

    def _report_held(self, name: TableName) -> TableReport:
        """Report a table that waits for a reload, by the progress."""
        known, options = self.before.tables[name], self.options
        return TableReport(
            ".".join(name),
            target_name(options.format, options.lake, options.table_options, *name),
            hold=known.hold,
            foreign_write=known.foreign_write,
            applied_before=known.mark,
            applied_after=known.mark,
        )


_LIST_SECONDS, _LOOK_UP_SECONDS = 600, 60
_DETAILED_RECORDS, _MINUTE_CHARACTERS = 100, len("20260131T2359")


class Seen:
    """State of the staged files and the progress, for the next merge of a job.

    Manifests, of which there may be a hundred thousand, are listed every ten minutes, and otherwise
    those found that follow; the merges that others run are looked up once a minute.

    Attributes:
        progress: The newest record of the job; None before its first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.progress: Progress | None = None
        self._clock = clock
        self._present: list[int] = []
        self._list_at = self._look_up_at = -math.inf
        self._published: deque[str] = deque()
        self._kept = ""

    def publish(self, files: SourceFiles, folder: str, progress: Progress) -> None:
        """Note what the job published, and leave one record a minute of those before the newest."""
        self.progress = progress
        self._published.append(progress.id)
        self.thin(files, folder, keep=_DETAILED_RECORDS)

    def thin(self, files: SourceFiles, folder: str, *, keep: int) -> None:
        """Delete records that the job published, but the newest, and one of each minute."""
        while len(self._published) > keep:
            id_ = self._published.popleft()
            minute = id_[:_MINUTE_CHARACTERS]
            if minute == self._kept:
                with suppress(StoreUnavailableError):
                    files.delete(_path(folder, id_))
            self._kept = minute

    def list_manifests(self, files: ReadFiles) -> list[int]:
        """Return the numbers of the manifests that there are, ascending."""
        if self._present and self._clock() < self._list_at:
            while files.exists(manifest_path(self._present[-1] + 1)):
                self._present.append(self._present[-1] + 1)
        else:
            self._present, self._list_at = list_manifests(files), self._clock() + _LIST_SECONDS
        return self._present

    def read_running(self, files: ReadFiles, folder: str) -> list[RunningMerge]:
        """Return the merges that run, or were killed; none if this was called a moment ago."""
        if self._clock() < self._look_up_at:
            return []
        self._look_up_at = self._clock() + _LOOK_UP_SECONDS
        return read_running(files, folder)


def read_start(files: ReadFiles, options: MergeOptions, seen: Seen | None = None) -> MergeStart:
    """Read the staged files, as far as they say whether there is anything to do.

    Raises:
        ManifestError: The progress is newer than all manifests.
    """
    seen = seen or Seen()
    folder = progress_folder(options.format, options.lake, options.table_options)
    loaded = load_progress(files, folder, seen.progress)
    present = seen.list_manifests(files)
    if loaded is not None and present and present[-1] < loaded.through:
        raise sequence_reset_error(loaded.through, newest=present[-1])
    lake = " ".join([options.format, options.lake, *options.table_options.targets.values()])
    before = loaded or Progress(since=present[0] if present else 1, lake=lake)
    wanted = options.through if options.through is not None else max(present, default=0)
    through = max(before.through, wanted)
    chosen = TableChoice(options.tables, options.exclude, options.without)
    running = seen.read_running(files, folder)
    snapshots = Snapshots(files)
    unloaded, unnamed = _find_unloaded(snapshots, before)
    return MergeStart(
        options,
        folder,
        loaded,
        before,
        through,
        chosen,
        running,
        set(present),
        snapshots,
        frozenset(unloaded | before.tables.keys()),
        frozenset(filter(chosen, unloaded)),
        unnamed,
    )


def _find_unloaded(
    snapshots: Snapshots, before: Progress
) -> tuple[set[TableName], dict[str, ManifestError]]:
    """Return the tables with a snapshot that is not processed yet, and what is unreadable.

    An unreadable one is that of the table whose digest its id has, and fails that table alone.
    """
    known = {table_digest(name): name for name in before.tables}
    unloaded: set[TableName] = set()
    unnamed: dict[str, ManifestError] = {}
    for id_ in snapshots.ids():
        if id_ in before.snapshots:
            continue
        try:
            unloaded.add(snapshots.read(id_).name)
        except ManifestError as error:
            name = known.get(str(digest_in(id_)))
            if name is None:
                unnamed[id_] = error
            else:
                unloaded.add(name)
    return unloaded, unnamed
