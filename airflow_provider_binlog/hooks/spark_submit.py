"""A spark-submit: its program, what of its output is logged, and why it failed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from airflow_provider_binlog.hooks.binlog import find_connection

LOG_LEVEL = "spark.log.level"
_QUIET = {LOG_LEVEL: "ERROR", "spark.ui.showConsoleProgress": "false"}

_NOISE = re.compile(
    # Spark logs so before its context exists, whatever its level is to be.
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN) "
    r"|Using Spark's default log4j profile|Setting Spark log level to"
    r"|WARNING: Using incubator modules|Picked up (_JAVA_OPTIONS|JAVA_TOOL_OPTIONS)"
    # Ivy, which resolves `packages` for each job.
    r"|::|:: \w|Ivy Default Cache|The jars for the packages stored in|confs: \[|found \S+ in "
    r"|downloading http|\[SUCCESSFUL|\||-{9}|\S+ added as a dependency|\S+ (from|by) \S+ in \["
    r"|\d+ artifacts copied"
)
_REASON = re.compile(r"(?:Exception in thread \"[^\"]*\" )?([\w.$]*(?:Exception|Error)\b.*)")
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
    return SubmitEnvironment(find_own_spark_submit(), python, in_cluster=False)


def find_own_spark_submit() -> str | None:
    """Return spark-submit of this environment's PySpark; None without, or if SPARK_HOME is set."""
    spec = None if os.environ.get("SPARK_HOME") else find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "spark-submit"
    return str(path) if path.exists() else None


def quiet_conf(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a job that logs errors alone, unless they say otherwise."""
    return {**_QUIET, **(conf or {})}


class JobLog:
    """A logger of a SparkSubmitHook without what Spark and Ivy print as they start."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, event: str, *arguments: Any, **context: Any) -> None:
        """Log a message of the hook, or a line of the job."""
        if arguments or not _NOISE.match(event):
            self._log.info(event, *arguments, **context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def silence(hook: Any, conf: Mapping[str, Any] | None) -> None:
    """Leave out of a hook's log what Spark and Ivy print, unless a log level was chosen."""
    if LOG_LEVEL not in (conf or {}):
        hook._log = JobLog(hook.log)  # noqa: SLF001  There is no public way to one hook's logger.


def find_reason(failure: Exception) -> str:
    """Return why a spark-submit failed: its first exception, or the last line that it printed."""
    _, found, output = str(failure).partition(_OUTPUT)
    lines = [line for line in map(str.strip, output.splitlines()) if line]
    if not found or not lines:
        return str(failure)
    reasons = filter(None, map(_REASON.match, lines))
    return next((match[1] for match in reasons), lines[-1])
