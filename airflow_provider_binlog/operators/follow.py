"""Stage a log while it grows, range after range."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.checkpoint import Checkpoint, advance, checkpoint_key
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.metrics import send_staged, try_to_send_lag
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    fail_unless_retryable,
    name_run,
    naming_repair_command,
    pass_to_outlets,
    seconds_to_follow,
)
from airflow_provider_binlog.operators.arguments import read_seconds
from airflow_provider_binlog.operators.extract import (
    RangeOperator,
    count_staged,
    describe_counts,
    describe_for_asset,
    join_counts,
    report_staged,
    warn_of_foreign_keys,
    warn_of_quarantines,
)
from airflow_provider_binlog.operators.links import SOURCE_LINKS, BinlogManifestLink
from airflow_provider_binlog.operators.table_notes import describe_staged
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.stored_json import utc_now

if TYPE_CHECKING:
    from airflow_provider_binlog.capture.extract import Extracted

# A line of the log for what was staged meanwhile.
_LOG_SECONDS = 60


class BinlogFollowOperator(RangeOperator):
    """Stage the log while it grows: a range every few seconds, each with its manifest.

    The task keeps its connection to the server, and moves the checkpoint with each manifest, as a
    DAG does that only stages: merges rely on the applied marks of their own tables. Every range is
    what a :class:`~airflow_provider_binlog.BinlogExtractOperator` stages of it. A task that was
    killed is retried as one of those; its retry follows for the rest of the time, counted from the
    start of the first try, and stages one range at least.

    Returns what the extract operator returns, of all ranges together. Skips if nothing was logged.

    :param follow: How long, ``timedelta(minutes=55)``.
    :param every: From the start of a range to that of the next one, at least.

    The other parameters are those of the extract operator, which has no ``stop`` here; the source
    is a server, not files.
    """

    operator_extra_links = (*SOURCE_LINKS, BinlogManifestLink())
    ui_color = "#bfe0ec"
    staged: Mapping[str, Any] | None = None

    def __init__(
        self,
        *,
        follow: timedelta,
        every: timedelta = timedelta(seconds=5),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.follow = follow
        self.every = every

    def execute(self, context: Context) -> dict[str, Any]:
        """Follow the log; see the class."""
        with fail_unless_retryable():
            until = time.monotonic() + seconds_to_follow(context, self.follow)
            self.staged = staged = self._follow(name_run(context), until)
        if staged is None:
            raise AirflowSkipException("nothing was logged")
        pass_to_outlets(self, context, describe_for_asset(staged))
        return staged

    def _follow(self, run: str, until: float) -> dict[str, Any] | None:
        """Stage ranges until then; return what all of them hold, None if there is none."""
        from airflow_provider_binlog.capture.follow import Schedule, follow, request_next
        from airflow_provider_binlog.sources.next_range import stage

        source, settings = self.read_settings(run)
        if source.files is not None:
            raise ConfigurationError(
                "a task follows a server, not files: stage them with a BinlogExtractOperator, on a "
                "schedule",
                files=source.files,
            )
        schedule = Schedule(until, read_seconds(self.every, "every"))
        store = open_store(self.staging_path)
        with self.opened(source, follows=True) as log:
            checkpoint, request = self.find_range(source, settings, log, store)
            self.log.info("%s: following from %s", source.name, request.start)
            first = stage(request, log, store)
            staged: dict[str, Any] | None = None
            named: set[tuple[str, ...]] = set()
            if first.manifests:
                staged = report_staged(
                    self.log, first, checkpoint, source.name, self.staging_path, named=named
                )
                self.note_lineage(first.manifests)
                warn_of_foreign_keys(self.log, log, request, first)
                checkpoint = self._advance(source.name, checkpoint, first, run)
                request = request_next(request, first)
            progress = _Progress(source.name, self.log)
            following = follow(request, log, store, schedule=schedule, after=first.stop)
            for extracted in following:
                counts = count_staged(extracted, checkpoint, source.name, self.staging_path)
                for line in describe_staged(extracted.manifests, named):
                    self.log.warning("%s: %s", source.name, line)
                known = {} if staged is None else staged["quarantined"]
                warn_of_quarantines(
                    self.log,
                    source.name,
                    {
                        table: quarantine
                        for table, quarantine in counts["quarantined"].items()
                        if table not in known
                    },
                )
                checkpoint = self._advance(source.name, checkpoint, extracted, run)
                if progress.add(counts):
                    read = partial(log.read_lag, checkpoint.position, checkpoint.identity)
                    try_to_send_lag(source.name, read, self.log)
                self.note_lineage(extracted.manifests)
                staged = counts if staged is None else join_counts(staged, counts)
                quarantined = len(staged["quarantined"])
                send_staged(source.name, extracted.manifests, quarantined=quarantined)
        return staged

    def _advance(
        self, name: str, checkpoint: Checkpoint, extracted: Extracted, run: str
    ) -> Checkpoint:
        new = Checkpoint.covering(extracted.manifests[-1], saved_at=utc_now(), saved_by=run)
        with naming_repair_command(name, self.staging_path):
            return advance(
                AirflowVariableStore(), checkpoint_key(name), expected=checkpoint, new=new
            )


class _Progress:
    """Logs a line for what was staged in a minute."""

    def __init__(self, name: str, logger: Any) -> None:
        self._name = name
        self._logger = logger
        self._counts: dict[str, Any] | None = None
        self._logged = time.monotonic()

    def add(self, counts: dict[str, Any]) -> bool:
        """Count a range; once a minute log those since the last line, and return True."""
        self._counts = counts if self._counts is None else join_counts(self._counts, counts)
        if time.monotonic() < self._logged + _LOG_SECONDS:
            return False
        self._logger.info(
            "%s: staged up to %s: %s, in %d manifests",
            self._name,
            Position.from_json(self._counts["stop"]),
            describe_counts(self._counts),
            len(self._counts["manifests"]),
        )
        self._counts, self._logged = None, time.monotonic()
        return True
