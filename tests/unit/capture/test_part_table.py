"""Change columns of a part: what stands in its bytes follows from its rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.blocks.transactions import NO_NAME
from airflow_provider_binlog.capture.part_table import _Gtids
from airflow_provider_binlog.capture.pending import RowsColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from airflow_provider_binlog.rows.values import Array


def columns(prefix: list[int], number: list[int]) -> RowsColumns:
    nothing: NDArray[np.int64] = np.zeros(len(prefix), dtype=np.int64)
    return RowsColumns(
        start=nothing,
        size=nothing,
        type=nothing,
        table=nothing,
        file=nothing,
        position=nothing,
        row=nothing,
        prefix=np.array(prefix),
        number=np.array(number),
        commit_ts=nothing,
    )


def texts(prefix: list[int], prefixes: list[str]) -> Array:
    gtids = _Gtids(columns(prefix, [0, 7]), prefixes, [0])
    return gtids.of(0, gtids.transaction[np.array([0, 0, 0, 1, 1, 1])])


def test_a_transaction_without_a_name_shows_nothing_of_the_order_of_prefixes() -> None:
    one, other = texts([NO_NAME, 0], ["a:", "b:"]), texts([NO_NAME, 1], ["b:", "a:"])

    assert one.to_pylist() == [None, None, None, "a:7", "a:7", "a:7"]
    assert one.dictionary.equals(other.dictionary)  # type: ignore[attr-defined]
    assert one.equals(other)


def test_tables_that_are_staged_together_share_no_dictionary() -> None:
    events = columns([0] * 5, [7, 7, 8, 8, 9])
    gtids = _Gtids(events, ["a:"], [0, 1])
    rows = np.repeat(gtids.transaction, 3)

    together = [gtids.of(0, rows[:3]), gtids.of(1, rows[3:])]
    alone = [_Gtids(events.choose(part), ["a:"], [0]) for part in (slice(0, 1), slice(1, 5))]

    for one, gtid in zip(together, alone, strict=True):
        other = gtid.of(0, np.repeat(gtid.transaction, 3))
        assert one.equals(other)
        assert one.dictionary.equals(other.dictionary)  # type: ignore[attr-defined]
