"""Where a snapshot lies in the log: by GTIDs what it saw, by coordinates what came after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.spark.reload.plan import Order, find_first, find_order, is_reached
from tests.unit.spark.plan.snapshots import snapshot
from tests.unit.spark.plans import manifest, statement
from tests.unit.spark.staged_changes import LOG

UUID = "fabf987e-e54b-11f1-bec6-02fc00000001"
ELSEWHERE = SourceIdentity(Flavor.MYSQL, "fabf987e-e54b-11f1-bec6-02fc00000002", "binlog")
MANIFESTS = [manifest(number) for number in (1, 2, 3)]  # from 1000 to 4000


def at(offset: int, gtid: int | None = None) -> Position:
    return Position(LOG, offset, None if gtid is None else f"{UUID}:1-{gtid}")


@pytest.mark.parametrize(
    ("low", "first"),
    [(999, None), (1000, 1), (1999, 1), (2000, 2), (3500, 3), (4000, 3), (9000, 3)],
)
def test_changes_are_replayed_from_the_last_manifest_that_is_contained(
    low: int, first: int | None
) -> None:
    assert find_first(snapshot(low=at(low)), reversed(MANIFESTS)) == first


def test_gtids_say_what_was_visible_whatever_was_logged_by_then() -> None:
    with_gtids = [
        replace(each, start=at(n * 1000, n), stop=at(n * 1000 + 1000, n + 1))
        for n, each in enumerate(MANIFESTS, 1)
    ]
    found = snapshot(low=at(9000, 2), high=at(9000))

    assert find_first(found, reversed(with_gtids)) == 2
    # Transaction 3 was not visible yet, although 4 was.
    out_of_order = replace(found, low=replace(at(9000), gtid=f"{UUID}:1-2:4"))
    assert find_first(out_of_order, reversed(with_gtids)) == 2
    assert find_first(out_of_order, reversed(MANIFESTS)) is None
    assert find_first(replace(found, low=at(9000, 1)), reversed(with_gtids[1:])) is None
    exact = replace(found, low=at(2500, 1), is_exact=True)
    assert find_first(exact, reversed(MANIFESTS)) == 2


def test_the_log_reaches_a_snapshot_with_all_that_it_may_have_seen() -> None:
    here = snapshot(high=at(2500))
    assert [is_reached(here, each) for each in MANIFESTS] == [False, True, True]

    promoted = [
        replace(each, identity=ELSEWHERE, stop=at(99, n)) for n, each in enumerate(MANIFESTS, 1)
    ]
    assert not any(is_reached(here, each) for each in promoted)
    known = snapshot(high=at(2500, 2))
    assert [is_reached(known, each) for each in promoted] == [False, True, True]


def test_statements_are_ordered_by_coordinates_and_elsewhere_by_gtids() -> None:
    found = snapshot(low=at(2100), high=at(2500, 2))
    orders = {
        offset: find_order(found, MANIFESTS[1], replace(statement(0), offset=offset))
        for offset in (2099, 2100, 2499, 2500)
    }
    assert list(orders.values()) == [Order.BEFORE, Order.WITHIN, Order.WITHIN, Order.AFTER]

    elsewhere = [replace(MANIFESTS[1], identity=ELSEWHERE, start=at(4, n)) for n in (1, 2)]
    found_there = [find_order(found, each, statement(0)) for each in elsewhere]
    assert found_there == [Order.WITHIN, Order.AFTER]
