"""A store that fails under the tasks of a backlog and of a snapshot: each is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_provider_binlog.errors import StoreUnavailableError
from airflow_provider_binlog.operators import backlog
from airflow_provider_binlog.operators.backlog import (
    BinlogCommitOperator,
    BinlogPlanOperator,
    BinlogSubRangeOperator,
)
from airflow_provider_binlog.operators.snapshot import BinlogSnapshotOperator
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from tests.faults.faulty_s3 import FaultyS3, Request, once_each
from tests.faults.tasks import Tasks
from tests.faults.test_store import SMALL
from tests.fixtures.mysql import flush_log
from tests.support.extract_worker import context
from tests.support.snapshots import by_key, read_parts, rows_of

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(200)]

_TRIES_MAX = 10


@pytest.mark.fault("store-500", servers="mysql97 mariadb118", stores="s3")
@pytest.mark.fault("store-answer-lost", servers="mysql97 mariadb118", stores="s3")
@pytest.mark.fault("store-lag", servers="mysql97 mariadb118", stores="s3")
@pytest.mark.parametrize("fault", ["500", "lost", "stale"])
def test_a_backlog_and_a_snapshot(
    kind: str,
    fault: str,
    remote: Tasks,
    s3: FaultyS3,
) -> None:
    remote.run(limits=SMALL)
    remote.patch.setattr(backlog, "AirflowVariableStore", lambda: remote.variables)
    staged: dict[str, Any] = {"source": remote.source, "staging_path": remote.staging}

    def run(operator: type[BaseOperator], **arguments: Any) -> Any:
        s3.fault = lags if fault == "stale" else once_each(fault)
        task = operator(task_id="task", **staged, **arguments)
        return retried(lambda: task.execute(context(f"run {number}")))

    for number in (2, 5):
        for each in range(3):
            flush_log(remote.database.server)
            remote.change(number + each)
        planned = run(
            BinlogPlanOperator,
            tables=[f"{remote.database.name}.*"],
            limits=SMALL,
            target_bytes=1,
        )
        assert len(planned) > 2
        results = [run(BinlogSubRangeOperator, sub_range=each) for each in planned]
        remote.save(run(BinlogCommitOperator, sub_ranges=results))
        remote.check()

        table = f"{remote.database.name}.orders"
        taken = run(BinlogSnapshotOperator, table=table, chunk_bytes=4096)
        key = taken["manifest"].removeprefix(f"{remote.staging}/")
        manifest = SnapshotManifest.decode(remote.store.read(key))
        found = by_key(rows_of(read_parts(remote.store, manifest.parts)), ("id",))
        selected = remote.database.query("SELECT * FROM orders ORDER BY id")
        assert [tuple(row.values()) for _, row in sorted(found.items())] == selected
    s3.fault = lambda _: None
    # The snapshot waits for a manifest, be it one without changes.
    remote.run()
    remote.nothing_left()


def lags(request: Request) -> str | None:
    """Answer every list as it was first."""
    return "stale" if request.lists else None


def retried(task: Callable[[], Any]) -> Any:
    """Run a task as often as Airflow would."""
    for _ in range(_TRIES_MAX):
        try:
            return task()
        except StoreUnavailableError:
            continue
    raise AssertionError
