"""Which tables a merge is for."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.spark.table_choice import TableChoice


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
