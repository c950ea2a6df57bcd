"""The operators of a backlog and of an archive only assign when they are constructed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog import (
    BinlogArchiveOperator,
    BinlogCommitOperator,
    BinlogPlanOperator,
    BinlogSource,
    BinlogSubRangeOperator,
)
from airflow_provider_binlog.capture.backlog.sub_ranges import BacklogPlan, store_plan
from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ConfigurationError, PositionPurgedError
from airflow_provider_binlog.limits import Limits, limits_in_bytes
from airflow_provider_binlog.operators import backlog
from airflow_provider_binlog.operators.backlog import _check_count, read_sub_range
from tests.support.stores import open_store
from tests.unit.spark.history import Source
from tests.unit.spark.staged_changes import INT

if TYPE_CHECKING:
    from pathlib import Path

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
    assert read_sub_range({"plan": "42-ab", "number": 3}) == ("42-ab", 3)
    assert read_sub_range({"plan": "42-ab", "number": 3, "rows": 5}) == ("42-ab", 3)
    for value in (None, "42-ab", {"plan": "42-ab"}, {"plan": "42-ab", "number": "three"}):
        with pytest.raises(ConfigurationError, match="the plan operator returned"):
            read_sub_range(value)


def test_a_sub_range_that_the_server_has_purged_says_where_else_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "open_log", Mock(side_effect=PositionPurgedError("purged")))
    sub_range = {"plan": "42-ab", "number": 3}
    operator = BinlogSubRangeOperator(task_id="sub_range", sub_range=sub_range, **STAGING)
    context: Any = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t")}

    with pytest.raises(AirflowFailException, match=r"BinlogSource\(files=.*plan the backlog again"):
        operator.execute(context)


def test_only_sub_ranges_of_one_plan_are_committed() -> None:
    both = [{"plan": name, "number": 0} for name in ("1-ab", "1-cd")]
    operator = BinlogCommitOperator(task_id="commit", sub_ranges=both, **STAGING)

    with pytest.raises(ConfigurationError, match="not those of one plan"):
        operator._commit("a run")
    operator.sub_ranges = None  # as where somebody marked the tasks before it as successful
    with pytest.raises(ConfigurationError, match="the tasks that staged them"):
        operator._commit("a run")


def test_a_commit_skips_what_the_checkpoint_covers_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where somebody clears a run that is finished."""
    store = open_store(f"file://{tmp_path}")
    source = Source(store, "shop")
    source.create("shop", "orders", {"id": INT}, ("id",)).insert(id=1)
    staged = source.commit()
    plan = BacklogPlan(
        **{each: getattr(staged, each) for each in ("identity", "sequence", "start", "stop")},
        source_name="shop",
        include=("*.*",),
        exclude=(),
        before_images=staged.before_images,
        zero_dates=staged.zero_dates,
        invalid_text=staged.invalid_text,
        on_table_error=OnTableError.FAIL,
        limits=limits_in_bytes(Limits()),
        wants_defaults=False,
        created_by="a run",
        captured_since=1,
        files=(),
        statements=(),
        server_tables=None,
        sub_ranges=(),
    )
    store_plan(plan, store)
    saved = Checkpoint(staged.identity, staged.stop, staged.sequence, "2026-11-22", "a run")
    monkeypatch.setattr(backlog, "AirflowVariableStore", dict)
    monkeypatch.setattr(backlog, "load", lambda *_: saved)
    operator = BinlogCommitOperator(
        task_id="commit",
        source=SHOP,
        staging_path=f"file://{tmp_path}",
        sub_ranges=[{"plan": plan.id, "number": 0}],
    )

    with pytest.raises(AirflowSkipException, match="covers it"):
        operator._commit("a run")


def test_more_sub_ranges_than_can_be_mapped_are_refused() -> None:
    _check_count(1024)

    with pytest.raises(ConfigurationError, match="raise target_bytes"):
        _check_count(1025)


def test_an_archive_is_of_a_server() -> None:
    source = BinlogSource("shop", files="/binlogs/", start=None)
    operator = BinlogArchiveOperator(task_id="archive", source=source, archive_path="/a")

    with pytest.raises(ConfigurationError, match="give conn_id"):
        operator._archive(source)
