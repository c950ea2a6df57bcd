"""A backlog in a DAG that Airflow runs: planned, mapped, committed, and checkpointed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.staging.manifest_log import ManifestLog
from tests.fixtures.mysql import Database, flush_log
from tests.support.lineage import file_transport, read_tasks
from tests.support.staged import apply_all
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.airflow import Airflow
    from tests.services.servers import Server

pytestmark = pytest.mark.server

DAG = """
from airflow.sdk import DAG
from airflow_provider_binlog import (
    BinlogCheckpointOperator, BinlogCommitOperator, BinlogPlanOperator, BinlogSource,
    BinlogSubRangeOperator,
)

STAGING = {{
    "source": BinlogSource("shop", start="{start}"), "staging_path": "{folder}/staging"
}}

with DAG("backlog", schedule=None):
    plan = BinlogPlanOperator(
        task_id="plan", tables=["{database}.*"], target_bytes="1 B", **STAGING
    )
    sub_range = BinlogSubRangeOperator.partial(task_id="sub_range", **STAGING).expand(
        sub_range=plan.output
    )
    commit = BinlogCommitOperator(task_id="commit", sub_ranges=sub_range.output, **STAGING)
    BinlogCheckpointOperator(task_id="checkpoint", staged=commit.output)
"""


def test_a_backlog_is_staged_by_mapped_tasks_and_then_there_is_none(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    create_dag: Callable[..., Airflow],
    tmp_path: Path,
) -> None:
    database = create_database(mysql97)
    file = flush_log(mysql97)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        *("INSERT INTO t VALUES (1, 1), (2, 2)", "FLUSH BINARY LOGS"),
        *("UPDATE t SET a = a + 1", "FLUSH BINARY LOGS", "DELETE FROM t WHERE id = 1"),
    )
    text = DAG.format(start=f"{file}:4", folder=tmp_path, database=database.name)
    airflow = create_dag(text, mysql97)
    lineage = airflow.home / "lineage.json"
    airflow.variables["AIRFLOW__OPENLINEAGE__TRANSPORT"] = file_transport(lineage)

    states = airflow.run_dag("backlog")

    assert set(states.values()) == {"success"}, states
    staged = airflow.returned("commit")
    assert (staged["first_sequence"], staged["last_sequence"]) == (1, 1)
    assert staged["changes"] == {"insert": 2, "update_postimage": 2, "delete": 1}
    assert airflow.returned("checkpoint")["sequence"] == 1
    assert [each["number"] for each in airflow.returned("plan")] == [0, 1, 2]
    store = open_store(f"file://{tmp_path}/staging")
    (manifest,), tables = apply_all(store, "shop")
    assert manifest == ManifestLog(store, "shop").load(1)
    assert [row["a"] for row in tables["t"].values()] == [3]
    server = f"mysql://{mysql97.host}:{mysql97.port}", f"{database.name}.t"
    (origins,) = (written.values() for task, _, written in read_tasks(lineage) if task == "commit")
    assert [*origins] == [{"id": (*server, "id"), "a": (*server, "a")}]
    assert airflow.run_dag("backlog")["plan"] == "skipped"
