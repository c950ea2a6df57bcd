"""Which tables a merge is for."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.spark.job.options import TableChoice


@pytest.mark.parametrize(
    ("tables", "exclude", "chosen"),
    [
        ([], [], ["a.t", "b.t", "b.tmp"]),
        (["b.*"], [], ["b.t", "b.tmp"]),
        (["b.*", "!*.tmp"], [], ["b.t"]),
        (["!b.*"], [], ["a.t"]),
        ([], ["b.*"], ["a.t"]),
        ([], ["b.*", "!b.t"], ["a.t", "b.t"]),
        (["!a.*"], ["b.tmp"], ["b.t"]),
        ([], ["!b.t"], ["a.t", "b.t", "b.tmp"]),
    ],
)
def test_globs_choose_and_negated_ones_take_back(
    tables: list[str], exclude: list[str], chosen: list[str]
) -> None:
    choice = TableChoice(tables, exclude)
    names = [("a", "t"), ("b", "t"), ("b", "tmp")]

    assert [".".join(name) for name in names if choice(name)] == chosen


def test_globs_that_match_nothing_are_found() -> None:
    choice = TableChoice(["shop.orders", "Shop.*", "!shop._*"], ["shop.audit", "*.tmp"])

    assert choice.unmatched([("shop", "orders"), ("shop", "tmp")]) == [
        "Shop.*",
        "!shop._*",
        "shop.audit",
    ]


def test_globs_may_leave_out_what_is_left_out_already() -> None:
    choice = TableChoice(
        ["shop.*", "!shop._*", "!shop._old[12]", "shop._new"], ["shop.audit", "!shop.audit_1"]
    )
    left_out = ["shop._*", "shop._old[12]", "shop.a*"]

    assert choice.unmatched([("shop", "orders")], left_out) == ["shop._new", "!shop.audit_1"]
    assert choice.unmatched([("shop", "orders")]) == [*choice.tables[1:], *choice.exclude]
