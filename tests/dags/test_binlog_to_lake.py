"""The one call gives the tasks that an author would write, wired as by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_binlog import (
    BinlogSource,
    TableOptions,
    binlog_to_lake,
    binlog_to_lake_dag,
)

SHOP = BinlogSource("shop", start="earliest")
LAKE: dict[str, Any] = {
    "tables": ["shop.*"],
    "staging_path": "s3://lake_s3@lake/staging",
    "format": "iceberg",
    "lake": "lake",
}

OPTIONS: dict[str, Any] = {
    "*": TableOptions(target="{{ params.stage }}.{database}_{table}"),
    "shop.visits": {"key": ["id"]},
}


def _wired(dag: DAG) -> dict[str, list[str]]:
    return {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks}


def test_its_dag_runs_once_at_a_time() -> None:
    dag = binlog_to_lake_dag("shop", SHOP, schedule="*/5 * * * *", dag={"tags": ["cdc"]}, **LAKE)

    assert (dag.dag_id, dag.max_active_runs, dag.catchup) == ("shop", 1, False)
    assert dag.tags == {"cdc"}
    assert _wired(dag) == {
        "changes": [],
        "plan": ["changes"],
        "snapshot": ["plan"],
        "snapshots_done": ["snapshot"],
        "stage": ["changes", "snapshots_done"],
        "merge": ["stage"],
        "checkpoint": ["merge", "stage"],
        "tables_live": ["merge", "snapshot"],
    }
    assert dag.get_task("snapshots_done").trigger_rule == "all_done"


def test_a_run_that_follows_stages_and_merges_side_by_side() -> None:
    dag = binlog_to_lake_dag(
        "shop", SHOP, schedule="@continuous", follow=timedelta(minutes=55), **LAKE
    )
    stage: Any = dag.get_task("stage")
    merge: Any = dag.get_task("merge")
    changes: Any = dag.get_task("changes")

    wired = _wired(dag)
    assert wired["stage"] == ["changes", "snapshots_done"]
    assert wired["merge"] == ["snapshots_done"]
    assert "checkpoint" not in wired
    assert (stage.follow, stage.every) == (timedelta(minutes=55), timedelta(seconds=5))
    assert merge.follow == timedelta(minutes=55)
    assert merge.staged == {"source": "shop", "staging_path": LAKE["staging_path"]}
    # It must not skip the run, and with it the tasks that wait for changes.
    assert changes.when_nothing_new == "proceed"


def test_a_table_that_is_not_live_fails_the_run_and_no_follower() -> None:
    with DAG("shop", schedule=None) as dag:
        binlog_to_lake(SHOP, group_id="lake", on_stale="warn", **LAKE) >> EmptyOperator(
            task_id="follows"
        )

    assert _wired(dag)["follows"] == ["lake.checkpoint"]
    leaf: Any = dag.get_task("lake_tables_live")
    assert leaf.upstream_task_ids == {"lake.snapshots.snapshot", "lake.merge"}
    assert leaf.downstream_task_ids == set()
    assert (leaf.trigger_rule, leaf.on_stale) == ("none_failed_min_one_success", "warn")


def test_more_arguments_reach_their_tasks() -> None:
    with DAG("shop", schedule=None) as dag:
        binlog_to_lake(
            SHOP,
            group_id="lake",
            exclude=["shop.tmp_*"],
            snapshot={"chunk_bytes": "8 MiB", "engine": "spark", "max_active_tis_per_dagrun": 2},
            changes={"max_lag": 900, "when_nothing_new": "wait"},
            extract={"stop": "{{ params.stop }}"},
            options=OPTIONS,
            merge={"conn_id": "spark_large"},
            **LAKE,
        )
    sensor: Any = dag.get_task("lake.changes")
    stage: Any = dag.get_task("lake.stage")
    merge: Any = dag.get_task("lake.merge")
    plan: Any = dag.get_task("lake.plan")
    snapshot: Any = dag.get_task("lake.snapshots.snapshot")

    assert (sensor.max_lag, sensor.when_nothing_new) == (900, "wait")
    assert (stage.exclude, stage.stop) == (["shop.tmp_*"], "{{ params.stop }}")
    assert (merge._conn_id, merge.format, merge.lake) == ("spark_large", "iceberg", "lake")
    assert snapshot.partial_kwargs["chunk_bytes"] == plan.chunk_bytes == "8 MiB"
    assert snapshot.partial_kwargs["engine"] == plan.engine == "spark"
    assert (plan.exclude, plan.lake) == (["shop.tmp_*"], "lake")
    assert plan.options == merge.options == OPTIONS


def test_options_of_tables_are_rendered_and_serialised() -> None:
    def make_dag() -> DAG:
        return binlog_to_lake_dag("shop", SHOP, schedule=None, options=OPTIONS, **LAKE)

    once, again = (
        json.dumps(DagSerialization.to_dict(make_dag()), sort_keys=True) for _ in range(2)
    )
    task: Any = make_dag().get_task("merge")
    task.staged = {}
    task.render_template_fields({"params": {"stage": "raw"}, "logical_date": datetime.now(UTC)})

    assert once == again
    assert task.options == {
        "*": TableOptions(target="raw.{database}_{table}"),
        "shop.visits": {"key": ["id"]},
    }
