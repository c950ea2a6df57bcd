"""Compact lake tables, and expire their old versions, with a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import Any, Literal

from airflow.sdk import Context
from airflow.sdk.definitions.xcom_arg import XComArg

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.object_storage import is_absolute, spark_location
from airflow_provider_binlog.hooks.tasks import fail_unless_retryable
from airflow_provider_binlog.operators.arguments import read_globs, read_location, read_timedelta
from airflow_provider_binlog.operators.spark_job import SparkJobOperator
from airflow_provider_binlog.spark.maintenance.options import MAINTENANCE, MaintenanceOptions

_KEEP_MIN = timedelta(days=1)


class BinlogMaintenanceOperator(SparkJobOperator):
    """Compact the lake tables of a source, and expire versions that nobody reads any more.

    Delta's ``OPTIMIZE``, which also clusters, and ``VACUUM``; Iceberg's ``rewrite_data_files``,
    which also sorts, ``rewrite_position_delete_files`` and ``expire_snapshots``. Versions stay
    readable that were the newest at any time of the period, those of its publish records, and
    those of the newest one, however old it is. PostgreSQL needs none of it.

    A table that is not there is skipped, and so is one that its catalog maintains by itself, with
    the reason. A table that fails does not keep the others; the task fails at its end. It may run
    beside merges: of two that change a table at once one is retried.

    Takes all other arguments of a SparkSubmitOperator, as the
    :class:`~airflow_provider_binlog.BinlogMergeOperator`; ``conf`` is that of the merge. For
    another period of some tables, use two tasks with other globs.

    Returns ``{"source", "status", "tables"}``, of each table ``{"table", "target", "skipped",
    "files_before", "files_after", "kept_since", "seconds"}``.

    :param staged: ``{"source": name, "staging_path": ...}``, or what the extract operator returned.
        (templated)
    :param format: ``"delta"`` or ``"iceberg"``. (templated)
    :param lake: As the merges have it, whatever their ``target`` is. (templated)
    :param tables: Globs of ``database.table``, and ``!globs`` that take some back; all that the
        merges of this lake have by default. (templated)
    :param exclude: Globs of tables among them to leave out. (templated)
    :param keep: How far back versions stay readable; a timedelta, or seconds; a day or longer.
    :param compact: Whether files are compacted, too.
    :param shared_archive: As the merge has it; both may have one file. (templated)
    """

    ui_color = "#e8e2d3"

    def __init__(
        self,
        *,
        staged: Mapping[str, Any] | XComArg,
        format: Literal["delta", "iceberg"],  # noqa: A002
        lake: str,
        tables: Sequence[str] = (),
        exclude: Sequence[str] = (),
        keep: timedelta | float = timedelta(days=7),
        compact: bool = True,
        shared_archive: str | None = None,
        conn_id: str = "spark_default",
        name: str = "binlog-maintenance",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            staged=staged,
            format=format,
            lake=lake,
            tables=tables,
            exclude=exclude,
            shared_archive=shared_archive,
            conn_id=conn_id,
            name=name,
            **kwargs,
        )
        self.keep = keep
        self.compact = compact

    def execute(self, context: Context) -> Any:
        """Submit the job and return its report; see the class."""
        with fail_unless_retryable():
            environment, options = self.set_environment(), self._read_options()
            more = self.application_args or []
            with TemporaryDirectory(prefix="binlog-maintenance-") as folder:
                report = self.submit(context, MAINTENANCE, options.to_arguments(), folder, more)
            for table in report["tables"] if environment.in_cluster else ():
                self.log.info("%s", table)
            return report

    def _read_options(self) -> MaintenanceOptions:
        """Return the options of the job.

        Raises:
            ConfigurationError: An argument cannot be used as given.
        """
        if self.format not in ("delta", "iceberg"):
            raise ConfigurationError(
                "only tables of Delta and Iceberg are maintained: PostgreSQL's autovacuum does "
                "that by itself",
                format=self.format,
            )
        keep = read_timedelta(self.keep, "keep")
        if keep < _KEEP_MIN:
            raise ConfigurationError(
                "a merge may run for a day on versions that it has read: let keep= be a day or "
                "longer",
                keep=keep,
            )
        source, staging_path = read_location(self.staged)
        return MaintenanceOptions(
            staging=spark_location(staging_path),
            source=source,
            format=self.format,
            lake=spark_location(self.lake) if is_absolute(self.lake) else self.lake,
            tables=read_globs(self.tables, "tables"),
            exclude=read_globs(self.exclude, "exclude"),
            compact=self.compact,
            keep=keep,
        )
