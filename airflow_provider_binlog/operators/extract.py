"""Stage one bounded range of the log."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.changes import BeforeImages, InvalidText, ZeroDates
from airflow_provider_binlog.checkpoint import Checkpoint, advance
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.binlog_files import find_files
from airflow_provider_binlog.hooks.object_storage import open_store, reach
from airflow_provider_binlog.hooks.retries import fail_unless_retryable
from airflow_provider_binlog.hooks.runs import name_run, now
from airflow_provider_binlog.hooks.standing import REFUSE
from airflow_provider_binlog.hooks.variables import AirflowVariableStore, checkpoint_key
from airflow_provider_binlog.operators.logs import ServerLog
from airflow_provider_binlog.rows.policies import Policies
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import manifest_folder, manifest_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import StrEnum

    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_provider_binlog.capture import Extracted, Progress, TableFilter
    from airflow_provider_binlog.checkpoint import CheckpointStore
    from airflow_provider_binlog.hooks.start import Start
    from airflow_provider_binlog.limits import Limits
    from airflow_provider_binlog.operators.logs import Log
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.staging.object_store import ObjectStore


_Choice = TypeVar("_Choice", bound="StrEnum")


class BinlogExtractOperator(BaseOperator):
    """Stage the changes between the checkpoint and the end of the log as Parquet files.

    The range ends where the log ends when the task starts, so the task ends too. A retry finds what
    an earlier try sealed and goes on behind it. The checkpoint stays where it is: moving it is the
    :class:`~airflow_provider_binlog.operators.checkpoint.BinlogCheckpointOperator`'s. Only the very
    first run saves one, at ``start``.

    Returns ``{"source", "staging_path", "first_sequence", "last_sequence", "start", "stop",
    "manifests", "rows", "changes", "tables", "identity", "checkpoint"}``: positions, counts and
    names, never data. The same stands in the asset event of every outlet. Skips where there is
    nothing to stage.

    :param source: The source's name: its folder in the staging area and its checkpoint. (templated)
    :param staging_path: Where the files go, ``s3://conn_id@bucket/prefix`` or
        ``file:///data/staging``; anything that Airflow's ObjectStoragePath takes. (templated)
    :param tables: Globs of ``database.table`` to capture. (templated)
    :param exclude: Globs of those of them to leave out. (templated)
    :param start: Where the very first run begins; the sensor's output, or what the sensor takes.
        Not looked at once there is a checkpoint. (templated)
    :param stop: Where the range ends: a position ``file:offset`` or a GTID set; by default the end
        of the log. (templated)
    :param binlog_conn_id: Id of a connection of type ``binlog``. (templated)
    :param binlog_files: Read files instead of a server: a folder, a glob of file names or a list of
        files, anywhere that Airflow's ObjectStoragePath reaches, as the server wrote them or
        compressed (``.gz``, ``.zst``). The range then ends with the last whole transaction in them,
        and no connection is looked at. (templated)
    :param before_images: ``"key_changes"`` stages an update's before-image where the key changed,
        which is all a merge needs; ``"all"`` stages every one.
    :param zero_dates: What becomes of dates that are none, such as ``0000-00-00``: ``"null"``
        stages null and counts them in the manifest, ``"fail"`` refuses them, ``"text"`` stages
        every DATE, DATETIME and TIMESTAMP as the text that ``SELECT`` prints.
    :param invalid_text: What becomes of bytes that are no text in their column's character set:
        ``"fail"`` refuses them, ``"replace"`` stages U+FFFD and counts the values, ``"binary"``
        stages every column of text as bytes.
    :param limits: Sizes of files and memory, the fields of ``capture.Limits`` by name.
    :param failover: What to do where the checkpoint belongs to another server than the connection
        leads to: ``"refuse"``, or ``"follow"`` it to where its GTIDs end in this server's log. Say
        the same to the sensor. (templated)
    """

    template_fields: Sequence[str] = (
        "source",
        "staging_path",
        "tables",
        "exclude",
        "start",
        "stop",
        "binlog_conn_id",
        "binlog_files",
        "failover",
    )
    template_fields_renderers = {"tables": "json", "exclude": "json", "start": "json"}  # noqa: RUF012
    ui_color = "#bfe0ec"

    def __init__(
        self,
        *,
        source: str,
        staging_path: str,
        tables: Sequence[str],
        exclude: Sequence[str] = (),
        start: Start | XComArg | None = None,
        stop: str | None = None,
        binlog_conn_id: str = BinlogHook.default_conn_name,
        binlog_files: str | Sequence[str] | None = None,
        before_images: str = BeforeImages.KEY_CHANGES.value,
        zero_dates: str = ZeroDates.NULL.value,
        invalid_text: str = InvalidText.FAIL.value,
        limits: dict[str, int] | None = None,
        failover: str = REFUSE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.tables = tables
        self.exclude = exclude
        self.start: Any = start
        self.stop = stop
        self.binlog_conn_id = binlog_conn_id
        self.binlog_files = binlog_files
        self.before_images = before_images
        self.zero_dates = zero_dates
        self.invalid_text = invalid_text
        self.limits = limits
        self.failover = failover

    def execute(self, context: Context) -> dict[str, Any]:
        """Stage what there is; see the class.

        Raises:
            AirflowSkipException: There is nothing to stage.
            AirflowFailException: What is wrong would be wrong again.
        """
        with fail_unless_retryable():
            staged = self._extract(name_run(context))
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = staged
        return staged

    def _extract(self, run: str) -> dict[str, Any]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.capture import ExtractRequest, TableFilter, extract

        tables = TableFilter(read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude"))
        before_images = _read_choice(BeforeImages, self.before_images, "before_images")
        policies = Policies(
            _read_choice(ZeroDates, self.zero_dates, "zero_dates"),
            _read_choice(InvalidText, self.invalid_text, "invalid_text"),
        )
        limits = self._read_limits()
        log, store = self._open_log(), open_store(self.staging_path)
        log.check()
        key = checkpoint_key(self.source)
        standing = log.look(AirflowVariableStore(), key, start=self.start)
        checkpoint = standing.checkpoint or first_checkpoint(
            AirflowVariableStore(),
            store,
            source=self.source,
            identity=standing.identity,
            start=standing.start or log.resolve(self.start),
            saved_by=run,
        )
        stop = log.resolve(self.stop) if self.stop else standing.log_end
        here = checkpoint.identity == standing.identity
        bytes_total = log.bytes_between(checkpoint.position, stop) if here else None
        self.log.info("%s: staging from %s to %s", self.source, checkpoint.position, stop)
        with closing(log.source(standing, checkpoint.position)) as source:
            request = ExtractRequest(
                checkpoint.position,
                stop,
                identity=standing.identity,
                issued_by=checkpoint.identity,
                find_gtids=log.resolve,
                sequence=checkpoint.sequence + 1,
                tables=tables,
                source_name=self.source,
                before_images=before_images,
                created_by=run,
                limits=limits,
                policies=policies,
                read_server_tables=log.read_server_tables,
                wants_defaults=log.lacks_columns(),
                bytes_total=bytes_total,
                on_progress=self._log_progress,
            )
            extracted = extract(request, source, store)
        if not extracted.manifests:
            raise AirflowSkipException(f"nothing to stage between {checkpoint.position} and {stop}")
        staged = self._describe(extracted, checkpoint)
        counts = staged["changes"] or "no changes"
        self.log.info("%s: staged up to %s: %s", self.source, extracted.stop, counts)
        self._warn_of_foreign_keys(log, tables, extracted)
        if prepared := extracted.manifests[-1].prepared:
            self.log.warning(
                "%s: %d prepared XA transactions are not decided: until they are, the server must "
                "keep its log from %s on",
                self.source,
                len(prepared),
                prepared[0].file,
            )
        return staged

    def _warn_of_foreign_keys(self, log: Log, tables: TableFilter, extracted: Extracted) -> None:
        staged = (table for manifest in extracted.manifests for table in manifest.tables)
        logged = {(table.database, table.table) for table in staged}
        # Behind the staging, which a server that is slow to answer must not hold up.
        if found := str(log.unlogged_foreign_keys(tables.matches, logged)):
            self.log.warning(
                "%s: foreign keys that change captured rows of which the server logs nothing, so "
                "that they stay as they were in the lake: %s",
                self.source,
                found,
            )

    def _open_log(self) -> Log:
        if not self.binlog_files:
            settings = BinlogHook(self.binlog_conn_id).settings
            return ServerLog(settings, failover=self.failover)
        from airflow_provider_binlog.operators.file_log import FileLog, describe_files

        files = find_files(self.binlog_files, reach)
        self.log.info("%s: %s", self.source, describe_files(files))
        return FileLog(files)

    def _read_limits(self) -> Limits:
        from airflow_provider_binlog.limits import Limits

        try:
            return Limits(**(self.limits or {}))
        except TypeError as error:
            known = ", ".join(each.name for each in fields(Limits))
            raise ConfigurationError(f"limits are {known}", given=self.limits) from error

    def _log_progress(self, progress: Progress) -> None:
        self.log.info("%s: %s", self.source, progress)

    def _describe(self, extracted: Extracted, checkpoint: Checkpoint) -> dict[str, Any]:
        manifests = extracted.manifests
        folder = f"{self.staging_path.rstrip('/')}/{manifest_folder(self.source)}"
        changes: Counter[str] = Counter()
        tables: Counter[str] = Counter()
        for table in (table for manifest in manifests for table in manifest.tables):
            changes.update(table.changes)
            tables[f"{table.database}.{table.table}"] += table.rows
        return {
            "source": self.source,
            "staging_path": self.staging_path,
            "first_sequence": manifests[0].sequence,
            "last_sequence": manifests[-1].sequence,
            "start": extracted.start.to_json(),
            "stop": extracted.stop.to_json(),
            "manifests": [f"{folder}/{manifest_name(each.sequence)}" for each in manifests],
            "rows": changes.total(),
            "changes": dict(changes),
            "tables": dict(tables),
            "identity": manifests[-1].identity.to_json(),
            "checkpoint": json.loads(checkpoint.encode()),
        }


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

    From here on the start is no choice any more: a retry, and every later run, begins at it.

    Raises:
        CheckpointMissingError: The source has manifests already, so that this is not its first
            run: its checkpoint was lost, and is rebuilt from them.
    """
    latest = ManifestLog(store, source).latest()
    if latest is not None:
        raise CheckpointMissingError(
            "there is no checkpoint, yet changes of this source are staged: put it back with "
            f"`airflow binlog checkpoint set {source} --from-manifests STAGING_PATH`, "
            "or stage under another name",
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
    advance(checkpoints, checkpoint_key(source), expected=None, new=first)
    return first


def _read_choice(choices: type[_Choice], value: str, name: str) -> _Choice:
    try:
        return choices(value)
    except ValueError as error:
        known = ", ".join(each.value for each in choices)
        raise ConfigurationError(f"{name} is one of {known}", given=value) from error


def read_globs(value: Any, name: str) -> tuple[str, ...]:
    """Return globs given as a list; one text alone would be read letter by letter.

    Raises:
        ConfigurationError: It is no list of texts.
    """
    globs = () if value is None else value
    if not isinstance(globs, list | tuple) or not all(isinstance(each, str) for each in globs):
        raise ConfigurationError(f"{name} is a list of globs such as shop.*", given=value)
    return tuple(globs)
