"""The operators of a backlog and of an archive only assign when they are constructed."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_binlog import (
    BinlogArchiveOperator,
    BinlogCommitOperator,
    BinlogPlanOperator,
    BinlogSource,
    BinlogSubRangeOperator,
)
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.backlog import check_count, read_sub_range

SHOP = BinlogSource("shop", start="now")
STAGING: dict[str, Any] = {"source": SHOP, "staging_path": "/s"}


def test_a_backlog_is_three_tasks_of_which_one_is_mapped() -> None:
    with DAG("backlog", schedule=None) as dag:
        plan = BinlogPlanOperator(task_id="plan", tables=["shop.*"], **STAGING)
        sub_range = BinlogSubRangeOperator.partial(task_id="sub_range", **STAGING).expand(
            sub_range=plan.output
        )
        commit = BinlogCommitOperator(task_id="commit", sub_ranges=sub_range.output, **STAGING)
        archive = BinlogArchiveOperator(task_id="archive", source=SHOP, archive_path="/a")

    assert dag.get_task("sub_range").is_mapped
    assert commit.upstream_task_ids == {"sub_range"}
    for each in (plan, commit, archive):
        assert all(hasattr(each, name) for name in each.template_fields)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"target_bytes": "much"}, "target_bytes=much"),
        ({"tables": "shop.*"}, "tables is a list of globs"),
    ],
)
def test_a_plan_refuses_bad_arguments_before_the_server_is_queried(
    arguments: dict[str, Any], says: str
) -> None:
    operator = BinlogPlanOperator(task_id="plan", **{"tables": ["*.*"], **STAGING, **arguments})

    with pytest.raises(ConfigurationError, match=says):
        operator._plan("a run")


def test_a_sub_range_is_what_a_plan_returned() -> None:
    assert read_sub_range({"plan": "42-ab", "number": 3, "server_id": 9}) == ("42-ab", 3, 9)
    assert read_sub_range({"plan": "42-ab", "number": 3, "rows": 5}) == ("42-ab", 3, None)
    for value in (None, "42-ab", {"plan": "42-ab"}, {"plan": "42-ab", "number": "three"}):
        with pytest.raises(ConfigurationError, match="the plan operator returned"):
            read_sub_range(value)


def test_only_sub_ranges_of_one_plan_are_committed() -> None:
    both = [{"plan": name, "number": 0} for name in ("1-ab", "1-cd")]
    operator = BinlogCommitOperator(task_id="commit", sub_ranges=both, **STAGING)

    with pytest.raises(ConfigurationError, match="not those of one plan"):
        operator._commit("a run")


def test_more_sub_ranges_than_can_be_mapped_are_refused() -> None:
    check_count(1024)

    with pytest.raises(ConfigurationError, match="raise target_bytes"):
        check_count(1025)


def test_an_archive_is_of_a_server() -> None:
    source = BinlogSource("shop", files="/binlogs/", start=None)
    operator = BinlogArchiveOperator(task_id="archive", source=source, archive_path="/a")

    with pytest.raises(ConfigurationError, match="give conn_id"):
        operator._archive(source)
