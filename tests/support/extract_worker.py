"""The tasks of the operators, in processes that may be killed.

A fork of this process is ready at once, with Airflow and the engine loaded.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import airflow.sdk.execution_time.supervisor
import pyarrow.parquet
import s3fs
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import airflow_provider_binlog.capture.extract
import airflow_provider_binlog.snapshot.take
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.operators import backlog, extract, snapshot
from airflow_provider_binlog.operators.extract import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
)
from airflow_provider_binlog.operators.snapshot import BinlogSnapshotOperator
from airflow_provider_binlog.sensors import binlog
from airflow_provider_binlog.sources import file_log, server_log
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.support.worker import serve

_LOADED = (
    airflow.sdk.execution_time.supervisor,
    airflow_provider_binlog.capture.extract,
    airflow_provider_binlog.snapshot.take,
    file_log,
    pyarrow.parquet,
    s3fs,
    server_log,
)
"""What an extract would load when it runs: each fork has it already."""

Answer = tuple[str, Any]
"""`done` and what the operator returned; `skipped` or `failed` and why; or `killed`."""


@dataclass(frozen=True)
class Extract:
    """One try of an extract task.

    Attributes:
        variables: The folder that stands for Airflow's Variables.
        environment: Airflow's connections.
        arguments: The operator's.
        kill_after: The number of writes to the store after which it is killed; None for all.
        counts_variables: Whether a Variable that is set is such a write, too.
        operator: Whose task it is.
        frozen_after: The number of writes after which it is stopped once; None for all.
        frozen_seconds: For how long.
        memory_bytes: How much memory it may take beyond what it has; None for no limit.
        memory_group: The control group that it joins, which limits the memory that it takes from
            then on.
    """

    variables: Path
    environment: Mapping[str, str]
    arguments: Mapping[str, Any]
    kill_after: int | None = None
    counts_variables: bool = False
    operator: type[BaseOperator] = BinlogExtractOperator
    frozen_after: int | None = None
    frozen_seconds: float = 0
    memory_bytes: int | None = None
    memory_group: Path | None = None


@dataclass(frozen=True)
class Snapshot(Extract):
    """One try of a snapshot task: all tries are of one run."""

    operator: type[BaseOperator] = BinlogSnapshotOperator
    run: str = "run"


@dataclass
class _Writes:
    """The writes that are left to a process, and those until it is stopped; None for any number."""

    left: int | None = None
    until_frozen: int | None = None

    def begin(self) -> None:
        """Die or stop before a write if it is time."""
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.until_frozen is not None:
            self.until_frozen -= 1
            if self.until_frozen < 0:
                self.until_frozen = None
                os.kill(os.getpid(), signal.SIGSTOP)

    def end(self) -> None:
        """Count a write, and die after it if it is time."""
        if self.left is not None:
            self.left -= 1
            self.begin()


@dataclass
class _Variables:
    """Airflow's Variables, as files."""

    folder: Path
    writes: _Writes

    def get(self, key: str) -> str | None:
        path = self.folder / key
        return path.read_text() if path.exists() else None

    def set(self, key: str, value: str) -> None:
        self.writes.begin()
        self.folder.mkdir(exist_ok=True)
        (self.folder / key).write_text(value)
        self.writes.end()


class _MortalStore:
    """A store whose process dies when so much has been written."""

    def __init__(self, store: ObjectStore, writes: _Writes, starts: Barrier | None) -> None:
        self._store = store
        self._writes = writes
        self._starts = starts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, key: str, data: bytes) -> None:
        self._writes.begin()
        self._store.write(key, data)
        self._writes.end()

    def create(self, key: str, data: bytes) -> None:
        self._writes.begin()
        if self._starts is not None:
            # The first one of each: who loses here creates another later, alone.
            self._starts.wait(timeout=60)
            self._starts = None
        self._store.create(key, data)
        self._writes.end()


def run(task: Extract) -> Answer:
    """Run one task."""
    pid, reader = _start(task, None)
    if task.frozen_after is not None and os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
        time.sleep(task.frozen_seconds)
        os.kill(pid, signal.SIGCONT)
    return _await_end(pid, reader)


def race(tasks: Sequence[Extract]) -> list[Answer]:
    """Run extracts that all commit their first manifest at the same time."""
    starts = multiprocessing.get_context("fork").Barrier(len(tasks))
    started = [_start(task, starts) for task in tasks]
    return [_await_end(*each) for each in started]


def save(variables: Path, staged: dict[str, Any]) -> dict[str, Any]:
    """Run the checkpoint operator."""
    kept = _Variables(variables, _Writes())
    patch.object(extract, "AirflowVariableStore", lambda: kept).start()
    operator = BinlogCheckpointOperator(task_id="checkpoint", staged=staged)
    return operator.execute(context())


def _start(task: Extract, starts: Barrier | None) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(_extract(task, starts)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    return pid, reader


def _await_end(pid: int, reader: int) -> Answer:
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "killed", os.WTERMSIG(status)
    kind, value = json.loads(answer)
    return kind, value


def _extract(task: Extract, starts: Barrier | None) -> Answer:
    os.environ.update(task.environment)

    writes = _Writes(task.kill_after, task.frozen_after)
    variables = _Variables(task.variables, writes if task.counts_variables else _Writes())

    def open_mortal(location: str) -> Any:
        return _MortalStore(open_store(location), writes, starts)

    for module in (extract, snapshot, backlog, binlog):
        patch.object(module, "open_store", open_mortal).start()
    for module in (extract, backlog, binlog):
        patch.object(module, "AirflowVariableStore", lambda: variables).start()
    operator = task.operator(task_id="stage", **task.arguments)
    if task.memory_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + task.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if task.memory_group is not None:
        (task.memory_group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        return "done", operator.execute(context(getattr(task, "run", None)))
    except AirflowSkipException as error:
        return "skipped", str(error)
    except AirflowFailException as error:
        return "failed", str(error)
    except Exception as error:  # noqa: BLE001  The test says what it expected.
        return "raised", repr(error)


def context(run: str | None = None) -> Any:
    name = run or f"run {os.getpid()}"
    return {"ti": SimpleNamespace(dag_id="shop", run_id=name, task_id="stage")}


if __name__ == "__main__":
    # Asks every provider for its file systems, which takes seconds.
    open_store("file:///")
    serve({each.__name__: each for each in (run, race, save)})
