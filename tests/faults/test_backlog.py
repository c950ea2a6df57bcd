"""The tasks of a backlog, and those around them, killed at any write: the next try continues."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.operators.backlog import (
    BinlogCommitOperator,
    BinlogPlanOperator,
    BinlogSubRangeOperator,
)
from airflow_provider_binlog.operators.extract import BinlogCheckpointOperator
from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor
from tests.faults.tasks import Tasks
from tests.fixtures.mysql import flush_log
from tests.support.extract_worker import Extract
from tests.support.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.timeout(200)]

SMALL = Limits(part_bytes_max=400, pending_bytes_max=1000)


@pytest.mark.slow
@pytest.mark.fault(
    "backlog-killed", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_each_task_of_a_backlog_killed_anywhere(
    kind: str, tasks: Tasks, worker: Worker, tmp_path: Path
) -> None:
    for number in (2, 3, 4):
        flush_log(tasks.database.server)
        tasks.change(number)
    source = {"name": tasks.source.name, "start": tasks.source.start}
    variables = tmp_path / "variables"
    environment = {"AIRFLOW_CONN_BINLOG_DEFAULT": tasks.connection()}
    staged = {"source": source, "staging_path": tasks.staging}

    def run_until_done(operator: type[BaseOperator], **arguments: Any) -> tuple[Any, int]:
        """Kill a task one write later each time; return its result, and how many writes it did."""
        for writes in count():
            task = Extract(variables, environment, arguments, writes, True, operator)
            answer, result = worker.call("run", task)
            if answer == "done":
                return result, writes
            assert (answer, result) == ("killed", signal.SIGKILL)
        raise AssertionError

    _, writes = run_until_done(BinlogPositionSensor, **staged)
    assert writes == 0
    planned, writes = run_until_done(
        BinlogPlanOperator,
        tables=[f"{tasks.database.name}.*"],
        limits=SMALL,
        target_bytes=1,
        **staged,
    )
    assert (len(planned), writes > 0) == (4, True)
    results = []
    for each in planned:
        result, writes = run_until_done(BinlogSubRangeOperator, sub_range=each, **staged)
        assert writes > 2
        results.append(result)
    assert tasks.manifests() == []
    committed, writes = run_until_done(BinlogCommitOperator, sub_ranges=results, **staged)
    assert writes > 0
    _, writes = run_until_done(BinlogCheckpointOperator, staged=committed)
    assert writes == 2

    tasks.variables.update({path.name: path.read_text() for path in variables.iterdir()})
    tasks.check()
    tasks.nothing_left()
