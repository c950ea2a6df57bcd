"""Airflow in one process: runs DAGs on request, and is killed where a test says so."""

from __future__ import annotations

import os
import signal
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.support.worker import serve

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


def run_command(words: list[str]) -> str:
    """Run a command of Airflow's command line; return what it prints.

    Raises:
        ValueError: It ends with another code than 0.
    """
    from airflow.cli.cli_parser import get_parser

    with redirect_stdout(StringIO()) as printed, redirect_stderr(printed):
        try:
            arguments = get_parser().parse_args(words)
            arguments.func(arguments)
        except SystemExit as ended:
            if ended.code:
                raise ValueError(f"{words} ends with {ended.code}: {printed.getvalue()}") from ended
    return printed.getvalue()


def supervise_tasks() -> None:
    """Run every task as a worker does: in a process of its own, which parses the DAG again."""
    from airflow.executors.workloads import BundleInfo
    from airflow.models import TaskInstance
    from airflow.sdk.execution_time import supervisor
    from airflow.utils.session import create_session

    in_process: Any = supervisor.InProcessTestSupervisor

    def run(ti: Any, task: Any) -> SimpleNamespace:
        supervisor.supervise_task(
            ti=ti,
            bundle_info=BundleInfo(name="dags-folder"),
            dag_rel_path=Path(task.dag.fileloc).name,
            token="",
            client=in_process._api_client(task.dag),
            subprocess_logs_to_stdout=True,
        )
        with create_session() as session:
            found: Any = session.get(TaskInstance, ti.id)
            ended = SimpleNamespace(state=found.state, task=task)
        return SimpleNamespace(msg=None, ti=ended)

    patch.object(supervisor, "run_task_in_process", run).start()


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
    served = run_dag, run_command, supervise_tasks, die_after_manifest, merge_by
    serve({each.__name__: each for each in served})
