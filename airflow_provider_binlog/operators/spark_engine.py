"""Operators whose reading Spark's executors can do, by an application that they submit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_binlog.errors import ConfigurationError, ManifestError, SparkJobError
from airflow_provider_binlog.executors.job import ChunkWork, Job, JobReport, Outcome, SubRangeWork
from airflow_provider_binlog.hooks.object_storage import locate
from airflow_provider_binlog.hooks.spark_submit import (
    explain_failure,
    find_environment,
    need_client,
    quiet_conf,
    silence,
)
from airflow_provider_binlog.hooks.tasks import RendersObjects
from airflow_provider_binlog.sources.binlog_source import BinlogSource, Engine, check_choice
from airflow_provider_binlog.spark.job.options import pack

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOMS = (
    *("binlog", "blocks", "capture", "executors", "rows", "schema_history", "snapshot", "sources"),
    *("sql", "staging", "transport"),
)
_OWN = {"self", "application_args", "deploy_mode", "java_class"}

APPLICATION = _PACKAGE / "executors" / "application.py"
"""The main file, which spark-submit takes as its application."""


class EngineOperator(RendersObjects, BaseOperator):
    """Task that reads by itself, or lets Spark's executors read.

    `BinlogSnapshotOperator` describes the arguments.
    """

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        engine: Engine = "worker",
        parallelism: int = 4,
        spark: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.engine = engine
        self.parallelism = parallelism
        self.spark = spark
        self._submitting: SparkSubmitHook | None = None

    def on_kill(self) -> None:
        """End spark-submit with the task."""
        if self._submitting is not None:
            self._submitting.on_kill()

    def check_engine(self) -> bool:
        """Return whether Spark's executors read."""
        check_choice(Engine, self.engine, "engine")
        if type(self.parallelism) is not int or self.parallelism < 1:
            raise ConfigurationError(
                "parallelism is a positive number of tasks", parallelism=self.parallelism
            )
        if self.engine == "spark":
            return True
        if self.spark:
            raise ConfigurationError('the arguments in `spark` are those of engine="spark"')
        return False

    def run_on_spark(self, source: str, work: ChunkWork | SubRangeWork) -> Sequence[Outcome]:
        """Submit a job, wait for its end, and return the outcomes of its tasks.

        Raises:
            BinlogError: A task failed on its executor, or Spark did.
            ConfigurationError: There is no such connection, or an argument in `spark` is unknown.
        """
        parallelism = min(self.parallelism, len(work.numbers))
        staging = locate(self.staging_path)
        job = Job(source=source, staging=staging, parallelism=parallelism, work=work)
        with TemporaryDirectory(prefix="binlog-read-") as folder:
            file, report = Path(folder) / "job.json", Path(folder) / "report.json"
            hook = self._hook(str(build_py_files(folder)), ["--job", file, "--report", report])
            job.write(file)
            # Not reset: after an `execution_timeout`, `on_kill` is called once this has returned.
            self._submitting = hook
            try:
                hook.submit(str(APPLICATION))
            except AirflowException as failure:
                error = _read_report(report).find_error()
                raise (error or _spark_failed(explain_failure(failure))) from None
            ended = _read_report(report)
        if (error := ended.find_error()) is not None:
            raise error
        if not ended.outcomes:
            raise _spark_failed("its output is in this log")
        return ended.outcomes

    def _hook(self, py_files: str, arguments: Sequence[Any]) -> SparkSubmitHook:
        given = {"conn_id": "spark_default", "name": "binlog-read", **(self.spark or {})}
        if given.pop("deploy_mode", "client") != "client":
            raise need_client("the file with the passwords")
        names = signature(SparkSubmitHook.__init__).parameters.keys() - _OWN
        if unknown := sorted(given.keys() - names):
            raise ConfigurationError(
                f"spark holds arguments of a SparkSubmitOperator: {', '.join(sorted(names))}",
                unknown=unknown,
            )
        environment = find_environment(given["conn_id"])
        conf = given.get("conf")
        own = {"spark_binary": environment.spark_binary}
        given["env_vars"] = {**environment.env_vars, **(given.get("env_vars") or {})}
        given["py_files"] = ",".join(filter(None, (py_files, given.get("py_files"))))
        hook = SparkSubmitHook(
            **{**own, **given, "conf": quiet_conf(conf)},
            application_args=[str(argument) for argument in arguments],
            deploy_mode="client",
        )
        silence(hook, conf)
        return hook


def _read_report(file: Path) -> JobReport:
    """Return the report of an application; one without outcomes if it has not written any."""
    try:
        return JobReport.decode(file.read_bytes())
    except (OSError, ManifestError):
        return JobReport(())


def _spark_failed(reason: str) -> SparkJobError:
    return SparkJobError(f"the Spark application ended without a report: {reason}")


def build_py_files(folder: str | Path) -> Path:
    """Write the zip of what executors import into `folder`, and return its path.

    It is pure Python: NumPy, Arrow, PyMySQL, fsspec and the store's own packages are not in it.
    """
    modules = [file for file in sorted(_PACKAGE.glob("*.py")) if file.name != "data_source.py"]
    rooms = [file for room in _ROOMS for file in sorted((_PACKAGE / room).rglob("*.py"))]
    return pack([*modules, *rooms], folder)
