"""Chunks of tables that mapped tasks of a DAG share, which Airflow runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from tests.integration.test_snapshot import fill
from tests.support.snapshots import SOURCE, read_parts, rows_of
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.services.servers import Server

pytestmark = [pytest.mark.server, pytest.mark.slow]

DAG = """
from airflow.sdk import DAG
from airflow_provider_binlog import (
    BinlogSnapshotChunksOperator, BinlogSnapshotCommitOperator, BinlogSnapshotOperator,
    BinlogSource,
)

STAGING = {{
    "source": BinlogSource("{source}", start="now"), "staging_path": "{folder}/staging"
}}

with DAG("snapshots", schedule=None):
    share = BinlogSnapshotChunksOperator(
        task_id="share",
        tables=["{database}.numbers", "{database}.nothing"],
        chunk_bytes=4096,
        max_tasks=4,
        **STAGING,
    )
    read = BinlogSnapshotOperator.partial(task_id="read", **STAGING).expand_kwargs(share.output)
    commit = BinlogSnapshotCommitOperator(task_id="commit", chunks=share.output, **STAGING)
    read >> commit
"""


def test_mapped_tasks_of_a_dag_share_the_chunks_of_tables(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    create_airflow: Callable[..., Airflow],
    tmp_path: Path,
) -> None:
    database = create_database(mysql97)
    fill(database)
    database.execute("CREATE TABLE nothing (id INT PRIMARY KEY)")
    (tmp_path / "dags").mkdir()
    text = DAG.format(source=SOURCE, folder=tmp_path, database=database.name)
    (tmp_path / "dags" / "snapshots.py").write_text(text)
    account = mysql97.account
    connection = {
        "conn_type": "binlog",
        "host": account.host,
        "port": account.port,
        "login": account.user,
        "password": account.password,
        "extra": {"ssl_mode": "disabled"},
    }
    airflow = create_airflow(
        AIRFLOW__CORE__DAGS_FOLDER=str(tmp_path / "dags"),
        AIRFLOW_CONN_BINLOG_DEFAULT=json.dumps(connection),
    )

    states = airflow.run_dag("snapshots")

    assert set(states.values()) == {"success"}, states
    tables = [each["table"].partition(".")[2] for each in airflow.returned("share")]
    assert tables == ["numbers", "numbers", "numbers", "nothing"]
    numbers, nothing = airflow.returned("commit")
    assert (numbers["rows"], nothing["rows"]) == (400, 0)
    assert numbers["chunks"] > 3
    manifest = SnapshotManifest.decode(Path(numbers["manifest"]).read_bytes())
    rows = rows_of(read_parts(open_store(f"{tmp_path}/staging"), manifest.parts))
    assert [row["id"] for row in rows] == list(range(400))
