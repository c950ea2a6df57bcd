"""Removal of staged files that no lake needs any more.

A lake is known by what its merges published. It needs the manifests that its tables lack, and those
that they would lack after a restore to any version that they had within the grace period: the last
record from before that period says which. Manifests are removed from the oldest on, up to the first
that a lake, a snapshot or the checkpoint needs, or that is younger; their parts follow them.

Capture reads older manifests for what was captured when, and snapshots for the columns of tables
that were not logged since: of these few, copies are kept without their parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_provider_binlog.cleanup.lakes import Need, find_lake
from airflow_provider_binlog.errors import ConfigurationError, ManifestError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import (
    SNAPSHOTS,
    SnapshotManifest,
    digest_in,
    planned_at,
)
from airflow_provider_binlog.spark.merge.progress import PROGRESS, record_ids
from airflow_provider_binlog.spark.reload.plan import find_first
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import (
    BACKLOGS,
    KEPT_MANIFESTS,
    KEPT_SNAPSHOTS,
    MANIFESTS,
    REPORTS,
    SCHEMAS,
    Snapshots,
    StoredFiles,
    find_past_manifest,
    ids_by_digest,
    list_manifests,
    manifest_name,
    manifest_path,
    maybe_part_sequence,
    maybe_sequence,
    part_key,
    read_manifest,
    source_folder,
)

_GRACE_MIN = timedelta(days=1)
"""A merge may run for a day on what it has read."""

_READERS = 8
_ORPHAN = "it is in no manifest"


@dataclass(frozen=True)
class Removal:
    """A file below the source's folder, and why it is removed."""

    path: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class Cleanup:
    """Files that can be removed, and the first manifest that is kept.

    Attributes:
        first: Number of the first manifest that is kept; 0 where there is none.
        needs: Why that one is.
        removals: In order: a cleanup that is killed leaves manifests that follow each other, and
            none without its parts.
        copies: Paths of manifests that capture reads, by the paths of the copies that are kept.
    """

    first: int
    needs: tuple[Need, ...]
    removals: tuple[Removal, ...]
    copies: Mapping[str, str]

    @property
    def bytes(self) -> int:
        """Bytes of all files that can be removed."""
        return sum(removal.bytes for removal in self.removals)

    @property
    def kept(self) -> list[str]:
        """Lines that say which manifest is the first that is kept, and why."""
        text = f"manifest {self.first} is the first that is kept"
        return [f"{text}: {need.reason}" for need in self.needs]

    @property
    def totals(self) -> list[tuple[str, int, int]]:
        """Reasons, each with the number of files that are removed for it, and their bytes."""
        sizes: dict[str, list[int]] = defaultdict(list)
        for removal in self.removals:
            sizes[removal.reason].append(removal.bytes)
        return [(reason, len(sizes[reason]), sum(sizes[reason])) for reason in sorted(sizes)]


def plan_cleanup(
    store: ObjectStore, source: str, *, checkpoint: int | None, grace: timedelta, now: datetime
) -> Cleanup:
    """Return what can be removed of a source.

    Args:
        store: Where it is staged.
        source: Its name.
        checkpoint: Number of the newest manifest that the checkpoint covers; None without one.
        grace: How far back lake tables can be restored; what is in no manifest is kept so long.
        now: The time, which has a zone.

    Raises:
        ConfigurationError: The grace period is shorter than a day.
        StagingError: The store failed, or a manifest is unreadable.
    """
    if grace < _GRACE_MIN:
        raise ConfigurationError("the grace period is a day or longer", grace=grace)
    staged = _Staged(store, source, before=now - grace)
    needs = [*staged.find_needs(checkpoint)]
    first = min((need.first for need in needs), default=0)
    copies = staged.find_copies(first)
    return Cleanup(
        first,
        tuple(dict.fromkeys(need for need in needs if need.first == first)),
        tuple(staged.find_removals(first, copies)),
        staged.find_originals(copies),
    )


def clean_up(store: ObjectStore, source: str, cleanup: Cleanup) -> None:
    """Remove what was planned; what is removed already is no error."""
    for copy, path in cleanup.copies.items():
        store.write(part_key(source, copy), store.read(part_key(source, path)))
    store.delete(part_key(source, removal.path) for removal in cleanup.removals)
    # Some stores keep folders that are empty, and these are taken for snapshots.
    folders = {"/".join(removal.path.split("/")[:2]) for removal in cleanup.removals}
    for folder in folders:
        if folder.startswith((SNAPSHOTS, BACKLOGS)) and not store.find(part_key(source, folder)):
            store.delete_folder(part_key(source, folder))


class _Staged:
    """The staged files of a source at one moment; `before` is the start of the grace period."""

    def __init__(self, store: ObjectStore, source: str, before: datetime) -> None:
        self._files, self._before = StoredFiles(store, source), before
        folder = source_folder(source)
        self._objects = {
            stored.key.removeprefix(f"{folder}/"): stored for stored in store.find(folder)
        }
        self._parts: dict[int, frozenset[str]] = {}
        with ThreadPoolExecutor(_READERS) as pool:
            numbers = reversed(list_manifests(self._files))
            self._manifests = [*pool.map(self._read_manifest, numbers)]
        names = sorted({path.split("/")[1] for path in self._in(PROGRESS)})
        lakes = {name: find_lake(self._files, name, before) for name in names}
        self._unknown = [name for name, lake in lakes.items() if lake is None]
        self._lakes = [lake for lake in lakes.values() if lake is not None]
        self._snapshots = {snapshot.id: snapshot for snapshot in self._read_snapshots()}
        plans = SnapshotFiles(store, source).unfinished()
        self._unfinished = [plan for plan in plans if planned_at(plan.id) > before]

    def _read_manifest(self, number: int) -> Manifest:
        """Return what is compared of a manifest, and note its parts: there may be very many."""
        manifest = read_manifest(self._files, number)
        paths = (part.path for table in manifest.tables for part in table.parts)
        self._parts[number] = frozenset(paths)
        return replace(manifest, tables=(), statements=(), prepared=())

    def _read_snapshots(self) -> Iterator[SnapshotManifest]:
        """Yield the newest snapshot of each table, but for those that the merge names."""
        snapshots = Snapshots(self._files)
        for snapshot_id in snapshots.ids():
            with suppress(ManifestError):
                yield snapshots.read(snapshot_id)

    def _in(self, folder: str) -> list[str]:
        return [path for path in self._objects if path.startswith(f"{folder}/")]

    def _is_old(self, path: str) -> bool:
        modified = self._objects[path].modified
        return modified is not None and modified <= self._before

    def find_needs(self, checkpoint: int | None) -> Iterator[Need]:
        """Yield who needs which manifest first, none from before the oldest that is there."""
        if self._manifests:
            oldest = self._manifests[-1].sequence
            for need in self._find_needs(checkpoint, oldest):
                yield replace(need, first=max(need.first, oldest))

    def _find_needs(self, checkpoint: int | None, oldest: int) -> Iterator[Need]:
        yield Need(self._manifests[0].sequence, "it is the newest")
        if checkpoint is not None:
            yield Need(checkpoint, "the checkpoint covers it")
        for manifest in self._manifests:
            if not self._is_old(manifest_path(manifest.sequence)):
                yield Need(manifest.sequence, "it is younger than the grace period")
        if not self._lakes:
            yield Need(oldest, "no merge has published how much it has read")
        for name in self._unknown:
            yield Need(oldest, f"lake {name} has no readable record: merge into it, or forget it")
        for lake in self._lakes:
            yield from lake.needs(oldest)
        unread = [snapshot for snapshot in self._snapshots.values() if not self._is_read(snapshot)]
        begun = [
            plan.complete((), (), low=plan.low, high=plan.low, is_exact=False)
            for plan in self._unfinished
        ]
        for snapshot in [*unread, *begun]:
            if (first := find_first(snapshot, self._manifests)) is not None:
                name = join_table_name(snapshot.name)
                yield Need(first, f"snapshot {snapshot.id} of {name} may still be loaded")

    def _is_read(self, snapshot: SnapshotManifest) -> bool:
        """Whether no lake loads a snapshot any more, unless a table is restored."""
        is_known = bool(self._lakes) and not self._unknown
        return is_known and all(lake.has_read(snapshot) for lake in self._lakes)

    def find_copies(self, first: int) -> set[str]:
        """Return the paths of the copies for capture of what is removed before a manifest."""
        copies = {f"{KEPT_MANIFESTS}/{manifest_name(number)}" for number in self._find_past(first)}
        ids = [path.rpartition("/")[2].removesuffix(".json") for path in self._in(KEPT_SNAPSHOTS)]
        ids += [id_ for id_ in self._find_unloadable(first) if not self._snapshots[id_].adopts]
        newest = (of_table[-1] for of_table in ids_by_digest(ids).values())
        return copies | {f"{KEPT_SNAPSHOTS}/{snapshot_id}.json" for snapshot_id in newest}

    def _find_past(self, first: int) -> Iterator[int]:
        """Yield the first and the last manifest of each period with the same globs."""
        at = self._manifests[0].sequence if self._manifests else 0
        while at > 0 and (manifest := find_past_manifest(self._files, at)) is not None:
            since = min(manifest.captured_since, at)
            yield from (number for number in (since, since - 1) if 0 < number < first)
            at = since - 1

    def _find_unloadable(self, first: int) -> Iterator[str]:
        """Yield the newest snapshots that no lake loads once older manifests are removed."""
        for snapshot in self._snapshots.values():
            start = find_first(snapshot, self._manifests)
            if self._is_read(snapshot) and (start is None or start < first):
                yield snapshot.id

    def find_originals(self, copies: Collection[str]) -> dict[str, str]:
        """Return the paths of what is to be copied, by those of the copies."""
        originals = {}
        for copy in copies - self._objects.keys():
            folder, _, name = copy.rpartition("/")
            path = f"{MANIFESTS if folder == KEPT_MANIFESTS else SNAPSHOTS}/{name}"
            if path in self._objects:
                originals[copy] = path
        return originals

    def find_removals(self, first: int, copies: Collection[str]) -> list[Removal]:
        """Return what is removed, in this order."""
        reasons: dict[str, str] = {}
        for manifest in reversed(self._manifests):
            if manifest.sequence < first:
                reasons[manifest_path(manifest.sequence)] = "nobody needs it any more"
        for path, reason in (
            *self._find_snapshot_files(first),
            *self._find_schema_files(first, copies),
            *self._find_parts(first),
            *self._find_notes(),
        ):
            reasons.setdefault(path, reason)
        return [Removal(path, self._objects[path].bytes, why) for path, why in reasons.items()]

    def _find_snapshot_files(self, first: int) -> Iterator[tuple[str, str]]:
        removed = dict.fromkeys(self._find_unloadable(first), "the changes after it are removed")
        paths = self._in(SNAPSHOTS)
        complete = [
            path.split("/")[1].removesuffix(".json") for path in paths if path.count("/") == 1
        ]
        for ids in ids_by_digest(complete).values():
            # Merges load the newest alone; one that still runs may have found an older one.
            old = [id_ for id_ in ids if self._is_old(f"{SNAPSHOTS}/{id_}.json")]
            removed |= dict.fromkeys(old[:-1], f"{ids[-1]} is newer")
        begun = {path.split("/")[1] for path in paths if path.count("/") > 1}
        for snapshot_id in begun.difference(complete, (plan.id for plan in self._unfinished)):
            if digest_in(snapshot_id) and planned_at(snapshot_id) <= self._before:
                removed[snapshot_id] = "it was not completed within the grace period"
        named = {part.path for snapshot in self._snapshots.values() for part in snapshot.parts}
        # Manifests first.
        for path in sorted(paths, key=lambda path: path.count("/")):
            snapshot_id = path.split("/")[1].removesuffix(".json")
            if snapshot_id in removed:
                yield path, removed[snapshot_id]
                continue
            is_part = snapshot_id in self._snapshots and maybe_part_sequence(path) is not None
            if is_part and path not in named and self._is_old(path):
                yield path, _ORPHAN

    def _find_schema_files(self, first: int, copies: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield copies that are not needed, and files that newer ones precede at every start."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for path in self._in(SCHEMAS):
            folder, _, name = path.rpartition("/")
            if folder in (KEPT_MANIFESTS, KEPT_SNAPSHOTS):
                if path not in copies:
                    yield path, "capture does not need it any more"
            elif (number := maybe_sequence(name)) is not None and number <= first:
                numbers[folder].append(number)
        for folder, older in numbers.items():
            for number in sorted(older)[:-1]:
                yield f"{folder}/{manifest_name(number)}", "a newer one holds at every start"

    def _find_parts(self, first: int) -> Iterator[tuple[str, str]]:
        for path in self._objects:
            folder = path.partition("/")[0]
            if folder.startswith("_") or folder in (MANIFESTS, SCHEMAS, SNAPSHOTS, BACKLOGS):
                continue
            number = maybe_part_sequence(path)
            if number is not None and number < first:
                yield path, "its manifest is removed"
            elif number in self._parts and path not in self._parts[number] and self._is_old(path):
                yield path, _ORPHAN

    def _find_notes(self) -> Iterator[tuple[str, str]]:
        newest = self._manifests[0].sequence if self._manifests else 0
        for path in filter(self._is_old, self._objects):
            folder, _, rest = path.partition("/")
            number = rest.partition("-")[0]
            if path.rpartition("/")[2].startswith("."):
                yield path, "a write that was killed left it"
            elif folder == REPORTS:
                yield path, "its task has ended"
            elif folder == BACKLOGS and number.isdecimal() and int(number) <= newest:
                yield path, "its range is committed"
        for lake in self._lakes:
            for record_id in record_ids(self._files, f"{PROGRESS}/{lake.id}"):
                if record_id < lake.earlier.id:
                    yield f"{PROGRESS}/{lake.id}/{record_id}.json", "it is older than the period"
