"""What a task lets Spark's executors read in its place, by way of spark-submit."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_binlog.errors import MALFORMED, ConfigurationError, SparkJobError
from airflow_provider_binlog.executors.outcome import Report
from airflow_provider_binlog.executors.package import APPLICATION, build_py_files
from airflow_provider_binlog.hooks.spark import find_surroundings
from airflow_provider_binlog.hooks.templates import RendersSource
from airflow_provider_binlog.sources.binlog_source import Engine, check_choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from airflow_provider_binlog.executors.job import Job
    from airflow_provider_binlog.executors.outcome import Outcome

_OWN = {"self", "application_args", "deploy_mode", "java_class"}


class EngineOperator(RendersSource, BaseOperator):
    """Base of the tasks that read by themselves, or let Spark's executors read.

    :param engine: ``"worker"``: the task reads. ``"spark"``: it submits an application whose tasks
        read.
    :param parallelism: With ``engine="spark"``, how many of its tasks read at the same time.
    :param spark: With ``engine="spark"``, arguments of a SparkSubmitOperator: ``conn_id``,
        ``conf``, ``executor_memory``, ... (templated)
    """

    def __init__(
        self,
        *,
        engine: Engine = "worker",
        parallelism: int = 4,
        spark: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.engine = engine
        self.parallelism = parallelism
        self.spark = spark
        self._submitting: SparkSubmitHook | None = None

    def on_kill(self) -> None:
        """End spark-submit with the task."""
        if self._submitting is not None:
            self._submitting.on_kill()

    def check_engine(self) -> bool:
        """Return whether Spark's executors read.

        Raises:
            ConfigurationError: An argument cannot be used as given.
        """
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

    def run_on_spark(self, job: Job) -> Sequence[Outcome]:
        """Submit a job, and return how its tasks ended: all of them are done.

        Raises:
            BinlogError: What a task failed with, on its executor.
            SparkJobError: Spark failed.
            ConfigurationError: The Spark connection does not exist, or an argument in `spark`
                cannot be used as given.
        """
        with TemporaryDirectory(prefix="binlog-read-") as folder:
            file, report = Path(folder) / "job.json", Path(folder) / "report.json"
            hook = self._hook(str(build_py_files(folder)), ["--job", file, "--report", report])
            job.write(file)
            # It stays: after an `execution_timeout`, `on_kill` is called once this has returned.
            self._submitting = hook
            try:
                hook.submit(str(APPLICATION))
            except AirflowException as failure:
                raise _read_report(report).find_error() or _spark_failed() from failure
            found = _read_report(report)
        if (error := found.find_error()) is not None:
            raise error
        return found.outcomes

    def _hook(self, py_files: str, arguments: Sequence[Any]) -> SparkSubmitHook:
        # Here: most DAGs do without.
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        given = {"conn_id": "spark_default", "name": "binlog-read", **(self.spark or {})}
        if given.pop("deploy_mode", "client") != "client":
            raise ConfigurationError(
                "the driver runs beside the task, where it finds the passwords: deploy_mode is "
                "client",
                deploy_mode=(self.spark or {}).get("deploy_mode"),
            )
        known = signature(SparkSubmitHook.__init__).parameters.keys() - _OWN
        if unknown := sorted(given.keys() - known):
            raise ConfigurationError(
                f"spark holds arguments of a SparkSubmitOperator: {', '.join(sorted(known))}",
                unknown=unknown,
            )
        surroundings = find_surroundings(given["conn_id"])
        own = {"spark_binary": surroundings.spark_binary}
        given["env_vars"] = {**surroundings.env_vars, **(given.get("env_vars") or {})}
        given["py_files"] = ",".join(filter(None, (py_files, given.get("py_files"))))
        return SparkSubmitHook(
            **{**own, **given},
            application_args=[str(each) for each in arguments],
            deploy_mode="client",
        )


def _read_report(file: Path) -> Report:
    """Return how an application ended.

    Raises:
        SparkJobError: It ended before it could write that.
    """
    try:
        return Report.decode(file.read_bytes())
    except (OSError, *MALFORMED) as error:
        raise _spark_failed() from error


def _spark_failed() -> SparkJobError:
    return SparkJobError("the Spark application ended without a report: its output is in this log")
