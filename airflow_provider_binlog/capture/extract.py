"""Stage the log between a checkpoint and a stop, after earlier tries that staged some of it.

A committed manifest is never replaced: a run whose number is taken reuses that manifest if it
starts at the same position, and stages only what follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.capture_range import (
    capture_range,
    executed_at,
    prepared_at,
    prepared_between,
)
from airflow_provider_binlog.capture.gtids import is_logged
from airflow_provider_binlog.capture.known_tables import known_tables
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.changes import BeforeImages, Policies
from airflow_provider_binlog.errors import (
    ConfigurationError,
    ConflictError,
    ForeignPositionError,
    ManifestError,
    PositionPurgedError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name
from airflow_provider_binlog.staging.manifest_log import ManifestLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.capture.log_range import ExtractRequest
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.manifest import Manifest, Prepared
    from airflow_provider_binlog.position import Flavor, SourceIdentity
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


@dataclass(frozen=True)
class Extracted:
    """Manifests staged after a checkpoint.

    Attributes:
        manifests: Reused ones and the new one, in order; empty if there was nothing to stage.
        start: The checkpoint's position.
        stop: Where the last manifest stops; `start` if there is none.
    """

    manifests: tuple[Manifest, ...]
    start: Position
    stop: Position


def extract(request: ExtractRequest, stream: BlockStream, store: ObjectStore) -> Extracted:
    """Stage and commit the changes from the checkpoint up to the stop.

    Args:
        request: The range and its settings.
        stream: The log.
        store: Where parts and manifests are written.

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
        except ConflictError:
            # Another run committed this number meanwhile: that manifest is reused, and what
            # follows it is staged next.
            continue
        return Extracted((*staged.manifests, manifest), staged.start, manifest.stop)


def find_next(
    request: ExtractRequest, stream: BlockStream, store: ObjectStore
) -> tuple[Extracted, LogRange | None]:
    """Return the manifests already staged, and the range that is left to stage, or None.

    Raises:
        ConflictError, ConfigurationError, BinlogError: As `extract`.
    """
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
        raise ManifestError(
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
        prepared = prepared_at(stream, at)
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

    Raises:
        ConflictError, ConfigurationError, StagingError: As `extract`.
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
    """Return the sequence since which the globs have been the same."""
    globs = tuple(tables.include), tuple(tables.exclude)
    if before is None or (before.include, before.exclude) != globs:
        return sequence
    return before.captured_since


def _find_on_promoted(at: Position, request: ExtractRequest) -> Position:
    """Return the position in the promoted replica's log where the previous server's was left."""
    if request.find_gtids is None or not at.gtid:
        raise ForeignPositionError(
            "the position was issued by another server, and cannot be found by GTID on this one",
            position=at,
        )
    # Character for character: the next manifest must start with the GTIDs the last one stops with.
    return replace(request.find_gtids(at.gtid), gtid=at.gtid)


def _check_reusable(manifest: Manifest, request: ExtractRequest) -> None:
    """Refuse a manifest that holds less than this run would stage, or columns of other types.

    Raises:
        ConfigurationError: The manifest was staged with other settings.
    """
    added = [glob for glob in request.tables.include if glob not in manifest.include]
    added += [glob for glob in manifest.exclude if glob not in request.tables.exclude]
    all_images = request.before_images is BeforeImages.ALL
    images = all_images and manifest.before_images is not BeforeImages.ALL
    where = {"sequence": manifest.sequence, "range": f"{manifest.start} to {manifest.stop}"}
    if added or images:
        raise ConfigurationError(
            "an earlier try staged this range with fewer tables or before-images: let a run with "
            "the previous settings finish first, then add to them",
            **where,
            added=added or "before_images",
        )
    staged = Policies(manifest.zero_dates, manifest.invalid_text)
    if staged != request.policies:
        raise ConfigurationError(
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
        except (ForeignPositionError, PositionPurgedError):
            break  # there is no such file
        located |= {xa.gtid: xa for xa in here if xa.gtid in wanted}
        if len(located) == len(wanted):
            break
    lost = [*unnamed, *(xa for xa in prepared if xa.gtid in wanted - located.keys())]
    if lost:
        raise PositionPurgedError(
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
