"""Stage one bounded range of the log."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.changes import (
    BeforeImages,
    InvalidText,
    OnTableError,
    Policies,
    ZeroDates,
)
from airflow_provider_binlog.checkpoint import (
    Checkpoint,
    advance,
    covering_staged,
    load,
    overwrite,
    repair_command,
    unless_only_a_start,
)
from airflow_provider_binlog.errors import (
    BinlogError,
    CheckpointMissingError,
    ForeignPositionError,
    PositionPurgedError,
)
from airflow_provider_binlog.hooks.failures import fail_unless_retryable, naming_repairs
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import RendersSource, name_run, now, pass_to_outlets
from airflow_provider_binlog.hooks.variables import AirflowVariableStore, checkpoint_key
from airflow_provider_binlog.limits import Limits, read_limits
from airflow_provider_binlog.operators.source_log import open_log
from airflow_provider_binlog.operators.staged import report_staged, warn_of_foreign_keys
from airflow_provider_binlog.operators.table_globs import GlobCheck, read_globs
from airflow_provider_binlog.snapshot_manifest import SNAPSHOTS
from airflow_provider_binlog.sources.binlog_source import (
    BeforeImagesChoice,
    BinlogSource,
    OnTableErrorChoice,
    check_choice,
    read_source,
)
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_provider_binlog.capture import Extracted, ExtractRequest
    from airflow_provider_binlog.checkpoint import CheckpointStore
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.sources.log import Log
    from airflow_provider_binlog.sources.state import Start
    from airflow_provider_binlog.staging.object_store import ObjectStore


class BinlogExtractOperator(RendersSource, BaseOperator):
    """Stage the changes between the checkpoint and the end of the log as Parquet files.

    The range stops where the log ends when the task starts, so the task ends too. A retry reuses
    the manifests that an earlier try committed, and stages what follows them; if the server has
    purged its log there meanwhile, it passes on those manifests alone. The task does not
    move the checkpoint: that is what the
    :class:`~airflow_provider_binlog.operators.checkpoint.BinlogCheckpointOperator` is for. Only the
    first run saves one, at its start.

    Returns ``{"source", "staging_path", "first_sequence", "last_sequence", "start", "stop",
    "manifests", "rows", "changes", "tables", "quarantined", "identity", "checkpoint"}``: positions,
    counts and names, never data. ``quarantined`` has the position and the reason of each table that
    is left out. The asset event of every outlet carries the same. Skips if there is
    nothing to stage. Only a first run that snapshots wait for stages a range without changes.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` to read. (templated)
    :param staging_path: Where the files are written, ``s3://conn_id@bucket/prefix`` or
        ``file:///data/staging``; anything that Airflow's ObjectStoragePath takes. (templated)
    :param tables: Globs of ``database.table`` to capture. (templated)
    :param exclude: Globs of tables among them to leave out. (templated)
    :param start: Where the first run begins, in place of the source's ``start``: the sensor's
        output. Ignored once something is staged. (templated)
    :param stop: Where the range stops: a position ``file:offset`` or a GTID set; by default the end
        of the log. (templated)
    :param before_images: ``"key_changes"`` stages an update's before-image if the key changed,
        which is all a merge needs; ``"all"`` stages every one.
    :param on_table_error: What concerns one table only, such as a value or a type that cannot be
        decoded: ``"quarantine"`` leaves its changes out of the range, which the manifest, the
        task's log and the merge report, and stages the others; ``"fail"`` fails the task.
    :param limits: :class:`~airflow_provider_binlog.Limits` of memory and of the files' sizes.
    """

    template_fields: Sequence[str] = (
        "source",
        "staging_path",
        "tables",
        "exclude",
        "start",
        "stop",
    )
    template_fields_renderers = dict.fromkeys(("source", "tables", "exclude", "start"), "json")
    ui_color = "#bfe0ec"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        tables: Sequence[str],
        exclude: Sequence[str] = (),
        start: Start | XComArg | None = None,
        stop: str | None = None,
        before_images: BeforeImagesChoice = "key_changes",
        on_table_error: OnTableErrorChoice = "quarantine",
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.tables = tables
        self.exclude = exclude
        self.start: Any = start
        self.stop = stop
        self.before_images = before_images
        self.on_table_error = on_table_error
        self.limits = limits

    def execute(self, context: Context) -> dict[str, Any]:
        """Stage what there is; see the class.

        Raises:
            AirflowSkipException: There is nothing to stage.
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            staged = self._stage(name_run(context))
        pass_to_outlets(self, context, staged)
        return staged

    def _stage(self, run: str) -> dict[str, Any]:
        source = read_source(self.source)
        self._check()
        store = open_store(self.staging_path)
        with naming_repairs(source, self.staging_path), closing(open_log(source)) as log:
            log.check()
            self.log.info("%s: %s", source.name, log.describe())
            try:
                checkpoint, request = self._request(source, log, store, run)
                extracted = self._extract(request, log, store)
            except (PositionPurgedError, ForeignPositionError) as error:
                checkpoint, extracted = self._reuse(source, store, run, error)
                request = None
            staged = report_staged(self.log, extracted, checkpoint, source.name, self.staging_path)
            if request is not None:
                # After the staging, which a server that is slow to answer must not hold up.
                warn_of_foreign_keys(self.log, log, request, extracted)
        return staged

    def _check(self) -> None:
        """Raise ConfigurationError if an argument cannot be used as given."""
        read_globs(self.tables, "tables")
        read_globs(self.exclude, "exclude")
        check_choice(BeforeImagesChoice, self.before_images, "before_images")
        check_choice(OnTableErrorChoice, self.on_table_error, "on_table_error")
        read_limits(self.limits)

    def _request(
        self, source: BinlogSource, log: Log, store: ObjectStore, run: str
    ) -> tuple[Checkpoint, ExtractRequest]:
        """Return the checkpoint, saved on the first run, and what to stage after it."""
        key, start = checkpoint_key(source.name), self.start or source.start
        saved = AirflowVariableStore()
        # The server may have purged what is staged, though it is not merged yet.
        checkpoint = load(saved, key)
        staged = covering_staged(checkpoint, ManifestLog(store, source.name))
        state = log.read_state(unless_only_a_start(staged, start), start=start)
        if checkpoint is None or state.checkpoint is None:
            checkpoint = first_checkpoint(
                saved,
                store,
                source=source.name,
                identity=state.identity,
                start=state.start or log.resolve(start or {}),
                saved_by=run,
            )
        request = self._request_from(checkpoint, source, run)
        log.check_databases(request.tables.may_capture_from, request.tables.databases)
        stop = log.resolve(self.stop) if self.stop else state.log_end
        begin = state.checkpoint or checkpoint
        here = begin.identity == state.identity
        return checkpoint, replace(
            request,
            stop=stop,
            identity=state.identity,
            find_gtids=log.resolve,
            read_server_tables=log.read_server_tables,
            wants_defaults=log.logs_partial_images(),
            bytes_total=log.bytes_between(begin.position, stop) if here else None,
            on_progress=partial(self.log.info, "%s: %s", source.name),
        )

    def _request_from(
        self, checkpoint: Checkpoint, source: BinlogSource, run: str
    ) -> ExtractRequest:
        """Return a request for what is staged after a checkpoint, but for its stop."""
        from airflow_provider_binlog.capture import ExtractRequest, TableFilter

        return ExtractRequest(
            checkpoint.position,
            checkpoint.position,
            identity=checkpoint.identity,
            issued_by=checkpoint.identity,
            sequence=checkpoint.sequence + 1,
            tables=TableFilter(
                read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude")
            ),
            source_name=source.name,
            before_images=BeforeImages(self.before_images),
            on_table_error=OnTableError(self.on_table_error),
            created_by=run,
            limits=read_limits(self.limits),
            policies=Policies(ZeroDates(source.zero_dates), InvalidText(source.invalid_text)),
        )

    def _reuse(
        self, source: BinlogSource, store: ObjectStore, run: str, error: BinlogError
    ) -> tuple[Checkpoint, Extracted]:
        """Return what is staged already; raise the error if nothing is.

        What is committed is merged, whether or not the log continues. Then the next run fails.
        """
        from airflow_provider_binlog.capture import reuse

        checkpoint = load(AirflowVariableStore(), checkpoint_key(source.name))
        if checkpoint is None:
            raise error
        extracted = reuse(self._request_from(checkpoint, source, run), store)
        if not extracted.manifests:
            raise error
        self.log.warning(
            "%s: only what earlier tries staged is passed on, and the next run will fail: %s",
            source.name,
            error,
        )
        return checkpoint, extracted

    def _extract(self, request: ExtractRequest, log: Log, store: ObjectStore) -> Extracted:
        from airflow_provider_binlog.capture import extract

        name, start, stop = request.source_name, request.start, request.stop
        self.log.info("%s: staging from %s to %s", name, start, stop)
        check = GlobCheck(name, log, request.tables, self.log)
        # Snapshots of a server on which nothing happens wait for the first manifest.
        waited_for = request.sequence == 1 and bool(
            store.list(f"{source_folder(name)}/{SNAPSHOTS}")
        )
        request = replace(request, on_tables=check, even_empty=waited_for)
        extracted = extract(request, log, store)
        if not extracted.manifests:
            raise AirflowSkipException(f"nothing to stage between {start} and {stop}")
        return extracted


def first_checkpoint(
    checkpoints: CheckpointStore,
    store: ObjectStore,
    *,
    source: str,
    identity: SourceIdentity,
    start: Position,
    saved_by: str,
) -> Checkpoint:
    """Save where the first run begins, before anything is staged, and return it.

    Once something is staged the start is fixed: a retry, and every later run, begins at it.

    Raises:
        CheckpointMissingError: The source has manifests already, so that this is not its first
            run: its checkpoint was lost, and can be rebuilt from them.
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
    first = Checkpoint(
        identity=identity,
        position=start,
        sequence=0,
        saved_at=now(),
        saved_by=saved_by,
    )
    key = checkpoint_key(source)
    previous = load(checkpoints, key)
    if previous is None:
        advance(checkpoints, key, expected=None, new=first)
    elif not first.same_position(previous):
        overwrite(checkpoints, key, first)
    return first
