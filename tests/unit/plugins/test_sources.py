"""Which sources a person sees, by the task instances that Airflow's API returns."""

from __future__ import annotations

from typing import Any

from airflow_provider_binlog.plugins.sources import Source, TaskRun, find_sources

SHOP = {"name": "shop", "conn_id": "shop_db", "files": None, "failover": "refuse"}


def run(operator: str, *, dag: str = "shop", hour: int = 10, **fields: Any) -> TaskRun:
    """A task instance as the API has it."""
    return TaskRun.read(
        {
            "dag_id": dag,
            "dag_run_id": f"scheduled__2026-11-24T{hour}:00:00+00:00",
            "task_id": operator.lower(),
            "map_index": -1,
            "operator": operator,
            "state": "success",
            "start_date": f"2026-11-24T{hour}:00:00Z",
            "end_date": f"2026-11-24T{hour}:01:00Z",
            "rendered_fields": fields,
        }
    )


def extract(name: str = "shop", path: str = "s3://lake/staging", **more: Any) -> TaskRun:
    return run("BinlogExtractOperator", source={**SHOP, "name": name}, staging_path=path, **more)


def sources_of(*runs: TaskRun) -> list[Source]:
    return find_sources(runs)


def test_a_source_is_what_the_fields_of_its_tasks_say() -> None:
    plan = run(
        "BinlogSnapshotPlanOperator", source=SHOP, staging_path="s3://lake/staging/", reload="[]"
    )

    (source,) = sources_of(extract(hour=11), plan)

    assert (source.name, source.staging_path) == ("shop", "s3://lake/staging")
    assert (source.conn_id, source.reloads) == ("shop_db", True)
    assert [each.operator for each in source.runs] == [
        "BinlogExtractOperator",
        "BinlogSnapshotPlanOperator",
    ]


def test_the_dag_that_captures_a_source_is_its_first() -> None:
    staged = {"source": "shop", "staging_path": "s3://lake/staging"}
    merge = run("BinlogMergeOperator", dag="lake", staged=staged, hour=12)

    (source,) = sources_of(merge, extract())

    assert (source.dags, source.dag_id) == (("shop", "lake"), "shop")
    assert source.merges == (merge,)


def test_a_plan_that_knows_no_reload_reloads_nothing() -> None:
    plan = run("BinlogSnapshotPlanOperator", source=SHOP, staging_path="s3://lake/staging")

    assert [source.reloads for source in sources_of(plan)] == [False]


def test_a_merge_whose_fields_were_cut_is_that_of_its_dags_only_source() -> None:
    merge = run("BinlogMergeOperator", staged="Truncated. You can change this behaviour …")

    assert [source.merges for source in sources_of(merge, extract())] == [(merge,)]
    assert [source.merges for source in sources_of(merge, extract(), extract("other"))] == [(), ()]


def test_sources_of_one_name_in_two_stores_are_two() -> None:
    found = sources_of(extract(path="s3://a"), extract(path="s3://b"), extract(path="s3://a/"))

    assert [source.staging_path for source in found] == ["s3://a", "s3://b"]


def test_a_source_of_files_has_no_connection() -> None:
    files = run(
        "BinlogExtractOperator", source={**SHOP, "files": "/logs"}, staging_path="s3://lake"
    )

    assert [source.conn_id for source in sources_of(files)] == [""]


def test_fields_of_any_form_are_no_source() -> None:
    for fields in ({}, {"source": "shop"}, {"source": {"name": 1}, "staging_path": "s3://lake"},
                   {"source": SHOP}, {"staged": ["shop"]}):  # fmt: skip
        assert sources_of(run("BinlogExtractOperator", **fields)) == []


def test_what_has_not_started_is_running() -> None:
    assert not extract().is_running
    waiting = TaskRun.read(
        {
            "dag_id": "shop",
            "dag_run_id": "manual",
            "task_id": "stage",
            "map_index": -1,
            "operator": None,
            "state": None,
            "start_date": None,
            "end_date": None,
            "rendered_fields": None,
        }
    )
    assert waiting.is_running
