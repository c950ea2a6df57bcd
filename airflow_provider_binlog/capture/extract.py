"""Stage the log between a checkpoint and a stop, after earlier tries that staged some of it.

A committed manifest is never replaced: a run whose number is taken reuses that manifest if it
starts at the same position, and stages only what follows it. Tables before a range come from the
previous manifest, else from schema files; columns of a table that was loaded from a snapshot, and
has not been logged since, come from the snapshot, for a statement that alters them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from airflow_provider_binlog import errors
from airflow_provider_binlog.capture.capture_range import (
    capture_range,
    executed_at,
    prepared_between,
)
from airflow_provider_binlog.capture.gtids import is_logged
from airflow_provider_binlog.capture.log_range import ExtractRequest, LogRange, TableFilter
from airflow_provider_binlog.changes import BeforeImages, Policies
from airflow_provider_binlog.manifest import Manifest, Prepared
from airflow_provider_binlog.position import (
    FIRST_OFFSET,
    Flavor,
    Position,
    SourceIdentity,
    split_file_name,
)
from airflow_provider_binlog.schema import Schema, TableName, TableState
from airflow_provider_binlog.schema_history.tables import (
    NO_TABLE,
    NOTHING_KNOWN,
    NoTable,
    TableLookup,
)
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.staging.manifest_log import ManifestLog, SchemaFile, SchemaFiles
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles
from airflow_provider_binlog.transport.block_stream import BlockStream


@dataclass(frozen=True)
class Extracted:
    """Manifests staged after a checkpoint: reused ones and the new one, in order.

    Where there are none, it stops at the checkpoint's position, as it is in this log.
    """

    manifests: tuple[Manifest, ...]
    start: Position
    stop: Position


def extract(request: ExtractRequest, stream: BlockStream, store: ObjectStore) -> Extracted:
    """Stage and commit the changes from the checkpoint up to the stop.

    Raises:
        ConflictError: A manifest of the next number starts elsewhere.
        ConfigurationError: What an earlier try staged lacks tables or before-images that are
            captured now, or was staged under other policies.
        ManifestError: The manifest before the range is missing.
        BinlogError: As `capture_range`.
    """
    while True:
        staged, log_range = find_next(request, stream, store)
        if log_range is None:
            return staged
        manifest = capture_range(log_range, stream, store)
        try:
            ManifestLog(store, request.source_name).commit(manifest)
        except errors.ConflictError:
            # Another run committed this number meanwhile: that manifest is reused, and what
            # follows it is staged next.
            continue
        return Extracted((*staged.manifests, manifest), staged.start, manifest.stop)


def find_next(
    request: ExtractRequest, stream: BlockStream, store: ObjectStore
) -> tuple[Extracted, LogRange | None]:
    """Return the manifests already staged, and the range that is left to stage, or None."""
    log, sequence = ManifestLog(store, request.source_name), request.sequence
    at, identity = request.start, request.issued_by or request.identity
    before = log.maybe_load(sequence - 1) if sequence > 1 else None
    staged = tuple(_reusable(log, request, sequence, identity, at))
    if staged:
        before = staged[-1]
        at, identity, sequence = before.stop, before.identity, before.sequence + 1
    prepared = before.prepared if before else None
    if identity != request.identity:
        at, identity = _find_on_promoted(at, request), request.identity
        if prepared:
            prepared = find_prepared(stream, identity.flavor, at, prepared)
    if before is None and sequence > 1:
        raise errors.ManifestError(
            "the manifest that the checkpoint covers is not there, and what follows cannot be "
            "staged without it: restore it, or the staging path, or capture under another source "
            "name and load the tables from snapshots",
            key=log.key(sequence - 1),
        )
    is_empty = at.coordinates == request.stop.coordinates
    if at.coordinates > request.stop.coordinates or (
        is_empty and (staged or not request.even_empty)
    ):
        return Extracted(staged, request.start, at), None
    if at.gtid is None:
        at = replace(at, gtid=executed_at(stream, identity, at))
    if prepared is None:  # nothing is staged yet
        prepared = prepared_between(stream, at.file_start, at)
    log_range = LogRange(
        replace(request, start=at, sequence=sequence),
        prepared,
        known_tables(store, request.source_name, log, before),
        _captured_since(before, request.tables, sequence),
    )
    return Extracted(staged, request.start, at), log_range


def reuse(request: ExtractRequest, store: ObjectStore) -> Extracted:
    """Return the manifests committed after the checkpoint, without reading the log.

    The log may have been purged or reset there meanwhile: staged changes do not need it.
    """
    log, identity = ManifestLog(store, request.source_name), request.issued_by or request.identity
    staged = tuple(_reusable(log, request, request.sequence, identity, request.start))
    return Extracted(staged, request.start, staged[-1].stop if staged else request.start)


def _reusable(
    log: ManifestLog,
    request: ExtractRequest,
    sequence: int,
    identity: SourceIdentity,
    at: Position,
) -> Iterator[Manifest]:
    """Yield the committed manifests from a number and a position on."""
    while (manifest := log.reuse(sequence, identity, at)) is not None:
        _check_reusable(manifest, request)
        yield manifest
        sequence, identity, at = sequence + 1, manifest.identity, manifest.stop


def _captured_since(before: Manifest | None, tables: TableFilter, sequence: int) -> int:
    globs = tuple(tables.include), tuple(tables.exclude)
    if before is None or (before.include, before.exclude) != globs:
        return sequence
    return before.captured_since


def _find_on_promoted(at: Position, request: ExtractRequest) -> Position:
    if request.find_gtids is None or not at.gtid:
        raise errors.ForeignPositionError(
            "the position was issued by another server, and cannot be found by GTID on this one",
            position=at,
        )
    # Character for character: the next manifest must start with the GTIDs the last one stops with.
    return replace(request.find_gtids(at.gtid), gtid=at.gtid)


def _check_reusable(manifest: Manifest, request: ExtractRequest) -> None:
    """Refuse a manifest that holds less than this run would stage, or columns of other types."""
    added = [glob for glob in request.tables.include if glob not in manifest.include]
    added += [glob for glob in manifest.exclude if glob not in request.tables.exclude]
    all_images = request.before_images is BeforeImages.ALL
    images = all_images and manifest.before_images is not BeforeImages.ALL
    where = {"sequence": manifest.sequence, "range": f"{manifest.start} to {manifest.stop}"}
    if added or images:
        raise errors.ConfigurationError(
            "an earlier try staged this range with fewer tables or before-images: let a run with "
            "the previous settings finish first, then add to them",
            **where,
            added=added or "before_images",
        )
    staged = Policies(manifest.zero_dates, manifest.invalid_text)
    if staged != request.policies:
        raise errors.ConfigurationError(
            "an earlier try staged this range with other zero_dates or invalid_text: let a run "
            "with the previous settings finish first, then change them",
            **where,
            zero_dates=staged.zero_dates.value,
            invalid_text=staged.invalid_text.value,
        )


def find_prepared(
    source: BlockStream, flavor: Flavor, at: Position, prepared: Sequence[Prepared]
) -> tuple[Prepared, ...]:
    """Return the XA transactions in doubt at a failover, with their positions in this server's log.

    The files before `at` are searched, the newest first. A transaction that is logged after `at` is
    returned unchanged: the range reads it there.

    Raises:
        PositionPurgedError: A transaction is not in this server's log.
    """
    wanted = {xa.gtid for xa in prepared if xa.gtid and is_logged(flavor, xa.gtid, at)}
    # Without a GTID, nothing identifies a transaction in another server's log.
    unnamed = [xa for xa in prepared if xa.gtid is None]
    located: dict[str | None, Prepared] = {}
    for start, stop in _files_before(at) if wanted else ():
        try:
            here = prepared_between(source, start, stop)
        except (errors.ForeignPositionError, errors.PositionPurgedError):
            break  # there is no such file
        located |= {xa.gtid: xa for xa in here if xa.gtid in wanted}
        if len(located) == len(wanted):
            break
    lost = [*unnamed, *(xa for xa in prepared if xa.gtid in wanted - located.keys())]
    if lost:
        raise errors.PositionPurgedError(
            "the log of the promoted replica lacks XA transactions that are in doubt: "
            "take a new snapshot there",
            xids=[xa.xid for xa in lost],
        )
    return tuple(
        replace(xa, file=located[xa.gtid].file, offset=located[xa.gtid].offset)
        if xa.gtid in located
        else xa
        for xa in prepared
    )


def _files_before(at: Position) -> Iterator[tuple[Position, Position]]:
    """Yield the ranges to read, file by file, the newest first."""
    log_name, number = split_file_name(at.file)
    width = len(at.file) - len(log_name) - 1
    stop = at
    while number > 0:
        start = Position(f"{log_name}.{number:0{width}}", FIRST_OFFSET)
        yield start, stop
        stop, number = start, number - 1


def known_tables(
    store: ObjectStore, source_name: str, log: ManifestLog, before: Manifest | None
) -> TableLookup:
    """Return a lookup of tables after a committed manifest, and write its schema files.

    Schema files are read when a name is first looked up.
    """
    if before is None:
        return NOTHING_KNOWN
    files = SchemaFiles(store, source_name)
    files.publish(before)
    tables = _KnownTables(files, log, before)
    snapshots = _SnapshotSchemas(StoredFiles(store, source_name), tables.captures_since)
    return TableLookup(tables.find, tables.find_all, lambda name: snapshots.find(name, before))


class _KnownTables:
    def __init__(self, files: SchemaFiles, log: ManifestLog, before: Manifest) -> None:
        self._files = files
        self._log = log
        self._before = before
        self._live = {table.name: table.state for table in before.tables if not table.dropped}
        self._cache: dict[TableName, TableState | NoTable | None] = {}
        # By database: the schema file of its last drop, which covers tables in no manifest.
        self._dropped: dict[str, SchemaFile | None] = {}
        # By the sequence of the last manifest under some globs: the globs, and the first manifest.
        self._filters = {before.sequence: (_filter_of(before), before.captured_since)}

    def find(self, name: TableName) -> TableState | NoTable | None:
        if name not in self._cache:
            self._cache[name] = self._find(name)
        return self._cache[name]

    def find_all(self, database: str) -> list[TableState]:
        names = {name for name in self._live if name[0] == database}
        files = self._files.find_all(database, before=self._before.sequence + 1)
        names |= {file.name for file in files}
        states = map(self.find, sorted(names))
        return [state for state in states if isinstance(state, TableState)]

    def _find(self, name: TableName) -> TableState | NoTable | None:
        at = self._before.sequence
        file = (
            SchemaFile(at, name, self._live[name])
            if name in self._live
            else self._files.find(name, before=at + 1) or self._find_dropped(name[0])
        )
        # A file from before a time in which the table was not captured may be out of date.
        if file is None or not self._was_captured(name, since=file.sequence):
            return None
        return NO_TABLE if file.state is None else file.state

    def _find_dropped(self, database: str) -> SchemaFile | None:
        if database not in self._dropped:
            before = self._before.sequence + 1
            self._dropped[database] = self._files.find((database, ""), before=before)
        return self._dropped[database]

    def captures_since(self, name: TableName, at: Position) -> bool:
        """Whether all changes of a table from a position on are staged, under the same globs."""
        first = self._first
        return (
            _filter_of(self._before).matches(*name)
            and first is not None
            and first.identity == self._before.identity
            and first.start.coordinates <= at.coordinates
        )

    @cached_property
    def _first(self) -> Manifest | None:
        """The first of the consecutive manifests with the globs of the last one."""
        return self._log.load_past(self._before.captured_since)

    def _was_captured(self, name: TableName, *, since: int) -> bool:
        """Whether a name has been captured in every range from one on."""
        at = self._before.sequence
        while True:
            if at not in self._filters:
                manifest = self._log.load_past(at)
                if manifest is None:
                    return False
                self._filters[at] = _filter_of(manifest), manifest.captured_since
            captured, first = self._filters[at]
            if not captured.matches(*name):
                return False
            if first <= since:
                return True
            at = first - 1


class _SnapshotSchemas:
    def __init__(
        self, files: StoredFiles, captures_since: Callable[[TableName, Position], bool]
    ) -> None:
        self._files = files
        self._captures_since = captures_since

    @cached_property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self._files, removed=True)

    def find(self, name: TableName, before: Manifest) -> Schema | None:
        """Return the schema of a table's newest snapshot before the stop of a manifest.

        Without a later statement in the staged log, the table still has this schema. Snapshots
        after the stop do not count: a range that is staged again must get the same schemas.
        """
        snapshots = map(self._read, reversed(self._snapshots.ids_of(name)))
        reached = (
            snapshot
            for snapshot in snapshots
            if snapshot is not None
            # The columns of an adopted table were read at some time after its position.
            and not snapshot.adopts
            and snapshot.identity == before.identity
            and snapshot.high.coordinates <= before.stop.coordinates
        )
        newest = next(reached, None)
        if newest is None or not self._captures_since(name, newest.high):
            return None
        # The policies decide the types of columns.
        same_policies = (newest.zero_dates, newest.invalid_text) == (
            before.zero_dates,
            before.invalid_text,
        )
        return newest.schema.whole if same_policies else None

    def _read(self, snapshot_id: str) -> SnapshotManifest | None:
        try:
            return self._snapshots.read(snapshot_id)
        except errors.ManifestError:
            return None  # the load that needs its rows raises the error


def _filter_of(manifest: Manifest) -> TableFilter:
    return TableFilter(manifest.include, manifest.exclude)
