"""A spark-submit of Airflow's: its connection, how it starts, what is logged, why it failed."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.binlog import find_connection
from airflow_provider_binlog.spark.job.submit import (
    LOG_LEVEL,
    QUIET,
    find_reason,
    find_spark_submit,
    is_noise,
)

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_OUTPUT = "Last spark-submit output:\n"


class SubmitEnvironment(NamedTuple):
    """The program and the variables that submit a job; for a cluster both are Airflow's own.

    `spark_binary` is None for the first one on the PATH. The output of a job whose driver runs in a
    cluster is not in the task's log.
    """

    spark_binary: str | None
    env_vars: dict[str, str]
    in_cluster: bool


def find_environment(conn_id: str, deploy_mode: str | None = None) -> SubmitEnvironment:
    """Return what submits to a Spark connection."""
    # The hook does not check: without a connection it submits to YARN.
    connection = find_connection(
        conn_id,
        "the Spark connection does not exist, or its URI cannot be read (a master such as "
        'local[2] takes the JSON form {"conn_type": "spark", "host": "local[2]"})',
    )
    mode = deploy_mode or connection.extra_dejson.get("deploy-mode")
    if not re.match(r"local(-cluster)?(\[|$)", connection.host or ""):
        return SubmitEnvironment(None, {}, in_cluster=mode == "cluster")
    # A local master: use the Spark and Python of Airflow's environment, not the first on the PATH.
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return SubmitEnvironment(find_spark_submit(), python, in_cluster=False)


def need_client(what: str) -> ConfigurationError:
    """Return the refusal of a driver in a cluster, where a file of the task is not."""
    return ConfigurationError(
        f"{what} is beside the task, where the driver runs if deploy_mode is client",
        deploy_mode="cluster",
    )


def quiet_conf(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a job that logs errors alone, unless they say otherwise."""
    return {**QUIET, **(conf or {})}


@contextmanager
def shared_classes(archive: str | None, conf: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the settings of a job whose JVM starts from an archive of its classes, if one is named.

    Where there is no such file, the JVM writes it as it ends (`java`, "Class Data Sharing"), and it
    is kept if the body succeeds: a JVM crashes that reads one which was cut.

    Raises:
        ConfigurationError: The folder of the file cannot be made.
    """
    given = {**(conf or {})}
    if not archive:
        yield given
        return
    file = Path(archive).expanduser()
    if file.exists():
        yield _with_java_option(given, f"-XX:SharedArchiveFile={file}")
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            "the folder of shared_archive= cannot be made: name one that Airflow may write to",
            shared_archive=archive,
            cause=error,
        ) from error
    written = file.with_name(f"{file.name}.{uuid4().hex}")
    try:
        yield _with_java_option(given, f"-XX:ArchiveClassesAtExit={written}")
        if written.exists():
            written.replace(file)
    finally:
        written.unlink(missing_ok=True)


def _with_java_option(conf: Mapping[str, Any], option: str) -> dict[str, Any]:
    options = f"{conf.get(_JAVA_OPTIONS, '')} {shlex.quote(option)}".strip()
    return {**conf, _JAVA_OPTIONS: options}


class JobLog:
    """A logger of a SparkSubmitHook without what Spark and Ivy print as they start."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, event: str, *arguments: Any, **context: Any) -> None:
        """Log a message of the hook, or a line of the job."""
        if arguments or not is_noise(event):
            self._log.info(event, *arguments, **context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def silence(hook: Any, conf: Mapping[str, Any] | None) -> None:
    """Leave out of a hook's log what Spark and Ivy print, unless a log level was chosen."""
    if LOG_LEVEL not in (conf or {}):
        hook._log = JobLog(hook.log)  # noqa: SLF001  There is no public way to one hook's logger.


def explain_failure(failure: Exception) -> str:
    """Return why a spark-submit failed, by what a hook has raised for it."""
    _, found, output = str(failure).partition(_OUTPUT)
    return (found and find_reason(output.splitlines())) or str(failure)
