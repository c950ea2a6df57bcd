"""Stage one bounded range of the log, and move the checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.definitions.xcom_arg import XComArg
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
    checkpoint_key,
    load,
)
from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
)
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.lineage import StagedLineage, StagesTables
from airflow_provider_binlog.hooks.metrics import send_staged
from airflow_provider_binlog.hooks.object_storage import open_store, reach
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    RendersObjects,
    fail_unless_retryable,
    name_run,
    naming_repair_command,
    naming_repairs,
    pass_to_outlets,
    show_position,
)
from airflow_provider_binlog.limits import Limits, read_limits
from airflow_provider_binlog.operators.arguments import (
    check_staged,
    read_columns,
    read_globs,
)
from airflow_provider_binlog.operators.links import SOURCE_LINKS, BinlogManifestLink
from airflow_provider_binlog.operators.table_notes import describe_staged
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.read_progress import PacedProgress
from airflow_provider_binlog.schema import ends_by_reload
from airflow_provider_binlog.sources.binlog_files import find_files
from airflow_provider_binlog.sources.binlog_source import (
    BeforeImagesChoice,
    BinlogSource,
    OnTableErrorChoice,
    check_choice,
    read_source,
)
from airflow_provider_binlog.sources.state import Log, Start
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import (
    manifest_folder,
    manifest_name,
)
from airflow_provider_binlog.stored_json import utc_now
from airflow_provider_binlog.table_options import TableOptions

if TYPE_CHECKING:
    from airflow_provider_binlog.capture.extract import Extracted
    from airflow_provider_binlog.capture.log_range import ExtractRequest
    from airflow_provider_binlog.manifest import Manifest


def open_log(source: BinlogSource, *, draws_server_id: bool = False, follows: bool = False) -> Log:
    """Return a source's log; close it.

    With `draws_server_id`, others read it at the same time: the connection's id is not used. One
    that `follows` reads consecutive ranges over one connection.
    """
    from airflow_provider_binlog.sources.file_log import FileLog
    from airflow_provider_binlog.sources.server_log import ServerLog

    if source.files is None:
        settings = BinlogHook(source.conn_id).settings
        if draws_server_id:
            settings = replace(settings, server_id=None)
        return ServerLog(settings, failover=source.failover, follows=follows)
    return FileLog(find_files(source.files, reach))


class RangeOperator(StagesTables, RendersObjects, BaseOperator):
    """Operator on a range of the log; `BinlogExtractOperator` describes the arguments."""

    operator_extra_links: tuple[BaseOperatorLink, ...] = SOURCE_LINKS

    template_fields: Sequence[str] = (
        "source", "staging_path", "tables", "exclude", "options", "start", "stop",
    )  # fmt: skip
    template_fields_renderers = dict.fromkeys(("source", "tables", "exclude", "start"), "json")

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        tables: Sequence[str],
        exclude: Sequence[str] = (),
        options: Mapping[str, TableOptions | Mapping[str, Any]] | None = None,
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
        self.options = options
        self.start: Any = start
        self.stop = stop
        self.before_images = before_images
        self.on_table_error = on_table_error
        self.limits = limits

    @contextmanager
    def opened(self, source: BinlogSource, *, follows: bool = False) -> Iterator[Log]:
        """Open the source's log, and check its server's settings; see `open_log`."""
        opened = open_log(source, follows=follows)
        with naming_repairs(source, self.staging_path), closing(opened) as log:
            log.check()
            self.log.info("%s: %s", source.name, log.describe())
            self.lineage = StagedLineage(source.name, self.staging_path, log.address)
            yield log

    def note_lineage(self, manifests: Iterable[Manifest]) -> None:
        """Note what was staged, for OpenLineage."""
        if self.lineage is not None:
            self.lineage.add(manifests)

    def read_settings(self, run: str) -> tuple[BinlogSource, dict[str, Any]]:
        """Return the source, and the arguments of each `ExtractRequest` of the task.

        Raises:
            ConfigurationError: An argument cannot be used as given.
        """
        from airflow_provider_binlog.capture.log_range import TableFilter

        source = read_source(self.source)
        check_choice(BeforeImagesChoice, self.before_images, "before_images")
        check_choice(OnTableErrorChoice, self.on_table_error, "on_table_error")
        return source, {
            "source_name": source.name,
            "tables": TableFilter(
                read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude")
            ),
            "before_images": BeforeImages(self.before_images),
            "on_table_error": OnTableError(self.on_table_error),
            "limits": read_limits(self.limits),
            "policies": Policies(ZeroDates(source.zero_dates), InvalidText(source.invalid_text)),
            "columns": read_columns(source, self.options),
            "created_by": run,
        }

    def find_range(
        self, source: BinlogSource, settings: Mapping[str, Any], log: Log, store: ObjectStore
    ) -> tuple[Checkpoint, ExtractRequest]:
        """Return the checkpoint, saved on the first run, and the range: see `find_next_range`."""
        from airflow_provider_binlog.sources.next_range import find_next_range

        return find_next_range(
            log,
            store,
            AirflowVariableStore(),
            settings,
            start=self.start or source.start,
            stop=self.stop,
            on_progress=PacedProgress(partial(self.log.info, "%s: %s", source.name)),
            logger=self.log,
        )


def report_staged(
    logger: Any,
    extracted: Extracted,
    checkpoint: Checkpoint,
    name: str,
    staging_path: str,
    *,
    named: set[tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """Return what is staged after a checkpoint, one manifest at least, and log its warnings.

    `named` is that of `describe_staged`.
    """
    staged = count_staged(extracted, checkpoint, name, staging_path)
    logger.info("%s: staged up to %s: %s", name, extracted.stop, describe_counts(staged))
    send_staged(name, extracted.manifests, quarantined=len(staged["quarantined"]))
    for line in describe_staged(extracted.manifests, named):
        logger.warning("%s: %s", name, line)
    if prepared := extracted.manifests[-1].prepared:
        logger.warning(
            "%s: %d prepared XA transactions are in doubt: until they are committed or rolled "
            "back, the server must keep its log from %s on",
            name,
            len(prepared),
            prepared[0].file,
        )
    warn_of_quarantines(logger, name, staged["quarantined"])
    return staged


def count_staged(
    extracted: Extracted, checkpoint: Checkpoint, name: str, staging_path: str
) -> dict[str, Any]:
    """Return what is staged after a checkpoint, one manifest at least, in numbers and names."""
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


def join_counts(first: dict[str, Any], following: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `count_staged` says of two ranges, one after the other."""
    joined = first | {name: following[name] for name in ("last_sequence", "stop", "identity")}
    joined["manifests"] = [*first["manifests"], *following["manifests"]]
    joined["rows"] = first["rows"] + following["rows"]
    for name in ("changes", "tables"):
        joined[name] = dict(Counter(first[name]) + Counter(following[name]))
    joined["quarantined"] = following["quarantined"] | first["quarantined"]
    return joined


def describe_counts(staged: Mapping[str, Any]) -> str:
    """Return the changes that are staged, for people."""
    counts = [f"{count:,} {kind}" for kind, count in staged["changes"].items()]
    return f"{', '.join(counts)} in {len(staged['tables'])} tables" if counts else "no changes"


def warn_of_quarantines(
    logger: Any, name: str, quarantined: Mapping[str, Mapping[str, str]]
) -> None:
    """Warn of tables that are left out of a range."""
    for table_name, quarantine in quarantined.items():
        reloads = ends_by_reload(quarantine["reason"])
        logger.warning(
            "%s: %s is quarantined, for the event at %s%s: %s",
            name,
            table_name,
            quarantine["position"],
            ", and has to be reloaded" if reloads else "",
            quarantine["reason"],
        )


def describe_for_asset(staged: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the event of an asset says of what was staged: enough for a merge, and counts."""
    shown = ("source", "staging_path", "last_sequence", "rows", "tables", "quarantined")
    return {
        **{name: staged[name] for name in shown},
        **{name: show_position(staged[name]) for name in ("start", "stop")},
    }


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
    is left out. The asset event of every outlet carries what of it a merge needs or a person
    reads. Skips if there is nothing to stage. Where snapshots wait to be loaded, a range without
    changes is staged, too.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` to read. (templated)
    :param staging_path: Where the files are written, ``s3://conn_id@bucket/prefix`` or
        ``file:///data/staging``; anything that Airflow's ObjectStoragePath takes. (templated)
    :param tables: Globs of ``database.table`` to capture. (templated)
    :param exclude: Globs of tables among them to leave out. (templated)
    :param options: :class:`~airflow_provider_binlog.TableOptions` by globs of ``database.table``,
        as the merge operator has it. Read here are ``exclude_columns``, which are not staged, and
        ``hash_columns``, in place of whose values their HMAC-SHA-256 is. (templated)
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

    operator_extra_links = (*SOURCE_LINKS, BinlogManifestLink())
    ui_color = "#bfe0ec"
    staged: Mapping[str, Any] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Stage a range; see the class."""
        with fail_unless_retryable():
            self.staged = staged = self._stage(name_run(context))
        pass_to_outlets(self, context, describe_for_asset(staged))
        return staged

    def _stage(self, run: str) -> dict[str, Any]:
        source, settings = self.read_settings(run)
        store = open_store(self.staging_path)
        with self.opened(source) as log:
            try:
                checkpoint, request = self.find_range(source, settings, log, store)
                extracted = self._extract(request, log, store)
            except (PositionPurgedError, ForeignPositionError) as error:
                checkpoint, extracted = self._reuse(source.name, settings, store, error)
                request = None
            staged = report_staged(self.log, extracted, checkpoint, source.name, self.staging_path)
            self.note_lineage(extracted.manifests)
            if request is not None:
                # After the staging, which a server that is slow to answer must not hold up.
                warn_of_foreign_keys(self.log, log, request, extracted)
        return staged

    def _reuse(
        self, name: str, settings: Mapping[str, Any], store: ObjectStore, error: BinlogError
    ) -> tuple[Checkpoint, Extracted]:
        """Return what is staged already, which is merged; raise the error if nothing is."""
        from airflow_provider_binlog.capture.extract import reuse
        from airflow_provider_binlog.sources.next_range import request_after

        checkpoint = load(AirflowVariableStore(), checkpoint_key(name))
        if checkpoint is None:
            raise error
        extracted = reuse(request_after(checkpoint, settings), store)
        if not extracted.manifests:
            raise error
        self.log.warning(
            "%s: only what earlier tries staged is passed on, and the next run will fail: %s",
            name,
            error,
        )
        return checkpoint, extracted

    def _extract(self, request: ExtractRequest, log: Log, store: ObjectStore) -> Extracted:
        from airflow_provider_binlog.sources.next_range import stage

        name, start, stop = request.source_name, request.start, request.stop
        self.log.info("%s: staging from %s to %s", name, start, stop)
        extracted = stage(request, log, store)
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
    operator_extra_links = SOURCE_LINKS
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
    """
    source, expected, new = read_staged(staged, saved_by=saved_by)
    with naming_repair_command(source, staged.get("staging_path")):
        key = checkpoint_key(source)
        return source, advance(AirflowVariableStore(), key, expected=expected, new=new)


def read_staged(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint, Checkpoint]:
    """Return the source's name, the checkpoint before the extract, and the next one."""
    check_staged(staged)
    try:
        new = Checkpoint(
            identity=SourceIdentity.from_json(staged["identity"]),
            position=Position.from_json(staged["stop"]),
            sequence=int(staged["last_sequence"]),
            saved_at=utc_now(),
            saved_by=saved_by,
        )
        expected = Checkpoint.decode(json.dumps(staged["checkpoint"]))
        return str(staged["source"]), expected, new
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"`staged` is what the extract operator returned: {error!r}"
        ) from error
