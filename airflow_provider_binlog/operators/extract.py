"""Stage one bounded range of the log, or archive its files, and move the checkpoint."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.checkpoint import Checkpoint, advance, load
from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
)
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    RendersObjects,
    checkpoint_key,
    fail_unless_retryable,
    name_run,
    naming_repair_command,
    naming_repairs,
    now,
    pass_to_outlets,
)
from airflow_provider_binlog.operators.ranges import (
    RangeArguments,
    RangeOperator,
    open_log,
    report_staged,
    warn_of_foreign_keys,
)
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.snapshot_manifest import SNAPSHOTS
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_provider_binlog.capture import Extracted, ExtractRequest
    from airflow_provider_binlog.sources.binlog_source import (
        BinlogSource,
    )
    from airflow_provider_binlog.sources.state import Log
    from airflow_provider_binlog.staging.object_store import ObjectStore


class BinlogExtractOperator(RangeOperator):
    """Stage the changes between the checkpoint and the end of the log as Parquet files.

    The range stops where the log ends when the task starts, so the task ends too. A retry reuses
    the manifests that an earlier try committed, and stages what follows them; if the server has
    purged its log there meanwhile, it passes on those manifests alone. The task does not
    move the checkpoint: that is what the
    :class:`~airflow_provider_binlog.operators.extract.BinlogCheckpointOperator` is for. Only the
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

    ui_color = "#bfe0ec"

    def execute(self, context: Context) -> dict[str, Any]:
        """Stage a range; see the class.

        Raises:
            AirflowSkipException: There is nothing to stage.
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            staged = self._stage(name_run(context))
        pass_to_outlets(self, context, staged)
        return staged

    def _stage(self, run: str) -> dict[str, Any]:
        arguments = RangeArguments.of(self, run)
        source, store = arguments.source, open_store(self.staging_path)
        with naming_repairs(source, self.staging_path), closing(open_log(source)) as log:
            log.check()
            self.log.info("%s: %s", source.name, log.describe())
            try:
                checkpoint, request = arguments.request(log, store)
                extracted = self._extract(request, log, store)
            except (PositionPurgedError, ForeignPositionError) as error:
                checkpoint, extracted = self._reuse(arguments, store, error)
                request = None
            staged = report_staged(self.log, extracted, checkpoint, source.name, self.staging_path)
            if request is not None:
                # After the staging, which a server that is slow to answer must not hold up.
                warn_of_foreign_keys(self.log, log, request, extracted)
        return staged

    def _reuse(
        self, arguments: RangeArguments, store: ObjectStore, error: BinlogError
    ) -> tuple[Checkpoint, Extracted]:
        """Return what is staged already; raise the error if nothing is.

        What is committed is merged, whether or not the log continues. Then the next run fails.
        """
        from airflow_provider_binlog.capture import reuse

        name = arguments.source.name
        checkpoint = load(AirflowVariableStore(), checkpoint_key(name))
        if checkpoint is None:
            raise error
        extracted = reuse(arguments.request_from(checkpoint), store)
        if not extracted.manifests:
            raise error
        self.log.warning(
            "%s: only what earlier tries staged is passed on, and the next run will fail: %s",
            name,
            error,
        )
        return checkpoint, extracted

    def _extract(self, request: ExtractRequest, log: Log, store: ObjectStore) -> Extracted:
        from airflow_provider_binlog.capture import extract

        name, start, stop = request.source_name, request.start, request.stop
        self.log.info("%s: staging from %s to %s", name, start, stop)
        # Snapshots of a server on which nothing happens wait for the first manifest.
        has_snapshots = request.sequence == 1 and bool(
            store.list(f"{source_folder(name)}/{SNAPSHOTS}")
        )
        extracted = extract(replace(request, even_empty=has_snapshots), log, store)
        if not extracted.manifests:
            raise AirflowSkipException(f"nothing to stage between {start} and {stop}")
        return extracted


class BinlogCheckpointOperator(BaseOperator):
    """Move a source's checkpoint past what was staged.

    In a DAG that stages and merges, it follows the merge; if other DAGs merge what one DAG stages,
    it follows the extract. Neither loses changes: a merge relies on the applied mark of its own
    tables. The task does nothing if the checkpoint covers what was staged already, and fails if it
    is not where the extract has read it.

    Returns the checkpoint's ``{"source", "position", "sequence"}``.

    :param staged: What the extract operator returned, ``extract.output``. (templated)
    """

    template_fields: Sequence[str] = ("staged",)
    template_fields_renderers = {"staged": "json"}  # noqa: RUF012
    ui_color = "#cfe8d5"

    def __init__(self, *, staged: Mapping[str, Any] | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staged: Any = staged

    def execute(self, context: Context) -> dict[str, Any]:
        """Move the checkpoint; see the class."""
        with fail_unless_retryable():
            source, saved = move_checkpoint(self.staged, saved_by=name_run(context))
        self.log.info("%s: the checkpoint is at %s", source, saved)
        return {"source": source, "position": saved.position.to_json(), "sequence": saved.sequence}


def move_checkpoint(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint]:
    """Move a checkpoint past what was staged; return the source's name, and the checkpoint.

    Raises:
        CheckpointError: It cannot be read, or was moved since the extract.
        ConfigurationError: `staged` is not what an extract returned.
    """
    source, expected, new = read_staged(staged, saved_by=saved_by)
    with naming_repair_command(source, staged.get("staging_path")):
        key = checkpoint_key(source)
        return source, advance(AirflowVariableStore(), key, expected=expected, new=new)


def read_staged(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint, Checkpoint]:
    """Return the source's name, the checkpoint before the extract, and the one to save.

    Raises:
        ConfigurationError: `staged` is not what an extract returned.
    """
    try:
        new = Checkpoint(
            identity=SourceIdentity.from_json(staged["identity"]),
            position=Position.from_json(staged["stop"]),
            sequence=int(staged["last_sequence"]),
            saved_at=now(),
            saved_by=saved_by,
        )
        expected = Checkpoint.decode(json.dumps(staged["checkpoint"]))
        return str(staged["source"]), expected, new
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"`staged` is what the extract operator returned: {error!r}"
        ) from error


class BinlogArchiveOperator(RendersObjects, BaseOperator):
    """Copy the closed binlog files of a server unchanged, compressed with zstd.

    Files that are in the archive already are not read again. The checksum of every event is
    verified, and the length of every file. A
    :class:`~airflow_provider_binlog.BinlogSource` with ``files=archive_path`` reads the copies as
    it reads the server's own files.

    Returns ``{"source", "archive_path", "files", "bytes"}``: the names of the files that were
    copied, and their bytes on the server.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose server to read.
        (templated)
    :param archive_path: Where the copies are written, a folder of their own on anything that
        Airflow's ObjectStoragePath takes. (templated)
    """

    template_fields: Sequence[str] = ("source", "archive_path")
    template_fields_renderers = {"source": "json"}  # noqa: RUF012
    ui_color = "#d8ecf3"

    def __init__(
        self, *, source: BinlogSource | Mapping[str, Any], archive_path: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.archive_path = archive_path

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002  Airflow's signature
        """Copy files that are not archived yet; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            return self._archive(read_source(self.source))

    def _archive(self, source: BinlogSource) -> dict[str, Any]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.sources.archive import archive_log
        from airflow_provider_binlog.sources.server_log import ServerLog
        from airflow_provider_binlog.transport.server import queries
        from airflow_provider_binlog.transport.stream.commands import file_created

        if source.files is not None:
            raise ConfigurationError("an archive is of a server's files: give conn_id")
        with closing(ServerLog(BinlogHook(source.conn_id).settings)) as log:
            log.check()
            flavor = log.flavor()
            with closing(log.connect()) as connection:
                logs = queries.binary_logs(connection)
            files, size = [], 0
            for copy in archive_log(
                logs,
                log,
                open_store(self.archive_path),
                created=lambda position: file_created(log.connect, flavor, position),
            ):
                self.log.info("%s: archived %s, %d bytes", source.name, copy.file, copy.bytes)
                files.append(copy.file)
                size += copy.bytes
        return {
            "source": source.name,
            "archive_path": self.archive_path,
            "files": files,
            "bytes": size,
        }
