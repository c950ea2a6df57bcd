"""A table that is not live makes a task fail, or a message; a live one makes neither."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias, BaseNotifier, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog import BinlogMergeOperator, BinlogNotLiveNotifier
from airflow_provider_binlog.hooks.tasks import add_to_aliases, lake_asset, pass_to_outlets
from airflow_provider_binlog.operators.merge_report import (
    describe_for_aliases,
    describe_for_asset,
    describe_merge,
    list_merged,
)
from airflow_provider_binlog.operators.tables_live import BinlogTablesLiveOperator

ORDERS = {
    "table": "shop.orders",
    "target": "delta.`s3a://lake/tables/shop/orders`",
    "status": "merged",
    "reason": "",
    "rows": {"inserted": 1_204, "updated": 0, "deleted": None},
    "seconds": 4.06,
    "version": 7,
}
PARTS = {
    "table": "shop.parts",
    "target": "delta.`s3a://lake/tables/shop/parts`",
    "status": "stale",
    "reason": "a partition was truncated: reload the table",
    "position": "binlog.000007:5120",
    "since": "2026-11-22T09:15:07+00:00",
    "rows": {},
}
REPORT: dict[str, Any] = {
    "source": "shop",
    "through": 42,
    "stop": {"file": "binlog.000007", "offset": 9310, "gtid": "a-very-long-one"},
    "versions": {"shop.orders": 7},
    "published": "a record",
    "tables": [ORDERS, PARTS],
}
LINE = (
    "shop.parts is stale since 2026-11-22T09:15:07+00:00, at binlog.000007:5120, and is not "
    "merged: a partition was truncated: reload the table"
)


def check(merged: Any, **arguments: Any) -> dict[str, Any]:
    return BinlogTablesLiveOperator(task_id="live", merged=merged, **arguments).execute({})


def test_a_stale_table_fails_the_task_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AirflowFailException) as raised:
        check(REPORT)

    see = "(see=docs/troubleshooting.md#mergeerror)"
    first = "MergeError: tables that are not live: 1"
    assert str(raised.value).splitlines() == [first, f"{LINE} {see}"]

    assert check(REPORT, on_stale="warn")["not_live"]["shop.parts"]["status"] == "stale"
    assert LINE in capsys.readouterr().out


def test_live_tables_pass_and_a_run_without_a_merge_is_skipped() -> None:
    assert check(REPORT | {"tables": [ORDERS]}) == {"source": "shop", "not_live": {}}
    with pytest.raises(AirflowSkipException):
        check(None)


@pytest.mark.parametrize(
    ("merged", "on_stale", "says"),
    [
        ("x", "fail", "what the merge operator returned"),
        (REPORT, "perhaps", "fail, warn|warn, fail"),
    ],
)
def test_what_cannot_be_used_is_refused(merged: Any, on_stale: Any, says: str) -> None:
    with pytest.raises(AirflowFailException, match=says):
        check(merged, on_stale=on_stale)


def test_lines_of_a_merge() -> None:
    assert list(list_merged(REPORT)) == ["shop.orders: 1,204 inserted rows in 4.1 s"]
    assert describe_merge(REPORT) == "shop: merged up to manifest 42: 1 tables, 1,204 inserted rows"
    assert describe_merge(REPORT | {"tables": []}) == "shop: merged up to manifest 42"


class Sent(BaseNotifier):
    template_fields = ("text",)

    def __init__(self) -> None:
        super().__init__()
        self.text = "{{ source }}: {{ not_live }}"
        self.messages: list[str] = []

    def notify(self, context: Context) -> None:
        self.messages.append(self.text)


class Instance:
    task_id, map_index = "merge", -1

    def __init__(self, report: Any) -> None:
        self.report = report

    def xcom_pull(self, *, task_ids: str, map_indexes: int) -> Any:
        return self.report if (task_ids, map_indexes) == ("merge", -1) else None


@pytest.mark.parametrize(
    ("report", "messages"),
    [(REPORT, [f"shop: {LINE}"]), (REPORT | {"tables": [ORDERS]}, []), (None, [])],
)
def test_a_message_is_sent_about_tables_that_are_not_live(report: Any, messages: list[str]) -> None:
    sent = Sent()
    context: Any = {"ti": Instance(report), "source": "shop"}

    BinlogNotLiveNotifier(sent)(context)

    assert sent.messages == messages


class Event:
    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}
        self.added: list[tuple[Asset, dict[str, Any]]] = []

    def add(self, asset: Asset, extra: dict[str, Any]) -> None:
        self.added.append((asset, extra))


def test_an_asset_says_what_a_person_reads_and_an_alias_each_merged_table() -> None:
    lake, alias = Asset("lake"), AssetAlias("shop_tables")
    events = {lake: Event(), alias: Event()}
    task = BinlogMergeOperator(
        task_id="merge", staged={}, format="delta", lake="/l", outlets=[lake, alias]
    )
    context: Any = {"outlet_events": events}

    pass_to_outlets(task, context, describe_for_asset(REPORT))
    add_to_aliases(task, context, describe_for_aliases(REPORT))

    assert events[lake].extra == {
        "source": "shop",
        "through": 42,
        "stop": "binlog.000007:9310",
        "rows": {"shop.orders": {"inserted": 1_204}},
        "not_live": {"shop.parts": LINE},
        "versions": {"shop.orders": 7},
        "published": "a record",
    }
    ((asset, extra),) = events[alias].added
    assert asset.uri == "s3://lake/tables/shop/orders"
    assert extra == {
        "source": "shop",
        "table": "shop.orders",
        "inserted": 1_204,
        "version": 7,
        "stop": "binlog.000007:9310",
    }
    assert lake_asset("lake.`shop`.`orders`").name == "lake.shop.orders"
