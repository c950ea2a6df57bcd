"""The next range of a source: from its checkpoint, or its start, to the end of its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_provider_binlog.capture.extract import Extracted, extract
from airflow_provider_binlog.capture.log_range import ExtractRequest, TableFilter
from airflow_provider_binlog.checkpoint import (
    Checkpoint,
    CheckpointStore,
    advance,
    checkpoint_key,
    covering_staged,
    load,
    overwrite,
    repair_command,
    unless_only_a_start,
)
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_binlog.names import SYSTEM_DATABASES, find_unmatched
from airflow_provider_binlog.read_progress import OnProgress, ignore_progress
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sources.state import Log, Start
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles
from airflow_provider_binlog.stored_json import utc_now

_SHOWN = 50
_UNMATCHED = (
    "globs match no table of the log or of the server, including lettercase: correct them, or "
    "GRANT SELECT on the tables to the account, which sees no others"
)


def find_next_range(
    log: Log,
    store: ObjectStore,
    checkpoints: CheckpointStore,
    settings: Mapping[str, Any],
    *,
    start: Start | None,
    logger: Any,
    stop: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Checkpoint, ExtractRequest]:
    """Return the checkpoint, saved on the first run, and the range to stage after it.

    Args:
        log: The log of the source.
        store: Where the source is staged.
        checkpoints: Where its checkpoint is saved.
        settings: The arguments of each `ExtractRequest` that the author chose.
        start: Where the first run begins.
        logger: What captured tables, and globs that match none, are logged by.
        stop: Where the range stops; None for the end of the log.
        on_progress: Called as the range is read.

    Raises:
        PositionPurgedError, ForeignPositionError: The log lacks the position of the checkpoint, or
            is of another server.
        CheckpointMissingError: The checkpoint was lost.
    """
    name = settings["source_name"]
    checkpoint = load(checkpoints, checkpoint_key(name))
    # The server may have purged what is staged, though it is not merged yet.
    staged = covering_staged(checkpoint, ManifestLog(store, name))
    state = log.read_state(unless_only_a_start(staged, start), start=start)
    if checkpoint is None or state.checkpoint is None:
        first = state.start or log.resolve(start or {})
        now, run = utc_now(), settings["created_by"]
        checkpoint = Checkpoint(state.identity, first, 0, saved_at=now, saved_by=run)
        save_first_checkpoint(checkpoints, store, name, checkpoint)
    request = request_after(checkpoint, settings)
    log.check_databases(request.tables.may_capture_from, request.tables.databases)
    end = log.resolve(stop) if stop else state.log_end
    read_from, reader = state.checkpoint or checkpoint, log.read_server_tables
    if reader is not None and request.columns.options:
        reader = partial(reader, excluded=request.columns.excluded_names)
    is_here = read_from.identity == state.identity
    return checkpoint, replace(
        request,
        stop=end,
        identity=state.identity,
        find_gtids=log.resolve,
        read_server_tables=reader,
        wants_defaults=log.logs_partial_images(),
        bytes_total=log.bytes_between(read_from.position, end) if is_here else None,
        on_progress=on_progress,
        on_tables=check_globs(logger, name, request.tables, log.table_names),
    )


def request_after(checkpoint: Checkpoint, settings: Mapping[str, Any]) -> ExtractRequest:
    """Return a request for what is staged after a checkpoint, without its stop."""
    return ExtractRequest(
        checkpoint.position,
        checkpoint.position,
        identity=checkpoint.identity,
        issued_by=checkpoint.identity,
        sequence=checkpoint.sequence + 1,
        **settings,
    )


def save_first_checkpoint(
    checkpoints: CheckpointStore, store: ObjectStore, source: str, first: Checkpoint
) -> None:
    """Save where the first run starts, before anything is staged: then the start is fixed.

    Raises:
        CheckpointMissingError: The source has manifests already: its checkpoint was lost.
    """
    latest = ManifestLog(store, source).latest()
    if latest is not None:
        raise CheckpointMissingError(
            "there is no checkpoint, yet changes of this source are staged: restore it, or stage "
            "under another name",
            repair=repair_command(source),
            newest_manifest=latest.sequence,
            stop=latest.stop,
        )
    key = checkpoint_key(source)
    previous = load(checkpoints, key)
    if previous is None:
        advance(checkpoints, key, expected=None, new=first)
    elif not first.same_position(previous):
        overwrite(checkpoints, key, first)


def check_globs(
    logger: Any, source: str, tables: TableFilter, table_names: Callable[[], Collection[TableName]]
) -> Callable[[int, Collection[TableName]], None]:
    """Return a check of the globs against the tables that were logged, before a manifest's commit.

    The first range of a source compares all globs with the tables that the account sees on the
    server, `table_names`; later ones only if a glob matches no table of the log.
    """

    def check(sequence: int, logged: Collection[TableName]) -> None:
        is_first, names = sequence == 1, set(logged)
        on_server = set[TableName]()
        if is_first or tables.find_misspelled(names):
            on_server = set(table_names())
            names |= on_server
        unmatched = tables.find_misspelled(names)
        # An account that sees no tables is none to judge by.
        sees_tables = any(database not in SYSTEM_DATABASES for database, _ in on_server)
        if is_first and sees_tables and unmatched:
            raise ConfigurationError(_UNMATCHED, globs=", ".join(unmatched))
        if is_first:
            captured = sorted(name for name in names if tables.matches(*name))
            shown = ", ".join(map(".".join, captured[:_SHOWN])) or "none yet"
            more = f" and {len(captured) - _SHOWN} more" if len(captured) > _SHOWN else ""
            logger.info("%s: captures %d tables: %s%s", source, len(captured), shown, more)
            unmatched = find_unmatched((*tables.include, *tables.exclude), map(".".join, names))
        if unmatched:
            logger.warning("%s: %s (globs=%s)", source, _UNMATCHED, ", ".join(unmatched))

    return check


def stage(request: ExtractRequest, log: Log, store: ObjectStore) -> Extracted:
    """Stage a range, one without changes too if a snapshot waits for a manifest: see `extract`."""
    extracted = extract(request, log, store)
    if not extracted.manifests:
        # Snapshots of a server on which nothing happens wait for a manifest.
        name = request.source_name
        if Snapshots(StoredFiles(store, name)).has_new(ManifestLog(store, name).latest()):
            extracted = extract(replace(request, even_empty=True), log, store)
    return extracted
