"""Whether a merge has nothing to do, seen from a task: then its Spark job is not submitted."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.job.options import parse_arguments
from airflow_provider_binlog.spark.merge.start import read_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.staging.paths import StoredFiles


def find_idle_report(files: StoredFiles, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the report of a job that would find nothing to do; None if there may be something.

    Args:
        files: The files staged for the job's source.
        arguments: The job's.

    Raises:
        ManifestError: The progress file is not one of ours.
    """
    started = time.monotonic()
    options, _ = parse_arguments(arguments)
    start = read_start(files, options)
    if not start.is_idle:
        return None
    report: dict[str, Any] = json.loads(start.idle_report(time.monotonic() - started).to_json())
    return report
