"""Submit a Spark job of this package, and read the report that it writes beside the manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.definitions.xcom_arg import XComArg
from airflow.sdk.exceptions import AirflowException

from airflow_provider_binlog.errors import ObjectMissingError, UnknownMergeError
from airflow_provider_binlog.hooks.object_storage import open_store, spark_location
from airflow_provider_binlog.hooks.spark_submit import (
    SubmitEnvironment,
    explain_failure,
    find_environment,
    need_client,
    quiet_conf,
    shared_classes,
    silence,
)
from airflow_provider_binlog.hooks.tasks import RendersObjects
from airflow_provider_binlog.operators.arguments import read_location
from airflow_provider_binlog.operators.links import BinlogErrorLink
from airflow_provider_binlog.spark.job.options import build_py_files, find_error
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import part_key, report_path


class SparkJobOperator(RendersObjects, SparkSubmitOperator):
    """Submits a job with this package in its Python files; `staged` says where it reports."""

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        *("staged", "format", "lake", "tables", "exclude", "shared_archive"),
    )
    template_fields_renderers = {  # noqa: RUF012  Airflow's own is a dict.
        **SparkSubmitOperator.template_fields_renderers,
        **dict.fromkeys(("staged", "tables", "exclude"), "json"),
    }
    operator_extra_links: tuple[BaseOperatorLink, ...] = (BinlogErrorLink(),)

    def __init__(
        self,
        *,
        staged: Mapping[str, Any] | XComArg,
        format: str,  # noqa: A002  As the operators have it.
        lake: str,
        tables: Sequence[str],
        exclude: Sequence[str],
        shared_archive: str | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.staged: Any = staged
        self.format: Any = format
        self.lake = lake
        self.tables = tables
        self.exclude = exclude
        self.shared_archive = shared_archive

    def set_environment(self) -> SubmitEnvironment:
        """Set what submits to the Spark connection, and return it.

        Raises:
            ConfigurationError: There is no such connection, or the driver runs in a cluster, where
                the file of `shared_archive` is not.
        """
        environment = find_environment(self._conn_id, self._deploy_mode)
        if environment.in_cluster and self.shared_archive:
            raise need_client("the file of shared_archive=")
        self._spark_binary = self._spark_binary or environment.spark_binary
        self.env_vars = {**environment.env_vars, **(self.env_vars or {})}
        return environment

    def submit(
        self,
        context: Context,
        application: Path,
        arguments: Sequence[str],
        folder: str,
        more: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Run the job; if it fails, raise the failure that it reported, if any.

        `more` arguments follow that of the report. The Python files are written to the folder.

        Raises:
            MergeError: The job reports that a retry would fail, too.
            UnknownMergeError: It reports what may pass, or ended without a report.
        """
        source, staging_path = read_location(self.staged)
        store, report = open_store(staging_path), report_key(source, context)
        location = f"{spark_location(staging_path).rstrip('/')}/{report}"
        self.application = str(application)
        self.application_args = [*arguments, "--report", location, *more]
        own = str(build_py_files(folder))
        self.py_files = f"{own},{self.py_files}" if self.py_files else own
        states = context.get("task_state_store")
        if states is None or not states.get(self.external_id_key):
            # That of a job that Airflow may wait for stays: it may have ended just now.
            forget_report(store, report)
        archive = self.shared_archive
        try:
            with shared_classes(archive, self.conf) as self.conf:
                super().execute(context)
        except Exception as failure:
            # What a hook raises depends on where the driver runs.
            error = find_error(read_report(store, report))
            if error is None and isinstance(failure, AirflowException):
                error = UnknownMergeError(f"spark-submit failed: {explain_failure(failure)}")
            if error is not None:
                raise error from None
            raise
        if archive and not Path(archive).expanduser().exists():
            # Some builds of Java have no archive of their own to add to.
            self.log.warning("Java wrote no archive of its classes (shared_archive=%s)", archive)
        reported = read_report(store, report)
        # For a hook, a driver whose pod was deleted has not failed.
        if (error := find_error(reported)) is not None:
            raise error
        if not reported:
            raise UnknownMergeError(
                "the Spark job ended without a report, or it still runs, if spark-submit does not "
                "wait for its end (spark.yarn.submit.waitAppCompletion, "
                "spark.kubernetes.submission.waitAppCompletion)",
                report=report,
            )
        return reported

    def is_job_succeeded(self, status: str) -> bool:  # noqa: ARG002  Another class calls it.
        """Return False: a job that succeeded before this try has left something to do.

        A job that still runs is waited for, where the hook can.
        """
        return False

    def submit_job(self, context: Context) -> str | None:
        """Submit another job than those that have reported; return its id."""
        source, staging_path = read_location(self.staged)
        forget_report(open_store(staging_path), report_key(source, context))
        submitted: str | None = super().submit_job(context)
        return submitted

    def _get_hook(self) -> SparkSubmitHook:
        given, self.conf = self.conf, quiet_conf(self.conf)
        hook = super()._get_hook()
        silence(hook, given)
        return hook


def read_report(store: ObjectStore, key: str) -> dict[str, Any]:
    """Return the report of a job; empty if it has not written one, or not all of it."""
    try:
        report: dict[str, Any] = json.loads(store.read(key))
    except (ObjectMissingError, ValueError):
        return {}
    return report


def forget_report(store: ObjectStore, report: str) -> None:
    """Overwrite the report of an earlier job of the task."""
    if read_report(store, report):
        store.write(report, b"{}")


def report_key(source: str, context: Context) -> str:
    """Return the key of the report of a task's job."""
    instance = context["ti"]
    index = instance.map_index or 0
    path = report_path(instance.dag_id, instance.run_id, instance.task_id, index)
    return part_key(source, path)
