"""Whether a merge has nothing to do, seen from a task: then its Spark job is not submitted."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.spark.merge_options import parse_arguments
from airflow_provider_binlog.spark.merge_start import read_start
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.staging.object_store import ObjectStore


class StoredFiles:
    """The files staged for one source, as a task reaches them; a `SourceFiles`."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store, self._source = store, source

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        try:
            return self._store.read(self.locate(path))
        except ObjectMissingError:
            return None

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it does not exist."""
        return self._store.list(self.locate(folder))

    def locate(self, path: str) -> str:
        """Return the key of a file."""
        return f"{source_folder(self._source)}/{path}"


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
