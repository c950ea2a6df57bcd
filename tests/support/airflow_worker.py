"""Airflow in one process: runs DAGs on request, and is killed where a test says so."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.demo.worker import serve

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest


def run_dag(dag_id: str, year: int | None = None) -> str:
    """Run a DAG of the folder once, of now or of a year's first day; return the run's state."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    for file, error in bag.import_errors.items():
        raise ImportError(f"{file}: {error}")
    logical_date = None if year is None else datetime(year, 1, 1, tzinfo=UTC)
    return str(bag.dags[dag_id].test(logical_date=logical_date).state)


def die_after_manifest() -> None:
    """Kill the process as soon as it has committed a manifest, before it does anything else."""
    from airflow_provider_binlog.staging.manifest_log import ManifestLog

    commit = ManifestLog.commit

    def commit_and_die(self: ManifestLog, manifest: Manifest) -> None:
        commit(self, manifest)
        os.kill(os.getpid(), signal.SIGKILL)

    patch.object(ManifestLog, "commit", commit_and_die).start()


def merge_by(application: str) -> None:
    """Make the merge operator submit another application."""
    from airflow_provider_binlog.operators import merge

    patch.object(merge, "APPLICATION", Path(application)).start()


if __name__ == "__main__":
    serve({each.__name__: each for each in (run_dag, die_after_manifest, merge_by)})
