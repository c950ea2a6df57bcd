"""The start of a merge: what is staged, and whether there is nothing to do; it needs no Spark.

A merge is idle if all of this holds for the tables that it is for:

- A merge into this lake has read the newest manifest, or the last one that this one is for.
- By the progress file no table waits for a merge; those that are `loading` or `stale` wait for a
  reload, and are reported.
- There is no note of a merge that runs, or was killed: such a merge may still commit. One that was
  delayed may commit fewer manifests than a later merge did (Iceberg lets an INSERT pass that was
  planned before), and until a merge has read that table again, the table has rows of the past.
- There is no snapshot that no merge into this lake has loaded yet.

If the progress file was deleted, a merge is never idle. What somebody changes in the lake by hand
(a table dropped, restored or rolled back) is noticed by the next merge of a manifest that names the
table.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MALFORMED, ManifestError, TargetConflictError
from airflow_provider_binlog.snapshot_manifest import digest_in, table_digest
from airflow_provider_binlog.spark.job.options import TableChoice
from airflow_provider_binlog.spark.job.report import Report, TableReport
from airflow_provider_binlog.spark.merge.progress import Progress, load_progress, progress_folder
from airflow_provider_binlog.spark.names import target_name
from airflow_provider_binlog.spark.staged.manifests import list_manifests, sequence_reset_error
from airflow_provider_binlog.staging.paths import Snapshots

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.job.options import MergeOptions
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.staging.paths import ReadFiles


_STARTS_SECONDS = 12 * 3600
"""After that a merge starts on no further table."""

_ENDS_SECONDS = 24 * 3600
"""After that a note is deleted: what a merge has started on is done, or never will be."""


@dataclass(frozen=True)
class RunningMerge:
    """The note of one merge.

    Attributes:
        path: Its file.
        started: When it started, seconds since 1970.
        tables: What it merges.
    """

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
        loaded: The progress that is stored; None if there is none.
        before: The progress of the lake before the merge.
        through: The last manifest to merge.
        chosen: Which tables the merge is for.
        running: The merges that run or were killed.
        present: The manifests that there are.
        snapshots: The snapshots that there are.
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
    present: Collection[int]
    snapshots: Snapshots
    staged: frozenset[TableName]
    unloaded: frozenset[TableName]
    unnamed: Mapping[str, ManifestError]

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do; see the module."""
        waits = self.noted or self.unloaded or self.unnamed
        return self.before.is_merged(self.through, self.chosen) and not waits

    @property
    def noted(self) -> set[TableName]:
        """The tables of the merges that run or were killed."""
        return {name for merge in self.running for name in merge.tables}

    def idle_report(self, seconds: float) -> Report:
        """Return the report of a merge that has nothing to do."""
        held = self.before.pending(self.chosen)
        return Report(
            self.options.source,
            self.through,
            [self._report_held(name) for name in held],
            seconds,
            unmatched=self.find_unmatched(self.staged, self.before.excluded),
            stop=self.before.stop,
            versions=self.before.versions,
        )

    def find_unmatched(self, staged: Collection[TableName], excluded: Collection[str]) -> list[str]:
        """Return the globs of the merge and of its options that match no staged table."""
        globs = self.chosen.unmatched(staged, excluded)
        return [*dict.fromkeys([*globs, *self.options.table_options.unmatched(staged)])]

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
            applied_before=known.mark,
            applied_after=known.mark,
        )


def read_start(files: ReadFiles, options: MergeOptions) -> MergeStart:
    """Read the staged files, as far as they say whether there is anything to do.

    Raises:
        ManifestError: The progress is newer than all manifests.
    """
    folder = progress_folder(options.format, options.lake, options.table_options)
    loaded = load_progress(files, folder)
    present = list_manifests(files)
    if loaded is not None and present and present[-1] < loaded.through:
        raise sequence_reset_error(loaded.through, newest=present[-1])
    lake = " ".join([options.format, options.lake, *options.table_options.targets.values()])
    before = loaded or Progress(since=present[0] if present else 1, lake=lake)
    wanted = options.through if options.through is not None else max(present, default=0)
    through = max(before.through, wanted)
    chosen = TableChoice(options.tables, options.exclude)
    running = read_running(files, folder)
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
