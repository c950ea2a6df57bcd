"""Stage a backlog in sub-ranges: plan, stage at the same time, commit; and archive its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.definitions.xcom_arg import XComArg
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.checkpoint import checkpoint_key, load
from airflow_provider_binlog.errors import (
    CheckpointMissingError,
    ConfigurationError,
    PositionPurgedError,
)
from airflow_provider_binlog.executors.job import Outcome, SubRangeWork, stage_planned
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.lineage import StagedLineage, StagesTables
from airflow_provider_binlog.hooks.object_storage import locate, open_store, reach
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    RendersObjects,
    fail_unless_retryable,
    max_map_length,
    name_run,
    naming_repairs,
    pass_to_outlets,
)
from airflow_provider_binlog.limits import read_size
from airflow_provider_binlog.manifest import count_changes
from airflow_provider_binlog.operators.extract import (
    RangeOperator,
    describe_for_asset,
    open_log,
    report_staged,
    warn_of_foreign_keys,
)
from airflow_provider_binlog.operators.links import (
    SOURCE_LINKS,
    BinlogErrorLink,
    BinlogManifestLink,
)
from airflow_provider_binlog.operators.spark_engine import EngineOperator
from airflow_provider_binlog.protected_columns import find_secret
from airflow_provider_binlog.read_progress import PacedProgress
from airflow_provider_binlog.sources.binlog_files import find_files
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source
from airflow_provider_binlog.sources.settings import Location
from airflow_provider_binlog.staging.object_store import ObjectStore


class BinlogPlanOperator(RangeOperator):
    """Divide what lies between the checkpoint and the end of the log into sub-ranges.

    A :class:`BinlogSubRangeOperator` that is mapped over the sub-ranges stages them at the same
    time, and a :class:`BinlogCommitOperator` makes one manifest of all. The log is read once for
    the plan: its statements, transactions and table maps, but no rows.

    Returns a list with ``{"plan", "number"}`` of each sub-range. Skips if there is
    nothing to stage.

    All other arguments are those of the :class:`~airflow_provider_binlog.BinlogExtractOperator`.

    :param target_bytes: Bytes of log in a sub-range: it ends at the first boundary of two binlog
        files after so many. A number, or a text such as ``"1 GiB"``.
    """

    ui_color = "#d8ecf3"

    def __init__(self, *, target_bytes: int | str = "1 GiB", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_bytes = target_bytes

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the sub-ranges; see the class."""
        with fail_unless_retryable():
            return self._plan(name_run(context))

    def _plan(self, run: str) -> list[dict[str, Any]]:
        from airflow_provider_binlog.capture.backlog.sub_ranges import plan_backlog, store_plan
        from airflow_provider_binlog.capture.extract import find_next

        source, settings = self.read_settings(run)
        store = open_store(self.staging_path)
        target_bytes = read_size(self.target_bytes, "target_bytes")
        with self.opened(source) as log:
            _, request = self.find_range(source, settings, log, store)
            staged, log_range = find_next(request, log, store)
            if log_range is None:
                raise AirflowSkipException(
                    f"everything up to {staged.stop} is staged; what is not merged of it, the DAG "
                    "that extracts passes on"
                )
            plan = plan_backlog(log_range, log, target_bytes=target_bytes)
            _check_count(len(plan.sub_ranges))
            store_plan(plan, store)
        for number, part in enumerate(plan.sub_ranges):
            text = "%s: sub-range %d: %s to %s, %d bytes"
            self.log.info(text, source.name, number, part.start, plan.stop_of(number), part.bytes)
        return [{"plan": plan.id, "number": number} for number in range(len(plan.sub_ranges))]


class BinlogSubRangeOperator(EngineOperator):
    """Stage one sub-range of a backlog; with ``engine="spark"`` all sub-ranges.

    Map it over what the :class:`BinlogPlanOperator` returned. A retry stages its sub-range again,
    unless an earlier try finished it.

    With ``engine="spark"`` it is one task: it submits an application that stages each sub-range in
    a Spark task of its own. A retry stages the missing sub-ranges.

    Returns ``{"plan", "number", "rows", "changes"}``, with ``engine="spark"`` a list of such.

    :param source: As the plan has it; its ``files`` may be copies of the server's. (templated)
    :param staging_path: As the plan has it. (templated)
    :param sub_range: One of those that the plan returned; with ``engine="spark"`` the list of all,
        ``plan.output``. (templated)
    :param engine: ``"worker"``: the task reads the log. ``"spark"``: Spark's executors do.
    :param parallelism: As the :class:`~airflow_provider_binlog.BinlogSnapshotOperator` has it.
    :param spark: Likewise. (templated)
    """

    template_fields: Sequence[str] = ("source", "staging_path", "sub_range", "spark")
    operator_extra_links = SOURCE_LINKS
    template_fields_renderers = dict.fromkeys(("source", "sub_range", "spark"), "json")
    ui_color = "#bfe0ec"

    def __init__(
        self,
        *,
        sub_range: Mapping[str, Any] | Sequence[Mapping[str, Any]] | XComArg,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sub_range: Any = sub_range

    def execute(self, context: Context) -> dict[str, Any] | list[dict[str, Any]]:
        """Stage the sub-range; see the class."""
        with fail_unless_retryable():
            try:
                if self.check_engine():
                    return self._stage_on_spark(name_run(context))
                return self._stage(name_run(context))
            except PositionPurgedError as error:
                error.context["repair"] = (
                    "let this task read archived files, BinlogSource(files=...); or plan the "
                    "backlog again, which says how to go on with what the server still has"
                )
                raise

    def _stage(self, run: str) -> dict[str, Any]:
        source, store = read_source(self.source), open_store(self.staging_path)
        plan_id, number = read_sub_range(self.sub_range)
        opened = closing(open_log(source, draws_server_id=True))
        with naming_repairs(source, self.staging_path), opened as log:
            manifest = stage_planned(
                log,
                store,
                source=source.name,
                plan_id=plan_id,
                number=number,
                run=run,
                secret=find_secret(_find_secret(source, store, plan_id)),
                on_progress=PacedProgress(partial(self.log.info, "%s: %s", source.name)),
            )
        self.log.info("%s: sub-range %d: %d rows", source.name, number, manifest.rows)
        return _describe(plan_id, Outcome(number, manifest.rows, count_changes(manifest.tables)))

    def _stage_on_spark(self, run: str) -> list[dict[str, Any]]:
        source = read_source(self.source)
        plan_id, numbers = read_sub_ranges(self.sub_range)
        # Located here, and listed again by each executor.
        locations: dict[str, Location] = {}

        def reach_noting(location: str) -> tuple[Any, str]:
            locations[location] = locate(location)
            return reach(location)

        if source.files is not None:
            find_files(source.files, reach_noting)
        work = SubRangeWork(
            plan=plan_id,
            run_id=run,
            server=None if source.files is not None else BinlogHook(source.conn_id).settings,
            files=(source.files,) if isinstance(source.files, str) else tuple(source.files or ()),
            locations=locations,
            numbers=numbers,
            hash_secret=_find_secret(source, open_store(self.staging_path), plan_id),
        )
        outcomes = sorted(self.run_on_spark(source.name, work), key=lambda outcome: outcome.number)
        return [_describe(plan_id, outcome) for outcome in outcomes]


def _find_secret(source: BinlogSource, store: ObjectStore, plan_id: str) -> str:
    """Return the secret that a plan's columns are hashed with; empty where none are."""
    from airflow_provider_binlog.capture.backlog.sub_ranges import load_plan

    if load_plan(store, source.name, plan_id).hash_secret is None:
        return ""
    return BinlogHook(source.conn_id).settings.hash_secret


def _describe(plan_id: str, outcome: Outcome) -> dict[str, Any]:
    number, rows, changes = outcome.number, outcome.rows, outcome.changes
    return {"plan": plan_id, "number": number, "rows": rows, "changes": changes}


class BinlogCommitOperator(StagesTables, RendersObjects, BaseOperator):
    """Make one manifest of the sub-ranges of a backlog, and commit it.

    Returns what the :class:`~airflow_provider_binlog.BinlogExtractOperator` returns: a merge and a
    checkpoint follow in the same way. Skips if the checkpoint covers the backlog already, as where
    a finished run is cleared.

    :param source: As the plan has it. (templated)
    :param staging_path: As the plan has it. (templated)
    :param sub_ranges: What the mapped :class:`BinlogSubRangeOperator` returned,
        ``sub_ranges.output``. (templated)
    """

    template_fields: Sequence[str] = ("source", "staging_path", "sub_ranges")
    template_fields_renderers = dict.fromkeys(("source", "sub_ranges"), "json")
    operator_extra_links = (*SOURCE_LINKS, BinlogManifestLink())
    ui_color = "#cfe8d5"
    staged: Mapping[str, Any] | None = None

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        sub_ranges: Sequence[Mapping[str, Any]] | XComArg,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.sub_ranges: Any = sub_ranges

    def execute(self, context: Context) -> dict[str, Any]:
        """Commit the backlog; see the class."""
        with fail_unless_retryable():
            self.staged = staged = self._commit(name_run(context))
        pass_to_outlets(self, context, describe_for_asset(staged))
        return staged

    def _commit(self, run: str) -> dict[str, Any]:
        from airflow_provider_binlog.capture.backlog.joining import commit_backlog
        from airflow_provider_binlog.capture.backlog.sub_ranges import load_plan
        from airflow_provider_binlog.capture.extract import reuse

        source = read_source(self.source)
        key = checkpoint_key(source.name)
        plan_id, _ = read_sub_ranges(self.sub_ranges)
        store = open_store(self.staging_path)
        plan = load_plan(store, source.name, plan_id)
        with naming_repairs(source, self.staging_path):
            checkpoint = load(AirflowVariableStore(), key)
        if checkpoint is None:
            raise CheckpointMissingError(
                "the checkpoint that the plan began with was lost: plan the backlog again", key=key
            )
        commit_backlog(plan, store, created_by=run)
        request = replace(
            plan.request(checkpoint.position, checkpoint.position),
            identity=checkpoint.identity,
            issued_by=checkpoint.identity,
            sequence=checkpoint.sequence + 1,
        )
        extracted = reuse(request, store)
        if not extracted.manifests:
            raise AirflowSkipException(
                f"the backlog is staged, and the checkpoint at {checkpoint.position} covers it"
            )
        staged = report_staged(self.log, extracted, checkpoint, source.name, self.staging_path)
        with closing(open_log(source)) as log:
            # Of all sub-ranges: Spark's tasks report to nobody else.
            self.lineage = StagedLineage(source.name, self.staging_path, log.address)
            self.lineage.add(extracted.manifests)
            warn_of_foreign_keys(self.log, log, request, extracted)
        return staged


def _check_count(count: int) -> None:
    if count > (most := max_map_length()):
        raise ConfigurationError(
            "more sub-ranges than a task can be mapped over: raise target_bytes, or "
            "[core] max_map_length",
            sub_ranges=count,
            max_map_length=most,
        )


def read_sub_ranges(value: Any) -> tuple[str, tuple[int, ...]]:
    """Return the plan and the numbers of sub-ranges."""
    # Airflow passes what mapped tasks returned as a sequence of its own.
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ConfigurationError(
            "the sub-ranges are the list that the plan operator returned, or the tasks that staged "
            "them",
            given=value,
        )
    plans, numbers = zip(*map(read_sub_range, value), strict=True)
    if len(set(plans)) != 1:
        raise ConfigurationError(
            "the sub-ranges are not those of one plan", plans=sorted(set(plans))
        )
    return plans[0], numbers


def read_sub_range(value: Any) -> tuple[str, int]:
    """Return the plan and the number of a sub-range, or of the result of one."""
    try:
        return str(value["plan"]), int(value["number"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            "a sub-range is one of those that the plan operator returned", given=value
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
    operator_extra_links = (BinlogErrorLink(),)
    ui_color = "#d8ecf3"

    def __init__(
        self, *, source: BinlogSource | Mapping[str, Any], archive_path: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.archive_path = archive_path

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002  Airflow's signature
        """Copy files that are not archived yet; see the class."""
        with fail_unless_retryable():
            return self._archive(read_source(self.source))

    def _archive(self, source: BinlogSource) -> dict[str, Any]:
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
                self.log.info("%s: archived %s, %d bytes", source.name, copy.file, copy.size)
                files.append(copy.file)
                size += copy.size
        return {
            "source": source.name,
            "archive_path": self.archive_path,
            "files": files,
            "bytes": size,
        }
