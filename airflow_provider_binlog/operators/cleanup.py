"""Remove staged files that no lake needs any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context, timezone

from airflow_provider_binlog.checkpoint import checkpoint_key, load
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    RendersObjects,
    fail_unless_retryable,
    naming_repair_command,
)
from airflow_provider_binlog.operators.arguments import read_timedelta
from airflow_provider_binlog.operators.links import BinlogErrorLink
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source


class BinlogCleanupOperator(RendersObjects, BaseOperator):
    """Remove the staged files of a source that no lake needs any more.

    A lake is known by what its merges published: it needs what its tables lack, and what they
    would lack if they were restored to a version of the grace period. Nothing is removed before a
    merge has published anything, nor what is younger than the grace period.

    Returns ``{"source", "first", "needed_by", "files", "bytes"}``: the number of the first manifest
    that is kept, why it is, and how much was removed, or would be.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose files to remove.
        (templated)
    :param staging_path: As the extract task has it. (templated)
    :param grace: How far back lake tables can be restored without a reload: a timedelta, or
        seconds; a day or longer.
    :param dry_run: Remove nothing, and log each file that would be removed, and why.
    """

    template_fields: Sequence[str] = ("source", "staging_path")
    template_fields_renderers = {"source": "json"}  # noqa: RUF012
    operator_extra_links = (BinlogErrorLink(),)
    ui_color = "#e8e2d3"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        grace: timedelta | float = timedelta(days=7),
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.grace = grace
        # `dry_run` is a method of Airflow's.
        self.removes = not dry_run

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002  Airflow's signature
        """Remove the files; see the class."""
        with fail_unless_retryable():
            return self._clean(read_source(self.source).name)

    def _clean(self, source: str) -> dict[str, Any]:
        from airflow_provider_binlog.cleanup.removal import clean_up, plan_cleanup

        store = open_store(self.staging_path)
        with naming_repair_command(source, self.staging_path):
            checkpoint = load(AirflowVariableStore(), checkpoint_key(source))
        plan = plan_cleanup(
            store,
            source,
            checkpoint=None if checkpoint is None else checkpoint.sequence,
            grace=read_timedelta(self.grace, "grace"),
            now=timezone.utcnow(),
        )
        if self.removes:
            clean_up(store, source, plan)
        for line in plan.kept:
            self.log.info("%s: %s", source, line)
        if not self.removes:
            for file in plan.removals:
                self.log.info("%s: %s: %d bytes: %s", source, file.path, file.bytes, file.reason)
        for reason, files, size in plan.totals:
            self.log.info("%s: %d files, %d bytes: %s", source, files, size, reason)
        return {
            "source": source,
            "first": plan.first,
            "needed_by": [need.reason for need in plan.needs],
            "files": len(plan.removals),
            "bytes": plan.bytes,
        }
