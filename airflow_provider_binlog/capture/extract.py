"""Stages what lies between a checkpoint and a stop, whatever earlier tries have left.

A manifest that exists is the truth: a run that finds its number taken reuses that manifest if it
starts at the same position, and stages only what follows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.capture_range import capture_range, executed_at, prepared_at
from airflow_provider_binlog.capture.failover import find_prepared
from airflow_provider_binlog.capture.known_tables import known_tables
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, ConflictError, ForeignPositionError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.rows.policies import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.staging.manifest_log import ManifestLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_binlog.capture.progress import Progress
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.manifest import Manifest, Prepared
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.schema_history.schemas import ServerTablesReader
    from airflow_provider_binlog.schema_history.tables import Known
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


@dataclass(frozen=True)
class ExtractRequest:
    """What to stage, and how.

    Attributes:
        start: The checkpoint's position: everything before it is staged.
        stop: Where to stop; a boundary between two transactions.
        identity: The server that wrote the log.
        sequence: One more than that of the last manifest that the checkpoint covers.
        source_name: The source's folder in the store.
        tables: Which tables to capture.
        before_images: Which before-images of updates to stage.
        created_by: Noted in the manifest.
        limits: Bounds of memory and files.
        policies: How zero dates and invalid byte sequences are staged.
        read_server_tables: Queries the server's information_schema, where the log lacks the names
            of a table's columns, or those of their types that only MariaDB has. None: the log
            must have them.
        wants_defaults: Whether that query includes the defaults of all columns: inserts may lack
            columns under another `binlog_row_image` than FULL.
        issued_by: The server that issued `start`, if that is not `identity`, which was promoted.
        find_gtids: Finds the position in this server's log where a GTID set ends; needed if
            `issued_by` is another server.
        bytes_total: Bytes of log in the range, if known; only reported.
        on_progress: Called every few seconds.
    """

    start: Position
    stop: Position
    _: KW_ONLY
    identity: SourceIdentity
    sequence: int
    source_name: str
    tables: TableFilter
    before_images: BeforeImages
    created_by: str
    limits: Limits = field(default_factory=Limits)
    policies: Policies = DEFAULT_POLICIES
    read_server_tables: ServerTablesReader | None = None
    wants_defaults: bool = False
    issued_by: SourceIdentity | None = None
    find_gtids: Callable[[str], Position] | None = None
    bytes_total: int | None = None
    on_progress: Callable[[Progress], None] | None = None

    def range_from(
        self,
        start: Position,
        sequence: int,
        *,
        prepared: Sequence[Prepared],
        before: Manifest | None,
        known: Known,
    ) -> LogRange:
        """Return the range from a position to the stop.

        Args:
            start: Its start.
            sequence: The number of its manifest.
            prepared: The XA transactions that are in doubt at the start.
            before: The previous manifest, if there is one.
            known: The tables that are known from it, and from those before it.
        """
        return LogRange(
            start,
            self.stop,
            identity=self.identity,
            source_name=self.source_name,
            sequence=sequence,
            tables=self.tables,
            before_images=self.before_images,
            created_by=self.created_by,
            limits=self.limits,
            policies=self.policies,
            prepared=prepared,
            known=known,
            captured_since=_captured_since(before, self.tables, sequence),
            wants_defaults=self.wants_defaults,
        )


@dataclass(frozen=True)
class Extracted:
    """What is staged after a checkpoint.

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
        request: What to stage.
        stream: The log.
        store: Where parts and manifests are written.

    Raises:
        ConflictError: A manifest of the next number starts elsewhere.
        ConfigurationError: What an earlier try staged lacks tables or before-images that are
            captured now, or was staged under other policies.
        BinlogError: As `capture_range`.
    """
    log = ManifestLog(store, request.source_name)
    staged: list[Manifest] = []
    at, sequence, identity = request.start, request.sequence, request.issued_by or request.identity
    before = log.maybe_load(sequence - 1) if sequence > 1 else None
    prepared = before.prepared if before else None
    while True:
        while (found := log.reuse(sequence, identity, at)) is not None:
            _check_reusable(found, request)
            staged.append(found)
            at, identity, prepared, before = found.stop, found.identity, found.prepared, found
            sequence += 1
        if identity != request.identity:
            at, identity = _find_on_promoted(at, request), request.identity
            if prepared:
                prepared = find_prepared(stream, identity.flavor, at, prepared)
        if at.coordinates >= request.stop.coordinates:
            return Extracted(tuple(staged), request.start, at)
        if at.gtid is None:
            at = replace(at, gtid=executed_at(stream, identity, at))
        if prepared is None:  # nothing is staged yet
            prepared = prepared_at(stream, at)
        known = known_tables(store, request.source_name, log, before)
        manifest = capture_range(
            request.range_from(at, sequence, prepared=prepared, before=before, known=known),
            stream,
            store,
            read_server_tables=request.read_server_tables,
            bytes_total=request.bytes_total,
            on_progress=request.on_progress,
        )
        # Another run may have committed this number meanwhile: then that manifest is reused, and
        # what follows it is staged next.
        with suppress(ConflictError):
            log.commit(manifest)


def _captured_since(before: Manifest | None, tables: TableFilter, sequence: int) -> int:
    """Return the first manifest of those that are captured with the same globs."""
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
    # Word for word: by its GTIDs the next manifest follows the last one.
    return replace(request.find_gtids(at.gtid), gtid=at.gtid)


def _check_reusable(manifest: Manifest, request: ExtractRequest) -> None:
    """Refuse a manifest that holds less than this run is to stage, or columns of other types.

    Raises:
        ConfigurationError: It was staged with other settings.
    """
    added = [each for each in request.tables.include if each not in manifest.include]
    added += [each for each in manifest.exclude if each not in request.tables.exclude]
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
