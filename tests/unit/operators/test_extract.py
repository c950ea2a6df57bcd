"""BinlogExtractOperator only assigns when it is made, and can be mapped."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.extract import BinlogExtractOperator, read_globs


def test_template_fields_are_attributes() -> None:
    operator = BinlogExtractOperator(
        task_id="stage", source="shop", staging_path="/s", tables=["shop.*"]
    )

    assert all(hasattr(operator, name) for name in operator.template_fields)


def test_it_can_be_mapped_over_sources() -> None:
    with DAG("many", schedule=None) as dag:
        BinlogExtractOperator.partial(
            task_id="stage", staging_path="/s", tables=["*"], outlets=[Asset("changes")]
        ).expand(source=["shop", "crm"])

    assert dag.get_task("stage").is_mapped


def test_globs_are_a_list() -> None:
    assert read_globs(["shop.*", "crm.users"], "tables") == ("shop.*", "crm.users")
    assert read_globs(None, "exclude") == ()


@pytest.mark.parametrize("value", ["shop.*", [1], {"shop.*": None}, 5])
def test_what_is_no_list_of_globs_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="tables"):
        read_globs(value, "tables")


@pytest.mark.parametrize(
    ("argument", "known"),
    [
        ("before_images", "key_changes, all"),
        ("zero_dates", "null, fail, text"),
        ("invalid_text", "fail, replace, binary"),
    ],
)
def test_another_choice_is_refused_before_anything_is_asked(argument: str, known: str) -> None:
    arguments: dict[str, Any] = {argument: "maybe"}
    operator = BinlogExtractOperator(
        task_id="stage", source="shop", staging_path="/s", tables=["*.*"], **arguments
    )

    with pytest.raises(ConfigurationError, match=f"{argument} is one of {known} .given=maybe"):
        operator._extract("a run")
