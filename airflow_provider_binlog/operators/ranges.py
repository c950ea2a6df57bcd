"""A range of a log as the tasks that stage it share it: arguments, request, report."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

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
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import reach
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    RendersObjects,
    checkpoint_key,
    now,
)
from airflow_provider_binlog.limits import Limits, read_limits
from airflow_provider_binlog.operators.arguments import read_globs
from airflow_provider_binlog.sources.binlog_files import find_files
from airflow_provider_binlog.sources.binlog_source import (
    BeforeImagesChoice,
    BinlogSource,
    OnTableErrorChoice,
    check_choice,
    read_source,
)
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import manifest_folder, manifest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_provider_binlog.capture import Extracted, ExtractRequest, TableFilter
    from airflow_provider_binlog.checkpoint import CheckpointStore
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.sources.state import Log, Start
    from airflow_provider_binlog.staging.object_store import ObjectStore

_SHOWN = 50


def open_log(source: BinlogSource, *, server_id: int | None = None) -> Log:
    """Return a source's log, on a server or in files; the caller closes it.

    With `server_id`, a server knows us by it.

    Raises:
        ConfigurationError: The connection cannot be used, or there are no such files.
        StagingError: The store of the files cannot be reached.
    """
    # Here, so that parsing a DAG loads neither NumPy nor Arrow.
    from airflow_provider_binlog.sources.file_log import FileLog
    from airflow_provider_binlog.sources.server_log import ServerLog

    if source.files is None:
        settings = BinlogHook(source.conn_id).settings
        if server_id is not None:
            settings = replace(settings, server_id=server_id)
        return ServerLog(settings, failover=source.failover)
    return FileLog(find_files(source.files, reach))


class RangeOperator(RendersObjects, BaseOperator):
    """Operator on a range of the log: its arguments, which `BinlogExtractOperator` describes."""

    template_fields: Sequence[str] = (
        "source",
        "staging_path",
        "tables",
        "exclude",
        "start",
        "stop",
    )
    template_fields_renderers = dict.fromkeys(("source", "tables", "exclude", "start"), "json")

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


@dataclass(frozen=True, kw_only=True)
class RangeArguments:
    """Arguments of a task that stages a range or plans its sub-ranges, checked.

    Attributes:
        source: As the task has it.
        start: Where the first run starts.
        stop: Where the range stops; None for the end of the log.
        tables, exclude: Globs.
        before_images, on_table_error, limits: As the request has them.
        run: The run of the task.
        logger: The task's.
    """

    source: BinlogSource
    start: Any
    stop: str | None
    tables: tuple[str, ...]
    exclude: tuple[str, ...]
    before_images: BeforeImages
    on_table_error: OnTableError
    limits: Limits
    run: str
    logger: Any

    @classmethod
    def of(cls, task: RangeOperator, run: str) -> RangeArguments:
        """Return the arguments of an extract or plan operator.

        Raises:
            ConfigurationError: An argument cannot be used as given.
        """
        source = read_source(task.source)
        check_choice(BeforeImagesChoice, task.before_images, "before_images")
        check_choice(OnTableErrorChoice, task.on_table_error, "on_table_error")
        return cls(
            source=source,
            start=task.start or source.start,
            stop=task.stop or None,
            tables=read_globs(task.tables, "tables"),
            exclude=read_globs(task.exclude, "exclude"),
            before_images=BeforeImages(task.before_images),
            on_table_error=OnTableError(task.on_table_error),
            limits=read_limits(task.limits),
            run=run,
            logger=task.log,
        )

    def request_from(self, checkpoint: Checkpoint) -> ExtractRequest:
        """Return a request for what is staged after a checkpoint, without its stop."""
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.capture import ExtractRequest, TableFilter

        policies = Policies(
            ZeroDates(self.source.zero_dates), InvalidText(self.source.invalid_text)
        )
        return ExtractRequest(
            checkpoint.position,
            checkpoint.position,
            identity=checkpoint.identity,
            issued_by=checkpoint.identity,
            sequence=checkpoint.sequence + 1,
            tables=TableFilter(self.tables, self.exclude),
            source_name=self.source.name,
            before_images=self.before_images,
            on_table_error=self.on_table_error,
            created_by=self.run,
            limits=self.limits,
            policies=policies,
        )

    def request(self, log: Log, store: ObjectStore) -> tuple[Checkpoint, ExtractRequest]:
        """Return the checkpoint, saved on the first run, and the range to stage after it.

        Raises:
            PositionPurgedError, ForeignPositionError: The log lacks the position of the checkpoint,
                or is of another server.
            CheckpointMissingError: The checkpoint was lost.
        """
        name, variables = self.source.name, AirflowVariableStore()
        checkpoint = load(variables, checkpoint_key(name))
        # The server may have purged what is staged, though it is not merged yet.
        staged = covering_staged(checkpoint, ManifestLog(store, name))
        state = log.read_state(unless_only_a_start(staged, self.start), start=self.start)
        if checkpoint is None or state.checkpoint is None:
            checkpoint = save_first_checkpoint(
                variables,
                store,
                source=name,
                identity=state.identity,
                start=state.start or log.resolve(self.start or {}),
                saved_by=self.run,
            )
        request = self.request_from(checkpoint)
        log.check_databases(request.tables.may_capture_from, request.tables.databases)
        stop = log.resolve(self.stop) if self.stop else state.log_end
        read_from = state.checkpoint or checkpoint
        is_here = read_from.identity == state.identity
        return checkpoint, replace(
            request,
            stop=stop,
            identity=state.identity,
            find_gtids=log.resolve,
            read_server_tables=log.read_server_tables,
            wants_defaults=log.logs_partial_images(),
            bytes_total=log.bytes_between(read_from.position, stop) if is_here else None,
            on_progress=partial(self.logger.info, "%s: %s", name),
            on_tables=check_globs(self.logger, name, request.tables, log.table_names),
        )


def save_first_checkpoint(
    checkpoints: CheckpointStore,
    store: ObjectStore,
    *,
    source: str,
    identity: SourceIdentity,
    start: Position,
    saved_by: str,
) -> Checkpoint:
    """Save where the first run starts, before anything is staged, and return it.

    Once something is staged the start is fixed, for a retry and for every later run.

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


def check_globs(
    logger: Any, source: str, tables: TableFilter, table_names: Callable[[], Collection[TableName]]
) -> Callable[[int, Collection[TableName]], None]:
    """Return a check of the globs against the tables that were logged, before a manifest's commit.

    Args:
        logger: The task's.
        source: Its name.
        tables: The globs.
        table_names: Returns the tables that the account sees on the server.
    """

    def check(sequence: int, logged: Collection[TableName]) -> None:
        is_first = sequence == 1
        matches = tables.match_names(logged, table_names, is_first=is_first)
        if is_first:
            names = sorted(matches.captured)
            shown = ", ".join(map(".".join, names[:_SHOWN])) or "none yet"
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            logger.info("%s: captures %d tables: %s%s", source, len(names), shown, more)
        if not matches.unmatched:
            return
        text, globs = (
            (
                "globs match no table of the log or of the server, including lettercase: correct "
                "them, or GRANT SELECT on the tables to the account, which sees no others"
            ),
            ", ".join(matches.unmatched),
        )
        if matches.is_misspelled:
            raise ConfigurationError(text, globs=globs)
        logger.warning("%s: %s (globs=%s)", source, text, globs)

    return check


def report_staged(
    logger: Any, extracted: Extracted, checkpoint: Checkpoint, name: str, staging_path: str
) -> dict[str, Any]:
    """Return what is staged after a checkpoint, for XCom, and log its warnings.

    Args:
        logger: The task's.
        extracted: What is staged; one manifest at least.
        checkpoint: The checkpoint before it.
        name: Of the source.
        staging_path: Of the task.
    """
    staged = _describe(extracted, checkpoint, name, staging_path)
    counts = staged["changes"] or "no changes"
    logger.info("%s: staged up to %s: %s", name, extracted.stop, counts)
    if prepared := extracted.manifests[-1].prepared:
        logger.warning(
            "%s: %d prepared XA transactions are in doubt: until they are committed or rolled "
            "back, the server must keep its log from %s on",
            name,
            len(prepared),
            prepared[0].file,
        )
    for table, quarantine in staged["quarantined"].items():
        logger.warning(
            "%s: %s is quarantined, for the event at %s, and has to be reloaded: %s",
            name,
            table,
            quarantine["position"],
            quarantine["reason"],
        )
    return staged


def warn_of_foreign_keys(
    logger: Any, log: Log, request: ExtractRequest, extracted: Extracted
) -> None:
    """Warn of foreign keys that change captured rows without an event in the log."""
    staged = (table for manifest in extracted.manifests for table in manifest.tables)
    logged = {(table.database, table.table) for table in staged}
    if foreign_keys := str(log.unlogged_foreign_keys(request.tables.matches, logged)):
        logger.warning(
            "%s: foreign keys that change captured rows without an event in the log, so that "
            "the lake keeps their previous values: %s",
            request.source_name,
            foreign_keys,
        )


def _describe(
    extracted: Extracted, checkpoint: Checkpoint, name: str, staging_path: str
) -> dict[str, Any]:
    manifests = extracted.manifests
    folder = f"{staging_path.rstrip('/')}/{manifest_folder(name)}"
    changes: Counter[str] = Counter()
    tables: Counter[str] = Counter()
    quarantined: dict[str, dict[str, str]] = {}
    for manifest in manifests:
        for table in manifest.quarantined:
            quarantine = {"position": table.position, "reason": table.reason}
            quarantined.setdefault(f"{table.database}.{table.table}", quarantine)
        for staged in manifest.tables:
            changes.update(staged.changes)
            tables[f"{staged.database}.{staged.table}"] += staged.rows
    return {
        "source": name,
        "staging_path": staging_path,
        "first_sequence": manifests[0].sequence,
        "last_sequence": manifests[-1].sequence,
        "start": extracted.start.to_json(),
        "stop": extracted.stop.to_json(),
        "manifests": [f"{folder}/{manifest_name(manifest.sequence)}" for manifest in manifests],
        "rows": changes.total(),
        "changes": dict(changes),
        "tables": dict(tables),
        "quarantined": quarantined,
        "identity": manifests[-1].identity.to_json(),
        "checkpoint": json.loads(checkpoint.encode()),
    }
