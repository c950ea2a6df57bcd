"""Airflow in one process: runs DAGs when told to, and dies where told to."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.demo.worker import serve

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest


def run_dag(dag_id: str) -> str:
    """Run a DAG of the folder once, and return the run's state."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    for file, error in bag.import_errors.items():
        raise ImportError(f"{file}: {error}")
    return str(bag.dags[dag_id].test().state)


def die_behind_manifest() -> None:
    """From now on the process is killed when a manifest has been sealed, and nothing else yet."""
    from airflow_provider_binlog.staging.manifest_log import ManifestLog

    seal = ManifestLog.seal

    def seal_and_die(self: ManifestLog, manifest: Manifest) -> None:
        seal(self, manifest)
        os.kill(os.getpid(), signal.SIGKILL)

    patch.object(ManifestLog, "seal", seal_and_die).start()


def merge_by(application: str) -> None:
    """From now on the merge operator submits another application."""
    from airflow_provider_binlog.operators import merge

    patch.object(merge, "APPLICATION", Path(application)).start()


if __name__ == "__main__":
    serve({each.__name__: each for each in (run_dag, die_behind_manifest, merge_by)})
