"""What submits a merge to Spark, without PySpark: its program, its output, and why it failed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

LOG_LEVEL = "spark.log.level"
QUIET = {LOG_LEVEL: "ERROR", "spark.ui.showConsoleProgress": "false"}
"""Settings of a job that logs errors alone."""

_NOISE = re.compile(
    # Spark logs so before its context exists, whatever its level is to be.
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN) "
    r"|Using Spark's default log4j profile|Setting Spark log level to"
    r"|WARNING: Using incubator modules|Picked up (_JAVA_OPTIONS|JAVA_TOOL_OPTIONS)"
    # Ivy, which resolves `packages` for each job.
    r"|::|Ivy Default Cache|The jars for the packages stored in|confs: \[|found \S+ in "
    r"|downloading http|\[SUCCESSFUL|\||-{9}|\S+ added as a dependency|\S+ (from|by) \S+ in \["
    r"|\d+ artifacts copied"
)
_REASON = re.compile(r"(?:Exception in thread \"[^\"]*\" )?([\w.$]*(?:Exception|Error)\b.*)")


def is_noise(line: str) -> bool:
    """Whether a line is one that Spark and Ivy print as they start."""
    return _NOISE.match(line) is not None


def find_reason(output: Iterable[str]) -> str:
    """Return why a spark-submit failed, by its output: the first exception, or the last line."""
    lines = [line for line in map(str.strip, output) if line]
    reasons = filter(None, map(_REASON.match, lines))
    return next((match[1] for match in reasons), lines[-1] if lines else "")


def find_spark_submit() -> str | None:
    """Return spark-submit of this environment's PySpark; None without, or if SPARK_HOME is set."""
    spec = None if os.environ.get("SPARK_HOME") else find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "spark-submit"
    return str(path) if path.exists() else None
