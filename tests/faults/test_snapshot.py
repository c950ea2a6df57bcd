"""A snapshot that is killed or cut at any step: the retry reads on, and has every row once."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_binlog.errors import ConnectionLostError
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.sources.settings import ConnectionSettings
from tests.faults.gate import Gate
from tests.faults.tasks import Tasks
from tests.support.extract_worker import Snapshot
from tests.support.snapshots import by_key, read_parts, rows_of, take
from tests.support.stores import open_store
from tests.support.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.timeout(200)]

ROWS = 300
CHUNK_BYTES = 4096


def fill(tasks: Tasks) -> None:
    """Make a table that is read in several chunks."""
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
    tasks.database.execute(
        "CREATE TABLE numbers (id INT PRIMARY KEY, text VARCHAR(40))",
        f"INSERT INTO numbers VALUES {rows}",
        "ANALYZE TABLE numbers",
    )


def check(tasks: Tasks, manifest: SnapshotManifest) -> None:
    """Compare a snapshot with SELECT."""
    found = by_key(rows_of(read_parts(tasks.store, manifest.parts)), ("id",))
    selected = tasks.database.query("SELECT * FROM numbers ORDER BY id")
    assert [tuple(row.values()) for _, row in sorted(found.items())] == selected


@pytest.mark.slow
@pytest.mark.fault(
    "snapshot-killed", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_a_snapshot_killed_anywhere(
    kind: str, tasks: Tasks, worker: Worker, tmp_path: Path
) -> None:
    """Before each of its writes in turn; all tries are of one run, or each of another one."""
    fill(tasks)
    server = tasks.database.server
    fields = {"conn_type": "binlog", "host": server.host, "port": server.port, "login": "root"}
    environment = {
        "AIRFLOW_CONN_BINLOG_DEFAULT": json.dumps(fields | {"extra": {"ssl_mode": "disabled"}})
    }
    arguments = {
        "source": {"name": "shop"},
        "staging_path": tasks.staging,
        "table": f"{tasks.database.name}.numbers",
        "chunk_bytes": CHUNK_BYTES,
    }
    task = Snapshot(tmp_path / "variables", environment, arguments)
    number = 0
    while True:
        killed = replace(task, kill_after=number, run=f"run {number}")
        kind_, why = worker.call("run", killed)
        if kind_ == "done":
            break
        assert (kind_, why) == ("killed", signal.SIGKILL)
        done, taken = worker.call("run", replace(killed, kill_after=None))
        assert done == "done", taken
        check(tasks, manifest_of(taken))
        assert worker.call("run", replace(killed, kill_after=None)) == ("done", taken)
        number += 1
    assert number > 6


def manifest_of(taken: dict[str, Any]) -> SnapshotManifest:
    folder, _, name = taken["manifest"].rpartition("/")
    return SnapshotManifest.decode(open_store(folder).read(name))


@pytest.mark.slow
@pytest.mark.fault("snapshot-cut", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_snapshot_cut_anywhere(kind: str, tasks: Tasks, gate: Gate) -> None:
    fill(tasks)
    settings = ConnectionSettings(gate.host, gate.port, "root", read_timeout=1)
    store = tasks.store

    def read(run: str) -> SnapshotManifest:
        arguments = {"source_name": "shop", "created_by": run, "chunk_bytes": CHUNK_BYTES}
        return take(tasks.database, "numbers", store, connect=settings.connect, **arguments)

    check(tasks, read("whole"))
    whole = gate.passed
    for number in range(24):
        size = whole * number // 24
        gate.reset()
        if number % 8 == 7:
            gate.hold_after = size
        else:
            gate.cut_after = size
        with pytest.raises(ConnectionLostError):
            read(f"run {number}")
        gate.open_again()
        check(tasks, read(f"run {number}"))
