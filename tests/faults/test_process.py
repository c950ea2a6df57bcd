"""The process of a task: stopped for longer than each timeout, or short of memory."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles
from tests.faults.memory_group import MemoryGroup
from tests.faults.tasks import READ_TIMEOUT, Tasks
from tests.fixtures.mysql import execute
from tests.support.extract_worker import Extract, Snapshot
from tests.support.snapshots import read_parts, rows_of
from tests.support.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.timeout(200)]

SMALL = Limits(part_bytes_max=200_000, pending_bytes_max=1_000_000)
MIB = 1 << 20


@pytest.fixture
def impatient(tasks: Tasks) -> Iterator[Tasks]:
    """The tasks over a server that ends a session which takes nothing for a second."""
    server = tasks.database.server
    execute(server, "SET GLOBAL net_write_timeout = 1", "SET GLOBAL net_retry_count = 1")
    yield tasks
    execute(
        server, "SET GLOBAL net_write_timeout = DEFAULT", "SET GLOBAL net_retry_count = DEFAULT"
    )


def extract(tasks: Tasks, folder: Path) -> Extract:
    """Return the extract task, to be run in a process of its own."""
    variables = folder / "variables"
    variables.mkdir(exist_ok=True)
    for key, value in tasks.variables.items():
        (variables / key).write_text(value)
    arguments = {
        "source": {"name": tasks.source.name, "start": tasks.source.start},
        "staging_path": tasks.staging,
        "tables": [f"{tasks.database.name}.*"],
        "limits": SMALL,
    }
    return Extract(variables, {"AIRFLOW_CONN_BINLOG_DEFAULT": tasks.connection()}, arguments)


def snapshot(tasks: Tasks, folder: Path) -> Snapshot:
    """Return the task that takes a snapshot of the table, to be run in a process of its own."""
    arguments = {
        "source": {"name": tasks.source.name},
        "staging_path": tasks.staging,
        "table": f"{tasks.database.name}.orders",
        "limits": SMALL,
    }
    environment = {"AIRFLOW_CONN_BINLOG_DEFAULT": tasks.connection()}
    return Snapshot(folder / "variables", environment, arguments)


Make = Callable[[Tasks, Path], Extract]


@pytest.mark.fault("task-frozen", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_an_extract_stopped_for_longer_than_each_timeout(
    kind: str, impatient: Tasks, worker: Worker, tmp_path: Path
) -> None:
    """Its own session asks the server for more patience, while most of the log is not sent yet."""
    tasks = impatient
    tasks.run()
    tasks.grow(2, 64)
    task = replace(extract(tasks, tmp_path), frozen_after=0, frozen_seconds=READ_TIMEOUT + 1)

    answer, result = worker.call("run", task)

    assert answer == "done", result
    tasks.save(result)
    tasks.check()
    tasks.nothing_left()


@pytest.mark.fault("memory", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
@pytest.mark.parametrize("make", [extract, pytest.param(snapshot, marks=pytest.mark.slow)])
def test_a_task_that_gets_too_little_memory(
    kind: str, make: Make, tasks: Tasks, worker: Worker, tmp_path: Path
) -> None:
    tasks.run()
    tasks.grow(2, 32)
    task = make(tasks, tmp_path)

    for memory in (4 * MIB, 16 * MIB):
        answer, result = worker.call("run", replace(task, memory_bytes=memory))

        if answer == "killed":
            # Arrow ends the process where it gets no memory in between.
            assert (make, result) == (snapshot, signal.SIGABRT)
        else:
            assert answer == "raised", result
            assert "MemoryExhaustedError" in result
            assert "lower limits=" in result
        assert visible(tasks) == [(1, [])]
    finish(tasks, worker, replace(task, memory_bytes=128 * MIB))


@pytest.mark.slow
@pytest.mark.fault("memory-killed", servers="mysql97 mariadb118", stores="file")
@pytest.mark.parametrize("make", [extract, snapshot])
def test_a_task_that_the_kernel_kills_for_its_memory(
    *,
    kind: str,
    make: Make,
    tasks: Tasks,
    worker: Worker,
    memory_group: MemoryGroup,
    tmp_path: Path,
) -> None:
    """As that of a container, which says nothing before."""
    tasks.run()
    tasks.grow(2, 32)
    task = replace(make(tasks, tmp_path), memory_group=memory_group.folder)

    for memory in (4 * MIB, 16 * MIB):
        memory_group.limit(memory)
        assert worker.call("run", task) == ("killed", signal.SIGKILL)
        assert visible(tasks) == [(1, [])]
    memory_group.limit(160 * MIB)
    finish(tasks, worker, task)


def visible(tasks: Tasks) -> list[tuple[int, list[str]]]:
    """Return the numbers of the manifests, and the complete snapshots."""
    snapshots = Snapshots(StoredFiles(tasks.store, tasks.source.name)).ids()
    return [(len(tasks.manifests()), list(snapshots))]


def finish(tasks: Tasks, worker: Worker, task: Extract) -> None:
    """Run a task, which succeeds, and compare what it staged with SELECT."""
    answer, result = worker.call("run", task)

    assert answer == "done", result
    if isinstance(task, Snapshot):
        manifest = Snapshots(StoredFiles(tasks.store, tasks.source.name)).read(result["snapshot"])
        rows = rows_of(read_parts(tasks.store, manifest.parts))
        selected = tasks.database.query("SELECT * FROM orders ORDER BY id")
        assert sorted(tuple(row.values()) for row in rows) == selected
        return
    tasks.save(result)
    tasks.check()
    tasks.nothing_left()
