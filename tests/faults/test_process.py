"""The process of a task: stopped for longer than each timeout, or short of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_binlog.limits import Limits
from tests.faults.tasks import READ_TIMEOUT, Tasks
from tests.fixtures.mysql import execute
from tests.support.extract_worker import Extract
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
def test_an_extract_that_gets_too_little_memory(
    kind: str, tasks: Tasks, worker: Worker, tmp_path: Path
) -> None:
    tasks.run()
    tasks.grow(2, 32)
    before = tasks.manifests()
    task = extract(tasks, tmp_path)

    for memory in (4 * MIB, 16 * MIB):
        answer, result = worker.call("run", replace(task, memory_bytes=memory))

        assert answer == "raised", result
        assert "MemoryExhaustedError" in result
        assert "lower limits=" in result
        assert tasks.manifests() == before
    answer, result = worker.call("run", replace(task, memory_bytes=128 * MIB))
    assert answer == "done", result

    tasks.save(result)
    tasks.check()
    tasks.nothing_left()
