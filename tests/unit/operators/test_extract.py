"""BinlogExtractOperator only assigns when it is constructed, and can be mapped."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.observability import stats

from airflow_provider_binlog import BinlogExtractOperator, BinlogSource, Limits
from airflow_provider_binlog.capture.extract import Extracted
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.arguments import read_globs
from airflow_provider_binlog.operators.extract import report_staged
from tests.contract.checkpoint import checkpoint
from tests.unit.staging.manifests import manifest

SHOP = BinlogSource("shop", start="now")


def extract(source: Any = SHOP, **arguments: Any) -> BinlogExtractOperator:
    given = {"staging_path": "/s", "tables": ["*.*"], **arguments}
    return BinlogExtractOperator(task_id="stage", source=source, **given)


def test_template_fields_are_attributes() -> None:
    operator = extract()

    assert all(hasattr(operator, name) for name in operator.template_fields)


def test_it_can_be_mapped_over_sources() -> None:
    with DAG("many", schedule=None) as dag:
        BinlogExtractOperator.partial(
            task_id="stage", staging_path="/s", tables=["*"], outlets=[Asset("changes")]
        ).expand(source=[SHOP, BinlogSource("crm", start="earliest")])

    assert dag.get_task("stage").is_mapped


def test_globs_are_a_list() -> None:
    assert read_globs(["shop.*", "crm.users"], "tables") == ("shop.*", "crm.users")
    assert read_globs(None, "exclude") == ()


@pytest.mark.parametrize("value", ["shop.*", [1], {"shop.*": None}, 5])
def test_other_values_than_a_list_of_globs_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="tables"):
        read_globs(value, "tables")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"before_images": "maybe"}, "before_images is one of key_changes, all .given=maybe"),
        ({"limits": {"part_bytes_max": 1}}, "limits are given as Limits"),
        ({"limits": Limits(part_bytes_max="much")}, "part_bytes_max=much"),
        ({"tables": "shop.*"}, "tables is a list of globs"),
        ({"source": "shop"}, "source is a BinlogSource"),
    ],
)
def test_bad_arguments_are_refused_before_the_server_is_queried(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        extract(**arguments)._stage("a run")


def test_what_is_staged_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, float] = {}

    def send(name: str, value: float, tags: dict[str, str]) -> None:
        assert tags == {"source": "shop"}
        sent[name] = value

    monkeypatch.setattr(stats, "incr", send)
    monkeypatch.setattr(stats, "gauge", send)
    first, second = manifest(1), manifest(2)
    extracted = Extracted((first, second), first.start, second.stop)

    report_staged(logging.getLogger(), extracted, checkpoint(0), "shop", "file:///staging")

    assert sent == {"binlog.rows": 6, "binlog.bytes": 2 * 1234, "binlog.quarantined_tables": 0}
