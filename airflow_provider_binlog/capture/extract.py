"""Stages what lies between a checkpoint and a stop, whatever earlier tries have left behind.

A manifest that exists is the truth: a run that finds its number taken adopts it where it covers
the same start, and stages only what follows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.capture_range import capture_range, executed_at, prepared_at
from airflow_provider_binlog.capture.limits import Limits
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.capture.takeover import take_over_prepared
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, ConflictError, ForeignPositionError
from airflow_provider_binlog.rows.policies import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.staging.manifest_log import ManifestLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.capture.progress import Progress
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.schema_history.schemas import CatalogReader
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


@dataclass(frozen=True)
class Extracted:
    """What is staged behind a checkpoint.

    Attributes:
        manifests: Adopted ones and the new one, in order; empty where there was nothing to stage.
        start: The checkpoint's position.
        stop: Where the last manifest stops; `start` where there is none.
    """

    manifests: tuple[Manifest, ...]
    start: Position
    stop: Position


def extract(
    source: BlockStream,
    *,
    identity: SourceIdentity,
    checkpoint_position: Position,
    next_sequence: int,
    stop: Position,
    tables: TableFilter,
    store: ObjectStore,
    source_name: str,
    before_images: BeforeImages,
    created_by: str,
    limits: Limits | None = None,
    policies: Policies = DEFAULT_POLICIES,
    read_catalog: CatalogReader | None = None,
    wants_defaults: bool = False,
    checkpoint_identity: SourceIdentity | None = None,
    locate: Callable[[str], Position] | None = None,
    bytes_total: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Extracted:
    """Stage and seal the changes from the checkpoint up to `stop`.

    Args:
        source: Where the log is read.
        identity: The server that wrote it.
        checkpoint_position: Up to where everything is staged.
        next_sequence: One more than the sequence of the last manifest the checkpoint covers.
        stop: Where to stop; a boundary between two transactions.
        tables: Which tables to capture.
        store: Where parts and manifests go.
        source_name: The source's folder there.
        before_images: Which before-images of updates to stage.
        created_by: Noted in the manifest.
        limits: Bounds of memory and files.
        policies: How values are staged that are no dates, or no text.
        read_catalog: Asks the server for its catalogue, where the log does not say how a table's
            columns are called, or of which types of MariaDB they are. Without it the log must.
        wants_defaults: Whether it is asked for the defaults of all columns too: inserts may lack
            them, under another `binlog_row_image` than FULL.
        checkpoint_identity: The server that issued the checkpoint's position, where that is another
            one than `identity`, which took over from it.
        locate: Finds where in this server's log a GTID set ends; needed where one took over.
        bytes_total: Bytes of log in the range, where known; only reported.
        on_progress: Called every few seconds.

    Raises:
        ConflictError: A manifest of the next number starts elsewhere.
        ConfigurationError: What an earlier try staged lacks tables, or before-images, that are
            captured now, or was staged under other policies.
        BinlogError: As `capture_range`.
    """
    log = ManifestLog(store, source_name)
    staged: list[Manifest] = []
    at, sequence, of = checkpoint_position, next_sequence, checkpoint_identity or identity
    before = log.maybe_load(sequence - 1) if sequence > 1 else None
    prepared = before.prepared if before else None
    while True:
        while (found := log.adopt(sequence, of, at)) is not None:
            _check_captures(found, tables, before_images)
            _check_policies(found, policies)
            staged.append(found)
            at, of, prepared, sequence = found.stop, found.identity, found.prepared, sequence + 1
            before = found
        if of != identity:
            at, of = _take_over(at, locate), identity
            if prepared:
                prepared = take_over_prepared(source, identity.flavor, at, prepared)
        if at.place >= stop.place:
            return Extracted(tuple(staged), checkpoint_position, at)
        if at.gtid is None:
            at = replace(at, gtid=executed_at(source, identity, at))
        if prepared is None:  # nothing is staged yet, or by a release that did not know
            prepared = prepared_at(source, at)
        log_range = LogRange(
            at,
            stop,
            identity=identity,
            source_name=source_name,
            sequence=sequence,
            tables=tables,
            before_images=before_images,
            created_by=created_by,
            limits=limits or Limits(),
            policies=policies,
            prepared=prepared,
            former=before,
            wants_defaults=wants_defaults,
        )
        manifest = capture_range(
            log_range,
            source,
            store,
            read_catalog=read_catalog,
            bytes_total=bytes_total,
            on_progress=on_progress,
        )
        # Another run may have sealed this number meanwhile: then theirs is adopted, and what it
        # does not reach is staged behind it.
        with suppress(ConflictError):
            log.seal(manifest)


def _take_over(at: Position, locate: Callable[[str], Position] | None) -> Position:
    """Return the place in this server's log where the one that it took over from was left."""
    if locate is None or not at.gtid:
        raise ForeignPositionError(
            "the position was issued by another server, and cannot be found by GTID on this one",
            position=at,
        )
    # Word for word: by its GTIDs the next manifest goes on behind the last one.
    return replace(locate(at.gtid), gtid=at.gtid)


def _check_captures(manifest: Manifest, tables: TableFilter, before_images: BeforeImages) -> None:
    """Refuse to adopt a manifest that holds less than this run is to stage."""
    added = [each for each in tables.include if each not in manifest.include]
    added += [each for each in manifest.exclude if each not in tables.exclude]
    images = before_images is BeforeImages.ALL and manifest.before_images is not BeforeImages.ALL
    if added or images:
        raise ConfigurationError(
            "an earlier try staged this range with fewer tables or before-images: let a run with "
            "the former settings finish first, then add to them",
            sequence=manifest.sequence,
            range=f"{manifest.start} to {manifest.stop}",
            added=added or "before_images",
        )


def _check_policies(manifest: Manifest, policies: Policies) -> None:
    """Refuse to adopt a manifest whose columns may be of other types than this run's."""
    staged = Policies(manifest.zero_dates, manifest.invalid_text)
    if staged != policies:
        raise ConfigurationError(
            "an earlier try staged this range with other zero_dates or invalid_text: let a run "
            "with the former settings finish first, then change them",
            sequence=manifest.sequence,
            range=f"{manifest.start} to {manifest.stop}",
            zero_dates=staged.zero_dates.value,
            invalid_text=staged.invalid_text.value,
        )
